"""Break each named guard in a copy of the code, and see a test fail."""

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Final

from tests.mutants.copies import copied, environment
from tests.mutants.mutation import Mutation
from tests.mutants.mutations import MUTATIONS

SIDE_BY_SIDE: Final = 2
_TESTS_FAILED: Final = 1  # what pytest says; 2 and more: it could not even run
_LONGEST: Final = 600  # seconds; a test that hangs fails by itself long before


@dataclass(frozen=True)
class Verdict:
    """What the tests said about one mutation."""

    mutation: Mutation
    word: str
    seconds: float
    said: str = ""

    @property
    def is_caught(self) -> bool:
        """Whether a test went red."""
        return self.word == "caught"


def try_named(wanted: str) -> int:
    """Try the mutations with this text in their name; 1 unless every one is caught."""
    chosen = [one for one in MUTATIONS if wanted in one.name]
    began = time.monotonic()
    with TemporaryDirectory() as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(SIDE_BY_SIDE):
            copies.put(copied(Path(folder, str(number))))
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            verdicts = list(pool.map(lambda one: _told(_tried(one, copies)), chosen))
    caught = sum(one.is_caught for one in verdicts)
    sys.stdout.write(f"\n{caught} of {len(chosen)} caught, {time.monotonic() - began:.0f} s\n")
    return 0 if caught == len(chosen) else 1


@contextmanager
def mutated(mutation: Mutation, root: Path) -> Iterator[None]:
    """The copy with one guard broken."""
    file = root / mutation.file
    sound = file.read_text()
    if sound.count(mutation.old) != 1:
        raise LookupError(f"its text stands {sound.count(mutation.old)} times in {mutation.file}")
    file.write_text(sound.replace(mutation.old, mutation.new))
    try:
        yield
    finally:
        file.write_text(sound)


_GREEN: Final[set[tuple[str, ...]]] = set()  # tests that pass on sound code


def _tried(mutation: Mutation, copies: "SimpleQueue[Path]") -> Verdict:
    root = copies.get()
    began = time.monotonic()
    try:
        # Red for another reason would prove nothing.
        if mutation.caught_by not in _GREEN:
            sound = _pytest(mutation, root)
            if sound.returncode:
                said = sound.stdout[-2000:]
                return Verdict(mutation, "RED BEFORE", time.monotonic() - began, said)
            _GREEN.add(mutation.caught_by)
        with mutated(mutation, root):
            broken = _pytest(mutation, root)
    except LookupError as error:
        return Verdict(mutation, "STALE", time.monotonic() - began, str(error))
    except subprocess.TimeoutExpired:
        return Verdict(mutation, "TOO SLOW", time.monotonic() - began)
    finally:
        copies.put(root)
    word = {0: "SURVIVED", _TESTS_FAILED: "caught"}.get(broken.returncode, "DID NOT RUN")
    said = "" if word == "caught" else broken.stdout[-2000:]
    return Verdict(mutation, word, time.monotonic() - began, said)


def _pytest(mutation: Mutation, root: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *mutation.caught_by],
        cwd=root,
        # Compiled files are told apart by second and size: a mutation may change neither.
        env={**environment(root), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=_LONGEST,
        check=False,
    )


def _told(verdict: Verdict) -> Verdict:
    sys.stdout.write(f"{verdict.word:<12}{verdict.seconds:>6.1f} s  {verdict.mutation.name}\n")
    if verdict.said:
        sys.stdout.write(f"{verdict.said}\n")
    sys.stdout.flush()
    return verdict
