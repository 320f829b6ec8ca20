"""Every planted bug still applies, and its scenario exists."""

import ast

import pytest

from oncely_cdk.paths import REPOSITORY
from tests.faults.planted_bugs import PLANTED_BUGS, PlantedBug
from tests.faults.scenarios import SCENARIOS


@pytest.mark.parametrize("bug", PLANTED_BUGS, ids=lambda one: one.name)
def test_bug_applies_exactly_once_and_leaves_valid_code(bug: PlantedBug) -> None:
    for change in bug.changes:
        source = (REPOSITORY / change.file).read_text(encoding="utf-8")
        assert ast.dump(ast.parse(change.apply(REPOSITORY))) != ast.dump(ast.parse(source))


def test_scenario_of_bug_exists() -> None:
    names = {one.name for one in SCENARIOS}
    assert [one.name for one in PLANTED_BUGS if one.scenario not in names] == []


def test_only_folder_of_copied_code_is_changed() -> None:
    files = {change.file for bug in PLANTED_BUGS for change in bug.changes}
    assert all(one.startswith("functions/") for one in files)


def test_bug_names_are_unique() -> None:
    assert len({one.name for one in PLANTED_BUGS}) == len(PLANTED_BUGS)
