"""Mutate random places of the product, run the tests that reach them, and report survivors."""

import contextlib
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, groupby
from pathlib import Path
from typing import Final

from oncely_cdk.paths import REPOSITORY
from tests.mutants.copies import MAX_CONCURRENCY, mutant_environment, repository_copies
from tests.mutants.coverage_map import (
    FIXED,
    NEEDS_ENGINE,
    Coverage,
    ReachingTest,
    load_coverage,
    product_files,
)
from tests.mutants.mutation import JUSTIFIED_SURVIVORS
from tests.mutants.report import MutantStatus, RandomMutantResult, format_summary, mutated_line
from tests.mutants.sites import Site, find_sites

# Most mutants fail one of their most specific tests; only the others need the rest collected.
_FIRST_TESTS: Final = 40
# Seconds of tests on sound code for one mutant; the cheapest ones are within it.
BUDGET_SECONDS: Final = 90.0
# Other processes use the machine as well: a mutant hangs only if it takes far longer.
_SLACK_SECONDS: Final = 45.0
_SLACK: Final = 5
_TEST_TIMEOUT_SECONDS: Final = 30
_MEMORY_BYTES: Final = 6 * 2**30  # an endless loop may collect without end
_PASSED: Final = 0
_FAILED: Final = frozenset({1, 2})  # a test failed, or a test file could not be imported
_NOT_FOUND: Final = 4
# Compiled files are told apart by time and size: no two mutants of a file share a time.
_TIMES: Final = count(1_000_000_000)


@dataclass(frozen=True)
class MutantSelection:
    """What to mutate: so many random sites, or all on one line."""

    count: int
    seed: int
    files: tuple[str, ...] = ()
    at: str = ""
    tests: tuple[str, ...] = ()  # instead of those that reach the site


class UsageError(Exception):
    """The arguments select nothing."""


def seed_of_head() -> int:
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"],  # noqa: S607  # the developer's own git
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout[:8], 16)


def all_sites(root: Path, within: Sequence[str] = ()) -> list[Site]:
    folders = [Path(path.removeprefix("./")) for path in within]
    sites: list[Site] = []
    for file in product_files(root):
        name = file.relative_to(root)
        if not folders or any(name.is_relative_to(folder) for folder in folders):
            sites += find_sites(str(name), file.read_text())
    return sites


def select_sites(choice: MutantSelection, root: Path) -> list[Site]:
    if choice.at:
        file, _, line = choice.at.rpartition(":")
        chosen = [site for site in all_sites(root, [file]) if str(site.line) == line]
        if not chosen:
            raise UsageError(f"Nothing to mutate at {choice.at}. Pass --at FILE:LINE.")
        return chosen
    sites = all_sites(root, choice.files)
    if not sites:
        places = ", ".join(choice.files)
        raise UsageError(f"No code to mutate in {places}. Pass --in functions/… or a file there.")
    chosen = random.Random(choice.seed).sample(sites, min(choice.count, len(sites)))  # noqa: S311  # not a secret
    return sorted(chosen, key=lambda site: (site.file, site.start, site.new))


