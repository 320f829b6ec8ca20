"""A pytest plugin that writes which lines of the product each test runs, and for how long."""

import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest
from coverage import Coverage
from hypothesis import settings

# Where the plugin writes one file per process, and the product's root.
FOLDER: Final = "REACH_FOLDER"
ROOT: Final = "REACH_ROOT"


class CoverageRecorder:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._coverage = Coverage(
            data_file=None, config_file=False, source=[str(root / "functions")]
        )
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._coverage.switch_context(item.nodeid)
        _clear_caches()
        began = time.monotonic()
        result = yield
        self._seconds[item.nodeid] = time.monotonic() - began
        self._coverage.switch_context("")
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self._failed.add(report.nodeid)

    def write(self, to: Path) -> None:
        self._coverage.stop()
        data = self._coverage.get_data()
        lines: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for name in data.measured_files():
            file = str(Path(name).relative_to(self._root))
            for line, tests in sorted(data.contexts_by_lineno(name).items()):
                for test in tests:
                    lines[test][file].append(line)
        recorded = [
            {"id": test, "seconds": round(seconds, 4), "lines": lines.get(test, {})}
            for test, seconds in self._seconds.items()
            if test not in self._failed
        ]
        to.write_text(json.dumps({"tests": recorded, "failed": sorted(self._failed)}))


def _clear_caches() -> None:
    """Clear the caches of test helpers. Otherwise only the first test would reach their lines."""
    for name, module in list(sys.modules.items()):
        if name.startswith("tests.unit."):
            for helper in vars(module).values():
                if clear := getattr(helper, "cache_clear", None):
                    clear()


# Hypothesis is many times slower while lines are counted, and a few examples reach them.
_EXAMPLES: Final = 5
_RECORDERS: Final[list[CoverageRecorder]] = []


def pytest_configure(config: pytest.Config) -> None:
    recorder = CoverageRecorder(Path(os.environ[ROOT]))
    _RECORDERS.append(recorder)
    config.pluginmanager.register(recorder)


def pytest_sessionstart(session: pytest.Session) -> None:
    # After a conftest chose its profile, and before a test module uses it.
    settings.register_profile("recording", max_examples=_EXAMPLES, deadline=None)
    settings.load_profile("recording")


def pytest_unconfigure(config: pytest.Config) -> None:
    _RECORDERS.pop().write(Path(os.environ[FOLDER], f"{os.getpid()}.json"))
