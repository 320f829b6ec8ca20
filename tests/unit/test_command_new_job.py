"""`oncely new-job`: what it writes is registered and passes its tests and the linter."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from oncely.cli.errors import CommandError
from oncely.cli.project import JobList
from oncely.cli.scaffold import JobTemplate, add_to_list
from oncely.core.profiles import RetrySafety
from oncely_local.engine import REPOSITORY
from tests.support.cli import run_cli

REGISTRY = Path("functions/oncely/jobs/shipped.py")


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy to write into."""
    skipped = shutil.ignore_patterns("__pycache__")
    for folder in ("functions", "infra"):
        shutil.copytree(REPOSITORY / folder, tmp_path / folder, ignore=skipped)
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.timeout(300)  # explores two jobs
def test_new_jobs_pass_tests_and_linter(clone: Path) -> None:
    for safety in RetrySafety:
        written = run_cli("new-job", f"refund.{safety}", "--safety", safety)
        assert written.exit_code == 0, written.output

    assert "RefundAtMostOnce,\n" in (clone / REGISTRY).read_text()
    # test_command_init.py explores the other classes.
    others = "natural or at_most_once"
    tested = run(clone, "-m", "pytest", "-q", "-p", "no:randomly", "tests/unit", "-k", others)
    assert "2 passed" in tested.stdout, tested.stdout
    for check in (("check",), ("format", "--check")):
        done = run(clone, "-m", "ruff", *check, "functions/oncely/jobs", "tests")
        assert done.returncode == 0, done.stdout


def run(clone: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    roots = os.pathsep.join(str(clone / name) for name in ("functions", "infra", "."))
    return subprocess.run(
        [sys.executable, *words],
        cwd=clone,
        env={**os.environ, "PYTHONPATH": roots},
        capture_output=True,
        text=True,
        check=False,
    )


def test_folder_without_a_project_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = (REPOSITORY / REGISTRY).read_text()

    refused = run_cli("new-job", "refund.issue")

    assert refused.exit_code == 1
    assert "start one with `oncely init --job refund.issue`" in refused.stderr
    assert not list(tmp_path.iterdir())
    assert (REPOSITORY / REGISTRY).read_text() == before
    assert not (REPOSITORY / "functions/oncely/jobs/refund_issue.py").exists()


def test_existing_job_is_not_overwritten(clone: Path) -> None:
    run_cli("new-job", "refund.issue")
    before = (clone / REGISTRY).read_text()

    again = run_cli("new-job", "refund.issue")

    assert again.exit_code == 1
    assert "already exists. Nothing was written" in again.stderr
    assert (clone / REGISTRY).read_text() == before


@pytest.mark.parametrize("name", ["refund", "Refund.Issue", "refund issue", "../evil.job", "a.b;c"])
def test_invalid_job_type_is_rejected(clone: Path, name: str) -> None:
    result = run_cli("new-job", name)
    assert result.exit_code == 2
    assert "write it like refund.issue" in result.stderr


def test_unrecognized_list_is_left_to_edit_by_hand(tmp_path: Path) -> None:
    file = tmp_path / "shipped.py"
    file.write_text("SHIPPED_JOBS = ()\n", encoding="utf-8")
    listing = JobList(file, "oncely.jobs.shipped", "SHIPPED_JOBS")

    with pytest.raises(CommandError, match="by hand"):
        add_to_list(listing, JobTemplate("refund.issue", RetrySafety.KEYED))


def test_list_outside_of_the_project_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    named = '[tool.oncely]\njobs = ["elsewhere.jobs:JOBS"]\n'
    (tmp_path / "pyproject.toml").write_text(named, encoding="utf-8")

    result = run_cli("new-job", "refund.issue")

    assert result.exit_code == 1
    assert (
        "'elsewhere.jobs:JOBS', which is not a list in a package of this project" in result.stderr
    )
    assert [one.name for one in tmp_path.iterdir()] == ["pyproject.toml"]
