"""A reader's own job is one file and one line, and all other tests still pass."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.docs.guide import follow_guide
from tests.docs.pages import REPOSITORY

_EXCLUDED_FILES: Final = shutil.ignore_patterns(
    ".git", ".venv*", "node_modules", ".build", "cdk.out", "__pycache__", ".*_cache", ".hypothesis"
)
_NEW_JOB: Final = ("oncely.cli", "new-job", "parcel.ship", "--safety", "lookup")
_MAKE_DOCS: Final = ("oncely.cli.render_docs",)
# The tests that cover every registered job. tests/infra covers the stack of a new one.
_CHECKING_TESTS: Final = (
    "tests/infra/test_guardrails.py",
    *("tests/unit/test_command_contracts.py", "tests/unit/test_command_doctor.py"),
    *("tests/unit/test_command_send.py", "tests/unit/test_job_description.py"),
    *("tests/unit/test_generated_docs.py", "tests/unit/test_registry.py"),
    "tests/unit/test_workload.py",
)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of the repository."""
    copy = tmp_path / "clone"
    shutil.copytree(REPOSITORY, copy, ignore=_EXCLUDED_FILES, symlinks=True)
    return copy


def _python(clone: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    roots = os.pathsep.join(str(clone / name) for name in ("functions", "infra", "."))
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=clone,
        env={**os.environ, "PYTHONPATH": roots},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.timeout(600)
def test_other_tests_pass_when_jobs_are_added(clone: Path) -> None:
    follow_guide(clone)
    for step in (_NEW_JOB, _MAKE_DOCS):
        done = _python(clone, *step)
        assert done.returncode == 0, done.stderr

    done = _python(clone, "pytest", "-q", "-p", "no:cacheprovider", *_CHECKING_TESTS)

    assert done.returncode == 0, done.stdout
