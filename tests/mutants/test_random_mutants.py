"""The random choice can be repeated, runs the cheapest tests first, and reports clearly."""

from pathlib import Path

import pytest

from oncely_cdk.paths import REPOSITORY
from tests.mutants.__main__ import main
from tests.mutants.coverage_map import Coverage, ReachingTest, find_importers
from tests.mutants.mutation import JUSTIFIED_SURVIVORS, JustifiedSurvivor
from tests.mutants.random_mutants import (
    BUDGET_SECONDS,
    MutantSelection,
    UsageError,
    limit_to_budget,
    mutated,
    select_sites,
    split_into_batches,
)
from tests.mutants.report import MutantStatus, RandomMutantResult, format_summary, mutated_line
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


def make_site(operator: str) -> Site:
    return next(one for one in find_sites(FILE, SOURCE) if one.operator == operator)


def make_reaching_test(name: str, seconds: float = 0.001, **lines: set[int]) -> ReachingTest:
    files = {f"functions/shop/{file}.py": frozenset(found) for file, found in lines.items()}
    return ReachingTest(f"tests/{name}.py::test", seconds, files)


def make_result(verdict: MutantStatus, note: str = "") -> RandomMutantResult:
    return RandomMutantResult(make_site("comparison"), SOURCE, verdict, 1.5, note)


def test_choice_is_repeatable_with_same_seed(root: Path) -> None:
    chosen = select_sites(MutantSelection(count=3, seed=7), root)

    assert len(chosen) == 3
    assert chosen == select_sites(MutantSelection(count=3, seed=7), root)
    assert any(
        chosen != select_sites(MutantSelection(count=3, seed=seed), root) for seed in range(20)
    )


def test_choice_takes_every_site_when_there_are_fewer(root: Path) -> None:
    chosen = select_sites(MutantSelection(count=1000, seed=7, files=(FILE,)), root)
    assert chosen == find_sites(FILE, SOURCE)


def test_choice_of_line_takes_all_its_sites(root: Path) -> None:
    chosen = select_sites(MutantSelection(count=0, seed=0, at=f"{FILE}:5"), root)
    assert {one.line for one in chosen} == {5}
    assert {one.operator for one in chosen} == {"comparison", "returned value"}


def test_empty_choice_error_says_what_to_pass(root: Path) -> None:
    with pytest.raises(UsageError, match="Pass --in functions"):
        select_sites(MutantSelection(count=3, seed=7, files=("docs",)), root)
    with pytest.raises(UsageError, match="Pass --at FILE:LINE"):
        select_sites(MutantSelection(count=0, seed=0, at=f"{FILE}:2"), root)


@pytest.mark.parametrize(
    "arguments", [["--seed", "1"], ["--in", "functions"], ["lease", "--random", "3"]]
)
def test_incompatible_arguments_are_rejected(arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)


def test_site_is_tested_by_tests_that_run_its_lines() -> None:
    reach = Coverage(
        (make_reaching_test("other", basket={4}), make_reaching_test("own", basket={5})), {}
    )

    assert [test.id for test in reach.tests_reaching(make_site("comparison"))] == [
        "tests/own.py::test"
    ]


def test_site_at_import_is_tested_by_tests_of_file_and_importers(root: Path) -> None:
    importers = find_importers(root)
    tests = (
        make_reaching_test("basket", basket={5}),
        make_reaching_test("till", till={9}),
        make_reaching_test("other", x={1}),
    )

    found = Coverage(tests, importers).tests_reaching(make_site("number"))

    assert {test.id for test in found} == {"tests/basket.py::test", "tests/till.py::test"}


def test_specific_tests_run_first_and_engine_tests_last() -> None:
    tests = (
        make_reaching_test("slow", 3.0, basket={5}),
        make_reaching_test("integration/engine", basket={5}),
        make_reaching_test("broad", basket={1, 4, 5}),
        make_reaching_test("specific", basket={5}),
    )

    found = Coverage(tests, {}).tests_reaching(make_site("comparison"))

    names = [test.file.removeprefix("tests/").removesuffix(".py") for test in found]
    assert names == ["specific", "broad", "slow", "integration/engine"]
    assert [len(batch.tests) for batch in split_into_batches(found)] == [3, 1]


def test_tests_over_budget_are_omitted_but_never_all() -> None:
    slow = make_reaching_test("slow", BUDGET_SECONDS + 1, basket={5})
    quick = make_reaching_test("quick", basket={5})
    assert limit_to_budget([quick, slow]) == [quick]
    assert limit_to_budget([slow, quick]) == [slow]


def test_mutant_is_applied_in_copy_and_undone(root: Path) -> None:
    file = root / FILE
    with mutated(make_site("comparison"), root):
        assert file.read_text() == SOURCE.replace(">=", ">")
        during = file.stat().st_mtime

    assert file.read_text() == SOURCE
    assert file.stat().st_mtime != during, "a compiled file would count as current"


def test_result_line_names_location_and_change() -> None:
    line = make_result(MutantStatus.KILLED).format_line()
    assert line.split() == f"caught 1.5 s {FILE}:5 comparison: >= → >".split()


def test_summary_shows_survivor_diffs_and_counts_verdicts() -> None:
    results = [
        make_result(MutantStatus.KILLED),
        make_result(MutantStatus.SURVIVED),
        make_result(MutantStatus.JUSTIFIED, "the limit is never met"),
        make_result(MutantStatus.NOT_COVERED),
    ]

    text = format_summary(results, seconds=61.4)

    assert text.count("-    return size >= LIMIT\n+    return size > LIMIT\n") == 1
    assert "the limit is never met" in text
    assert "4 mutants in 61 s: 1 caught, 1 survived, 1 justified, 1 no test reaches it" in text


def test_only_survivors_and_errors_fail_run() -> None:
    failures = {verdict for verdict in MutantStatus if verdict.is_failure}
    assert failures == {MutantStatus.SURVIVED, MutantStatus.ERROR}


@pytest.mark.parametrize("entry", JUSTIFIED_SURVIVORS, ids=lambda one: f"{one.file}: {one.mutated}")
def test_justified_mutant_still_exists(entry: JustifiedSurvivor) -> None:
    source = (REPOSITORY / entry.file).read_text()
    found = {mutated_line(one, source) for one in find_sites(entry.file, source)}

    assert (entry.line, entry.mutated) in found, (
        "remove it from tests/mutants/justified_survivors.toml"
    )
    assert entry.reason
