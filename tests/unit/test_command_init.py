"""`oncely init`: a working project, and nothing overwritten in an existing repository."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from oncely.core.profiles import RetrySafety
from oncely_cdk import read_stage_file
from oncely_cdk.paths import REPOSITORY
from tests.support.cli import run_cli


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def python(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    roots = os.pathsep.join(str(REPOSITORY / name) for name in ("functions", "infra"))
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": roots, "RUFF_NO_CACHE": "true"},
        capture_output=True,
        text=True,
        check=False,
    )


def files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_jobs_of_every_safety_class_pass_tests_and_linter(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = run_cli("init", "shop", "--job", "voucher.issue", "--package", "shop_jobs")
    assert made.exit_code == 0, made.output
    shop = here / "shop"
    monkeypatch.chdir(shop / "tests")
    # They share the first word, and no provider.
    others = {"a": RetrySafety.LOOKUP, "b": RetrySafety.NATURAL, "c": RetrySafety.AT_MOST_ONCE}
    for letter, safety in others.items():
        added = run_cli("new-job", f"voucher.recall_{letter}", "--safety", safety)
        assert added.exit_code == 0, added.output

    # The test of the stack builds layers; `make consumer` runs it.
    others_only = "--ignore=tests/test_stack.py"
    tested = python(shop, "-m", "pytest", "-q", "-p", "no:randomly", others_only)
    assert "8 passed" in tested.stdout, tested.stdout
    for check in (("check", "--select", "E,F,I,UP,B"), ("format", "--check")):
        linted = python(shop, "-m", "ruff", *check, "--line-length", "100", ".")
        assert linted.returncode == 0, linted.stdout
    listed = python(shop, "-m", "oncely.cli", "contracts")
    assert "voucher.issue (queue voucher)" in listed.stdout, listed.stderr
    assert "voucher.recall_c (queue voucher)" in listed.stdout


def test_every_stage_has_valid_settings(here: Path) -> None:
    run_cli("init", "shop", "--job", "voucher.issue")

    dev, prod, local = (
        read_stage_file(here / "shop" / "stages" / f"{name}.toml")
        for name in ("dev", "prod", "local")
    )

    assert (dev.production, prod.production) == (False, True)
    assert local.is_local
    # Refused at synthesis until it is set.
    assert prod.alert_email is None


def test_existing_repository_is_not_overwritten(here: Path) -> None:
    own = {
        "pyproject.toml": '[project]\nname = "shop"\n',
        ".gitignore": ".venv/\n",
        "app.py": "print('ours')\n",
        "README.md": "# Shop\n",
        "jobs/__init__.py": "",
    }
    for name, text in own.items():
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text(text, encoding="utf-8")

    made = run_cli("init", "--job", "voucher.issue")

    assert made.exit_code == 0, made.output
    after = files(here)
    assert {name: after[name] for name in own} == own
    assert {"jobs/voucher_issue.py", "tests/test_voucher_issue.py", "local.py"} <= set(after)
    lines = made.stdout.splitlines()
    assert "kept README.md" in lines
    assert '  jobs = ["jobs.job_list:JOBS"]' in lines
    assert "  [project]" not in lines
    assert "  .build/" in lines
    assert "  .venv/" not in lines
    assert any(line.strip().startswith("return OncelyStack(") for line in lines)


def test_project_is_started_once(here: Path) -> None:
    run_cli("init", "--job", "voucher.issue")
    before = files(here)

    again = run_cli("init", "--job", "refund.issue")

    assert again.exit_code == 1
    assert "Add a job with `oncely new-job refund.issue`" in again.stderr
    assert files(here) == before


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("--job", "voucher"), "write it like refund.issue"),
        (("--job", "voucher.issue", "--package", "../jobs"), "write it like shop_jobs"),
        (("--job", "voucher.issue", "--package", "oncely"), "write it like shop_jobs"),
    ],
)
def test_invalid_names_are_refused(here: Path, words: tuple[str, ...], hint: str) -> None:
    refused = run_cli("init", *words)

    assert refused.exit_code == 2
    assert hint in refused.stderr
    assert not files(here)


@pytest.mark.parametrize(("folder", "stack"), [("my-shop.v2", "MyShopV2"), ("2026", "Jobs2026")])
def test_stack_is_named_after_the_folder(here: Path, folder: str, stack: str) -> None:
    run_cli("init", folder, "--job", "voucher.issue")

    assert f'f"{stack}-{{stage}}"' in files(here / folder)["app.py"]
