"""The random choice can be repeated, runs the cheapest tests first, and reports clearly."""

from pathlib import Path

import pytest

from infra import REPOSITORY
from tests.mutants.__main__ import main
from tests.mutants.justified import JUSTIFIED, Justified
from tests.mutants.random_mutants import (
    BUDGET_SECONDS,
    Choice,
    UsageError,
    batched,
    choose,
    mutated,
    within_budget,
)
from tests.mutants.reach import Reach, ReachingTest, find_importers
from tests.mutants.report import Result, Verdict, mutated_line, summary
from tests.mutants.sites import Site, find_sites

SOURCE = "LIMIT = 3\n\n\ndef full(size: int) -> bool:\n    return size >= LIMIT\n"
FILE = "functions/shop/basket.py"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    file = tmp_path / FILE
    file.parent.mkdir(parents=True)
    file.write_text(SOURCE)
    (file.parent / "till.py").write_text("from shop.basket import full\n\nOPEN = full(2) or 1\n")
    return tmp_path


def site(operator: str) -> Site:
    return next(one for one in find_sites(FILE, SOURCE) if one.operator == operator)


def reaching(name: str, seconds: float = 0.001, **lines: set[int]) -> ReachingTest:
    files = {f"functions/shop/{file}.py": frozenset(found) for file, found in lines.items()}
    return ReachingTest(f"tests/{name}.py::test", seconds, files)


def result(verdict: Verdict, note: str = "") -> Result:
    return Result(site("comparison"), SOURCE, verdict, 1.5, note)


def test_choice_is_repeatable_with_same_seed(root: Path) -> None:
    chosen = choose(Choice(number=3, seed=7), root)

    assert len(chosen) == 3
    assert chosen == choose(Choice(number=3, seed=7), root)
    assert any(chosen != choose(Choice(number=3, seed=seed), root) for seed in range(20))


def test_choice_takes_every_site_when_there_are_fewer(root: Path) -> None:
    chosen = choose(Choice(number=1000, seed=7, within=(FILE,)), root)

    assert chosen == find_sites(FILE, SOURCE)


def test_choice_of_line_takes_all_its_sites(root: Path) -> None:
    chosen = choose(Choice(number=0, seed=0, at=f"{FILE}:5"), root)

    assert {one.line for one in chosen} == {5}
    assert {one.operator for one in chosen} == {"comparison", "returned value"}


def test_empty_choice_error_says_what_to_pass(root: Path) -> None:
    with pytest.raises(UsageError, match="Pass --in functions"):
        choose(Choice(number=3, seed=7, within=("docs",)), root)
    with pytest.raises(UsageError, match="Pass --at FILE:LINE"):
        choose(Choice(number=0, seed=0, at=f"{FILE}:2"), root)


@pytest.mark.parametrize(
    "arguments", [["--seed", "1"], ["--in", "functions"], ["lease", "--random", "3"]]
)
def test_incompatible_arguments_are_rejected(arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)


def test_site_is_tested_by_tests_that_run_its_lines() -> None:
    reach = Reach((reaching("other", basket={4}), reaching("own", basket={5})), {})

    assert [test.id for test in reach.tests_for(site("comparison"))] == ["tests/own.py::test"]


def test_site_at_import_is_tested_by_tests_of_file_and_importers(root: Path) -> None:
    importers = find_importers(root)
    tests = (reaching("basket", basket={5}), reaching("till", till={9}), reaching("other", x={1}))

    found = Reach(tests, importers).tests_for(site("number"))

    assert {test.id for test in found} == {"tests/basket.py::test", "tests/till.py::test"}


def test_specific_tests_run_first_and_engine_tests_last() -> None:
    tests = (
        reaching("slow", 3.0, basket={5}),
        reaching("integration/engine", basket={5}),
        reaching("broad", basket={1, 4, 5}),
        reaching("specific", basket={5}),
    )

    found = Reach(tests, {}).tests_for(site("comparison"))

    names = [test.file.removeprefix("tests/").removesuffix(".py") for test in found]
    assert names == ["specific", "broad", "slow", "integration/engine"]
    assert [len(batch.tests) for batch in batched(found)] == [3, 1]


def test_tests_over_budget_are_omitted_but_never_all() -> None:
    slow = reaching("slow", BUDGET_SECONDS + 1, basket={5})
    quick = reaching("quick", basket={5})

    assert within_budget([quick, slow]) == [quick]
    assert within_budget([slow, quick]) == [slow]


def test_mutant_is_applied_in_copy_and_undone(root: Path) -> None:
    file = root / FILE
    with mutated(site("comparison"), root):
        assert file.read_text() == SOURCE.replace(">=", ">")
        during = file.stat().st_mtime

    assert file.read_text() == SOURCE
    assert file.stat().st_mtime != during, "a compiled file would count as current"


def test_result_line_names_location_and_change() -> None:
    line = result(Verdict.CAUGHT).line()

    assert line.split() == f"caught 1.5 s {FILE}:5 comparison: >= → >".split()


def test_summary_shows_survivor_diffs_and_counts_verdicts() -> None:
    results = [
        result(Verdict.CAUGHT),
        result(Verdict.SURVIVED),
        result(Verdict.JUSTIFIED, "the limit is never met"),
        result(Verdict.UNREACHED),
    ]

    text = summary(results, seconds=61.4)

    assert text.count("-    return size >= LIMIT\n+    return size > LIMIT\n") == 1
    assert "the limit is never met" in text
    assert "4 mutants in 61 s: 1 caught, 1 survived, 1 justified, 1 no test reaches it" in text


def test_only_survivors_and_errors_fail_run() -> None:
    failures = {verdict for verdict in Verdict if verdict.is_failure}

    assert failures == {Verdict.SURVIVED, Verdict.ERROR}


@pytest.mark.parametrize("entry", JUSTIFIED, ids=lambda one: f"{one.file}: {one.mutated}")
def test_justified_mutant_still_exists(entry: Justified) -> None:
    source = (REPOSITORY / entry.file).read_text()
    found = {mutated_line(one, source) for one in find_sites(entry.file, source)}

    assert (entry.line, entry.mutated) in found, "remove it from tests/mutants/justified.py"
    assert entry.reason
