"""`make demo`, small: everything is set up, a report is printed, nothing stays behind."""

import os
import subprocess
import sys

import pytest

from infra import FUNCTIONS, REPOSITORY
from infra.cdk_cli import CDK
from tests.support.engines import missing

pytestmark = pytest.mark.timeout(600)


def test_the_demo_ends_with_a_report_that_the_promise_was_kept() -> None:
    if not CDK.exists():
        missing("no CDK command line: `make setup` installs it")

    done = subprocess.run(
        [sys.executable, "-m", "infra.local", "demo", "--jobs", "12", "--faults", "none"],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": f"{FUNCTIONS}{os.pathsep}{REPOSITORY}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "The promise was kept" in done.stdout
    assert "0  double charges" in done.stdout
