"""docs/core.md names every module of the core, and what breaks each guard that it lists."""

import re
import tomllib
from pathlib import Path
from typing import Final

from oncely_cdk.paths import FUNCTIONS
from tests.docs.pages import REPOSITORY, page

PAGE: Final = page("docs/core.md")
TESTS: Final = REPOSITORY / "tests"
# Small and general: values, texts and errors.
_NOT_ON_THE_TOUR: Final = frozenset(
    {"__init__", "aws_errors", "errors", "money", "schedule", "text"}
)


def test_tour_visits_every_module_once() -> None:
    modules = {path.stem for path in (FUNCTIONS / "oncely/core").glob("*.py")}
    lines = [line for line in PAGE.text.splitlines() if re.match(r"`\w+\.py`", line)]
    visited = [name for line in lines for name in re.findall(r"`(\w+)\.py`", line)]

    assert sorted(visited) == sorted(modules - _NOT_ON_THE_TOUR)


def test_each_guard_is_broken_by_its_mutation_or_planted_bug() -> None:
    planted = _names(TESTS / "faults/planted_bugs.toml", "planted")
    curated = {
        name
        for path in (TESTS / "mutants/curated").glob("*.toml")
        for name in _names(path, "mutation")
    }
    cells = [line.split("|")[3] for line in PAGE.text.splitlines() if line.count("|") > 3]
    quoted = [(cell, name) for cell in cells for name in re.findall(r'"([^"]+)"', cell)]

    assert len(quoted) > 20
    for cell, name in quoted:
        assert name in (planted if "planted" in cell else curated)


def _names(path: Path, table: str) -> set[str]:
    return {one["name"] for one in tomllib.loads(path.read_text(encoding="utf-8"))[table]}
