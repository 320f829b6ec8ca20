"""Which tests reach a line of the product, recorded once and kept in `.build/`.

Only suites that run the product inside the pytest process can be recorded. Code that runs only
in another process or on a deployed stack counts as not reached.
"""

import ast
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from oncely_cdk.paths import REPOSITORY
from tests.mutants import record_coverage as record_reach
from tests.mutants.copies import mutant_environment
from tests.mutants.sites import Site

# Not the fault explorer: it would take minutes, and a guard that only it tests lacks a unit test.
SUITES: Final = ("tests/unit", "tests/conformance", "tests/integration")
# They measure costs, wait for leases or start processes of their own, and reach nothing more.
EXCLUDED_TESTS: Final = frozenset(
    {
        "tests/integration/test_contact_races.py",
        "tests/integration/test_engine.py",
        "tests/integration/test_sweep_cost.py",
        "tests/integration/test_paused_worker.py",
        "tests/integration/test_processes.py",
        "tests/integration/test_races.py",
        "tests/integration/test_job_query_cost.py",
    }
)
# Only these need the local engine to start, which takes seconds.
NEEDS_ENGINE: Final = "tests/integration/"
# A test on MiniStack repeats one on moto.
WITHOUT_MINISTACK: Final = ("-k", "not ministack")
FIXED: Final = ("-p", "no:randomly", "-p", "no:cacheprovider", "--hypothesis-seed=0")
_PROCESSES: Final = 2
_PROGRESS_SECONDS: Final = 30.0


@dataclass(frozen=True)
class ReachingTest:
    id: str
    seconds: float
    lines: Mapping[str, frozenset[int]]

    @property
    def file(self) -> str:
        return self.id.partition("::")[0]

    @cached_property
    def _cost(self) -> int:
        """Order tests by magnitude: a few milliseconds do not matter."""
        return sum(self.seconds > limit for limit in (0.02, 0.1, 0.5, 2.0))

    @cached_property
    def order(self) -> tuple[bool, int, int, str]:
        """Sort the cheap tests first, and among them the most specific: they run few lines."""
        size = sum(len(lines) for lines in self.lines.values())
        return self.file.startswith(NEEDS_ENGINE), self._cost, size, self.id


@dataclass(frozen=True)
class Coverage:
    tests: tuple[ReachingTest, ...]
    importers: Mapping[str, frozenset[str]]

    def tests_reaching(self, site: Site) -> list[ReachingTest]:
        if site.at_import:
            # Nobody knows which tests use what an import has left behind: every test counts that
            # runs something of this file, or of a file that imports it.
            files = {site.file, *self.importers.get(site.file, ())}
            found = [test for test in self.tests if not files.isdisjoint(test.lines)]
        else:
            found = [
                test
                for test in self.tests
                if not test.lines.get(site.file, frozenset()).isdisjoint(site.lines)
            ]
        return sorted(found, key=lambda test: test.order)


def product_files(root: Path) -> list[Path]:
    return sorted((root / "functions").rglob("*.py"))


def load_coverage(root: Path, *, progress: Callable[[str], None]) -> Coverage:
    """Read the recorded reach; record first what is missing or has changed, in the copy `root`."""
    cache = REPOSITORY / ".build" / f"reach-{_digest(_shared_files(root), root)}.json"
    known: dict[str, Any] = json.loads(cache.read_text()) if cache.exists() else {}
    digests = {str(file.relative_to(root)): _digest([file], root) for file in _test_files(root)}
    records = {
        file: record for file, record in known.items() if digests.get(file) == record["digest"]
    }
    for suite in SUITES:
        changed = sorted(file for file in set(digests) - set(records) if file.startswith(suite))
        if changed:
            recorded = _record(root, changed, progress)
            for file in changed:
                records[file] = {"digest": digests[file], "tests": recorded.get(file, [])}
            _save(cache, records)
    tests = (test for record in records.values() for test in record["tests"])
    return Coverage(
        tuple(
            ReachingTest(
                test["id"],
                test["seconds"],
                {file: frozenset(lines) for file, lines in test["lines"].items()},
            )
            for test in tests
        ),
        find_importers(root),
    )


def _save(cache: Path, records: Mapping[str, Any]) -> None:
    cache.parent.mkdir(exist_ok=True)
    fresh = cache.with_suffix(f".{os.getpid()}")
    fresh.write_text(json.dumps(records))
    for old in cache.parent.glob("reach-*.json"):
        old.unlink()
    fresh.replace(cache)


def find_importers(root: Path) -> dict[str, frozenset[str]]:
    folder = root / "functions"
    files = {_module(file, folder): str(file.relative_to(root)) for file in product_files(root)}
    importers: dict[str, set[str]] = defaultdict(set)
    for file in product_files(root):
        for name in _imported(ast.parse(file.read_text())):
            if name in files:
                importers[files[name]].add(str(file.relative_to(root)))
    return {file: frozenset(names) for file, names in importers.items()}


def _module(file: Path, folder: Path) -> str:
    return ".".join(file.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")


def _imported(tree: ast.Module) -> Iterable[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _test_files(root: Path) -> list[Path]:
    found = (file for suite in SUITES for file in sorted((root / suite).rglob("test_*.py")))
    return [file for file in found if str(file.relative_to(root)) not in EXCLUDED_TESTS]


def _shared_files(root: Path) -> list[Path]:
    helpers = (
        file
        for folder in (*SUITES, "tests/support", "infra")
        for file in sorted((root / folder).rglob("*.py"))
        if not file.name.startswith("test_")
    )
    return [*product_files(root), *helpers, root / "pyproject.toml"]


def _digest(files: Iterable[Path], root: Path) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(root)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def _record(
    root: Path, files: list[str], progress: Callable[[str], None]
) -> dict[str, list[dict[str, Any]]]:
    progress(f"Recording which lines the tests of {len(files)} files reach; takes minutes once.")
    began = time.monotonic()
    with TemporaryDirectory() as folder:
        log = Path(folder, "pytest.log")
        command = [sys.executable, "-m", "pytest", "-q", *FIXED, *WITHOUT_MINISTACK]
        command += ["-n", str(_PROCESSES), "--dist", "worksteal"]
        command += ["-p", "tests.mutants.record_coverage", *files]
        variables = {record_reach.FOLDER: folder, record_reach.ROOT: str(root)}
        with (
            log.open("wb") as output,
            subprocess.Popen(
                command,
                cwd=root,
                env={**mutant_environment(root), **variables},
                stdout=output,
                stderr=subprocess.STDOUT,
            ) as process,
        ):
            while process.poll() is None:
                try:
                    process.wait(_PROGRESS_SECONDS)
                except subprocess.TimeoutExpired:
                    percent = re.findall(r"\d+%", log.read_text(errors="replace"))[-1:]
                    progress(f"  {time.monotonic() - began:4.0f} s  {''.join(percent)}")
        results = [json.loads(file.read_text()) for file in Path(folder).glob("*.json")]
        if not any(result["tests"] for result in results):
            raise RuntimeError(f"no test passed on sound code\n{log.read_text()[-4000:]}")
    failed = sorted({test for result in results for test in result["failed"]})
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for result in results:
        for test in result["tests"]:
            found[test["id"].partition("::")[0]].append(test)
    count = sum(map(len, found.values()))
    progress(f"Recorded {count} tests in {time.monotonic() - began:.0f} s.")
    if failed:
        progress(f"Left out {len(failed)} tests that do not pass on sound code, or were skipped:")
        progress("".join(f"  {test}\n" for test in failed).rstrip())
    return found
