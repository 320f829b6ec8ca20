"""Break each named guard in a copy of the code, and expect a test to fail."""

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from tests.mutants.copies import MAX_CONCURRENCY, mutant_environment, repository_copies
from tests.mutants.mutation import MUTATIONS, CodeChange, Mutation, StaleMutationError

_TESTS_FAILED: Final = 1  # exit codes of pytest; with 2 and more it could not run
_TIMEOUT_SECONDS: Final = 600  # seconds; a test that hangs fails long before


@dataclass(frozen=True)
class NamedMutantResult:
    mutation: Mutation
    status: str
    seconds: float
    output: str = ""

    @property
    def is_killed(self) -> bool:
        return self.status == "caught"


def run_named(wanted: str) -> int:
    chosen = [one for one in MUTATIONS if wanted in one.name]
    began = time.monotonic()
    with repository_copies() as copies, ThreadPoolExecutor(MAX_CONCURRENCY) as pool:
        verdicts = list(pool.map(lambda one: _print_result(_run_mutation(one, copies)), chosen))
    caught = sum(one.is_killed for one in verdicts)
    sys.stdout.write(f"\n{caught} of {len(chosen)} caught, {time.monotonic() - began:.0f} s\n")
    return 0 if caught == len(chosen) else 1


@contextmanager
def mutated(change: CodeChange, root: Path) -> Iterator[None]:
    file = root / change.file
    broken, sound = change.apply(root), file.read_text()
    file.write_text(broken)
    try:
        yield
    finally:
        file.write_text(sound)


_PASSING_TESTS: Final[set[tuple[str, ...]]] = set()  # tests that pass on sound code


def _run_mutation(mutation: Mutation, copies: "SimpleQueue[Path]") -> NamedMutantResult:
    root = copies.get()
    began = time.monotonic()
    try:
        # A failure for another reason would prove nothing.
        if mutation.pytest_arguments not in _PASSING_TESTS:
            sound = _pytest(mutation, root)
            if sound.returncode:
                said = sound.stdout[-2000:]
                return NamedMutantResult(mutation, "RED BEFORE", time.monotonic() - began, said)
            _PASSING_TESTS.add(mutation.pytest_arguments)
        with mutated(mutation, root):
            broken = _pytest(mutation, root)
    except StaleMutationError as error:
        return NamedMutantResult(mutation, "STALE", time.monotonic() - began, str(error))
    except subprocess.TimeoutExpired:
        return NamedMutantResult(mutation, "TOO SLOW", time.monotonic() - began)
    finally:
        copies.put(root)
    word = {0: "SURVIVED", _TESTS_FAILED: "caught"}.get(broken.returncode, "DID NOT RUN")
    said = "" if word == "caught" else broken.stdout[-2000:]
    return NamedMutantResult(mutation, word, time.monotonic() - began, said)


def _pytest(mutation: Mutation, root: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            *mutation.pytest_arguments,
        ],
        cwd=root,
        # Compiled files are told apart by second and size: a mutation may change neither.
        env={**mutant_environment(root), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_SECONDS,
        check=False,
    )


def _print_result(verdict: NamedMutantResult) -> NamedMutantResult:
    sys.stdout.write(f"{verdict.status:<12}{verdict.seconds:>6.1f} s  {verdict.mutation.name}\n")
    if verdict.output:
        sys.stdout.write(f"{verdict.output}\n")
    sys.stdout.flush()
    return verdict