def run_random(choice: MutantSelection) -> int:
    began = time.monotonic()
    with repository_copies() as copies:
        root = copies.get()
        sites = select_sites(choice, root)
        if not choice.at:
            _print(f"{len(sites)} random mutants, seed {choice.seed}")
        reach = None if choice.tests else load_coverage(root, progress=_print)
        copies.put(root)

        def tried(site: Site) -> RandomMutantResult:
            root = copies.get()
            try:
                result = _run_site(site, root, reach, choice.tests)
            finally:
                copies.put(root)
            _print(result.format_line())
            return result

        with ThreadPoolExecutor(MAX_CONCURRENCY) as pool:
            results = list(pool.map(tried, sites))
    _print(format_summary(results, seconds=time.monotonic() - began))
    return 1 if any(result.status.is_failure for result in results) else 0


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _run_site(
    site: Site, root: Path, reach: Coverage | None, tests: Sequence[str]
) -> RandomMutantResult:
    began = time.monotonic()
    source = (root / site.file).read_text()

    def result(verdict: MutantStatus, note: str = "") -> RandomMutantResult:
        return RandomMutantResult(site, source, verdict, time.monotonic() - began, note)

    for known in JUSTIFIED_SURVIVORS:
        if (known.file, known.line, known.mutated) == (site.file, *mutated_line(site, source)):
            return result(MutantStatus.JUSTIFIED, known.reason)
    if reach is None:
        batches = [MutantTestBatch(tuple(tests), 0.0)]
        note = ""
    else:
        reaching = reach.tests_reaching(site)
        if not reaching:
            return result(MutantStatus.NOT_COVERED)
        batches = list(split_into_batches(limit_to_budget(reaching)))
        run = sum(len(batch.tests) for batch in batches)
        note = f"{run} of {len(reaching)} tests"
    with mutated(site, root):
        for batch in batches:
            verdict = _run_batch(batch, root)
            if verdict is not MutantStatus.SURVIVED:
                return result(verdict)
    return result(MutantStatus.SURVIVED, note)


@dataclass(frozen=True)
class MutantTestBatch:
    tests: tuple[str, ...]
    seconds: float


def limit_to_budget(tests: Sequence[ReachingTest]) -> list[ReachingTest]:
    chosen: list[ReachingTest] = []
    seconds = 0.0
    for test in tests:
        seconds += test.seconds
        if chosen and seconds > BUDGET_SECONDS:
            break
        chosen.append(test)
    return chosen


def split_into_batches(tests: Sequence[ReachingTest]) -> Iterator[MutantTestBatch]:
    """Split tests in batches: the first few, the others, and those that need the engine."""
    numbered = enumerate(tests)
    for _, group in groupby(
        numbered, lambda pair: (pair[0] < _FIRST_TESTS, pair[1].file.startswith(NEEDS_ENGINE))
    ):
        members = [test for _, test in group]
        yield MutantTestBatch(
            tuple(test.id for test in members), sum(test.seconds for test in members)
        )


@contextmanager
def mutated(site: Site, root: Path) -> Iterator[None]:
    file = root / site.file
    source = file.read_text()
    try:
        _write(file, site.apply(source))
        yield
    finally:
        _write(file, source)


def _write(file: Path, source: str) -> None:
    file.write_text(source)
    moment = next(_TIMES)
    os.utime(file, (moment, moment))


def _run_batch(batch: MutantTestBatch, root: Path) -> MutantStatus:
    code = _pytest(batch.tests, batch.seconds, root)
    if code == _NOT_FOUND:
        # The mutant changed the parameters of a test, and so its name: run the whole file.
        files = dict.fromkeys(test.partition("::")[0] for test in batch.tests)
        code = _pytest(tuple(files), batch.seconds, root)
    if code is None:
        return MutantStatus.TIMEOUT
    if code == _PASSED:
        return MutantStatus.SURVIVED
    # Also when no test can start any more, because what all of them import is broken.
    return MutantStatus.KILLED if code in _FAILED or code == _NOT_FOUND else MutantStatus.ERROR


def _pytest(tests: Sequence[str], seconds: float, root: Path) -> int | None:
    """Run tests in a copy. Returns None if they took too long."""
    names = root.parent / f"{root.name}.tests"
    names.write_text("".join(f"{test}\n" for test in tests))
    command = [sys.executable, "-m", "pytest", "-q", "-x", *FIXED]
    with subprocess.Popen(
        [*command, "-o", f"timeout={_TEST_TIMEOUT_SECONDS}", f"@{names}"],
        cwd=root,
        env=mutant_environment(root),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # the engine that a test starts ends with it
    ) as process:
        _limit_memory(process.pid)
        try:
            return process.wait(_SLACK_SECONDS + _SLACK * seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _limit_memory(pid: int) -> None:
    limit: Callable[[int, int, tuple[int, int]], object] | None
    limit = getattr(resource, "prlimit", None)  # only Linux has it
    if limit is not None:
        with contextlib.suppress(ProcessLookupError):
            limit(pid, resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
