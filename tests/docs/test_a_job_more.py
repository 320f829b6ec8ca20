"""A job of the reader's own is one file and one line: no test of the others minds it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.docs.guide import follow
from tests.docs.pages import REPOSITORY

_LEFT_OUT: Final = shutil.ignore_patterns(
    ".git", ".venv*", "node_modules", ".build", "cdk.out", "__pycache__", ".*_cache", ".hypothesis"
)
_NEW_JOB: Final = ("ops_cli", "new-job", "parcel.ship", "--safety", "lookup")
_MAKE_DOCS: Final = ("ops_cli.render_docs",)
# Those that look at every registered job; synthesizing the stack runs cdk-nag over it as well.
_LOOKING: Final = (
    *("tests/infra/test_alarms.py", "tests/infra/test_costs.py", "tests/infra/test_guardrails.py"),
    *("tests/infra/test_permissions.py", "tests/infra/test_safe_defaults.py"),
    "tests/infra/test_seams.py",
    *("tests/unit/test_command_contracts.py", "tests/unit/test_command_doctor.py"),
    *("tests/unit/test_command_send.py", "tests/unit/test_contract_description.py"),
    *("tests/unit/test_generated_docs.py", "tests/unit/test_registry.py"),
    "tests/unit/test_workload.py",
)
# Importing every handler is slow, and no job changes what the layers hold.
_ENOUGH: Final = ("-k", "not import")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of the repository; the layers are built already."""
    copy = tmp_path / "clone"
    shutil.copytree(REPOSITORY, copy, ignore=_LEFT_OUT, symlinks=True)
    (copy / ".build").mkdir()
    layers = REPOSITORY / ".build" / "layers"
    layers.mkdir(parents=True, exist_ok=True)
    (copy / ".build" / "layers").symlink_to(layers)
    return copy


def _python(clone: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    roots = os.pathsep.join((str(clone / "functions"), str(clone)))
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=clone,
        # The template is another one now: as the guide says, it is written anew, for review.
        env={**os.environ, "PYTHONPATH": roots, "UPDATE_SNAPSHOTS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.timeout(600)
def test_the_other_tests_stay_green_when_jobs_are_added_as_the_guide_says(clone: Path) -> None:
    follow(clone)
    for step in (_NEW_JOB, _MAKE_DOCS):
        done = _python(clone, *step)
        assert done.returncode == 0, done.stderr

    done = _python(clone, "pytest", "-q", "-p", "no:cacheprovider", *_LOOKING, *_ENOUGH)

    assert done.returncode == 0, done.stdout
    permissions = (clone / "tests/infra/snapshots/permissions.txt").read_text()
    assert "ParcelWorker/Worker" in permissions
    assert "RefundsWorker/Worker" in permissions
