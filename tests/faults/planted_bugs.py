"""`make faults ARGS=--planted`: each planted bug breaks a scenario, in a copy of the code."""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass as validated_dataclass

from tests.mutants.copies import MAX_CONCURRENCY, mutant_environment, repository_copies
from tests.mutants.mutation import STRICT, CodeChange, StaleMutationError, load
from tests.mutants.named_mutants import mutated

_TIMEOUT_SECONDS: Final = 3600  # seconds; a bug that survives takes as long as its scenario


@validated_dataclass(frozen=True, config=STRICT)
class FurtherChange:
    """Another guard against the same bug, which is broken with it."""

    file: str
    old: str
    new: str


@validated_dataclass(frozen=True, config=STRICT)
class PlantedBug(CodeChange):
    """A bug with which a schedule of `scenario` violates an invariant."""

    scenario: str
    expects: str = ""  # part of the violation
    also: tuple[FurtherChange, ...] = ()

    @property
    def changes(self) -> tuple[CodeChange, ...]:
        more = (CodeChange(self.name, one.file, one.old, one.new) for one in self.also)
        return (self, *more)


PLANTED_BUGS: Final = tuple(
    load(Path(__file__).with_name("planted_bugs.toml"), TypeAdapter(list[PlantedBug]))
)


@dataclass(frozen=True)
class PlantedBugResult:
    bug: PlantedBug
    status: str
    seconds: float
    details: str = ""

    @property
    def is_caught(self) -> bool:
        return self.status == "caught"


def run_planted(wanted: str) -> int:
    """Plant each bug with this text in its name. Returns 1 if a bug is not caught."""
    chosen = [one for one in PLANTED_BUGS if wanted in one.name]
    if not chosen:
        sys.stderr.write(f"no planted bug has {wanted!r} in its name\n")
        return 2
    began = time.monotonic()
    with repository_copies(("functions",)) as copies, ThreadPoolExecutor(MAX_CONCURRENCY) as pool:
        results = list(pool.map(lambda one: _print_result(_run_bug(one, copies)), chosen))
    caught = sum(one.is_caught for one in results)
    seconds = time.monotonic() - began
    sys.stdout.write(f"\n{caught} of {len(chosen)} caught, {seconds:.0f} s\n")
    return 0 if caught == len(chosen) else 1


def _run_bug(bug: PlantedBug, copies: "SimpleQueue[Path]") -> PlantedBugResult:
    root = copies.get()
    began = time.monotonic()
    try:
        with ExitStack() as planted:
            for change in bug.changes:
                planted.enter_context(mutated(change, root))
            found = _explore(bug, root)
        status, details = _status(bug, found)
        # A schedule that also fails without the bug would prove nothing.
        if status == "caught" and (sound := _replay(found["script"], root)).returncode:
            status, details = "RED BEFORE", sound.stdout[-2000:]
    except (StaleMutationError, subprocess.SubprocessError, json.JSONDecodeError) as error:
        status, details = "DID NOT RUN", f"{error}\n{getattr(error, 'stderr', None) or ''}"[-2000:]
    finally:
        copies.put(root)
    return PlantedBugResult(bug, status, time.monotonic() - began, details)


def _status(bug: PlantedBug, found: dict[str, Any]) -> tuple[str, str]:
    if found["script"] is None:
        return "SURVIVED", f"{found['schedules']} schedules of {bug.scenario}"
    lines = (f"REPLAY='{found['script']}'", *(f"  {one}" for one in found["problems"]))
    shown = "\n".join((f"schedule {found['schedules']}", *lines))
    if not any(bug.expects in problem for problem in found["problems"]):
        return "OTHER VIOLATION", f"{shown}\n  expected: {bug.expects}"
    return "caught", shown


def _explore(bug: PlantedBug, root: Path) -> dict[str, Any]:
    done = _python(root, "tests.faults.first_violation", bug.scenario)
    done.check_returncode()
    found: dict[str, Any] = json.loads(done.stdout)
    if not Path(found["code"]).is_relative_to(root):
        raise StaleMutationError(f"{bug.name}: explored the code in {found['code']}, not in {root}")
    return found


def _replay(script: str, root: Path) -> "subprocess.CompletedProcess[str]":
    return _python(root, "oncely.testing", "tests.faults.scenarios", "--replay", script)


def _python(root: Path, module: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=root,
        # Compiled files are told apart by second and size: a bug may change neither.
        env={**mutant_environment(root), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_SECONDS,
        check=False,
    )


def _print_result(result: PlantedBugResult) -> PlantedBugResult:
    sys.stdout.write(f"{result.status:<16}{result.seconds:>6.1f} s  {result.bug.name}\n")
    sys.stdout.write("".join(f"    {line}\n" for line in result.details.splitlines()))
    sys.stdout.flush()
    return result
