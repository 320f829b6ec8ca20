"""`oncely init`: a working project, and nothing overwritten in an existing repository."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from oncely.contracts.description import RETRY_DESCRIPTIONS
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


@pytest.mark.timeout(300)  # explores two jobs
def test_jobs_of_every_safety_class_are_listed_and_pass_the_linter(
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
    # Its id would be personal data, and its class derives another name.
    named = run_cli("new-job", "customer.greet_2nd", "--queue", "greetings")
    assert named.exit_code == 0, named.output

    # test_command_new_job.py explores the other classes, and `make consumer` tests the stack.
    tested = python(shop, "-m", "pytest", "-q", "-p", "no:randomly", "-k", "issue or recall_a")
    assert "2 passed" in tested.stdout, tested.stdout
    for check in (("check", "--select", "E,F,I,UP,B"), ("format", "--check")):
        linted = python(shop, "-m", "ruff", *check, "--line-length", "100", ".")
        assert linted.returncode == 0, linted.stdout
    listed = python(shop, "-m", "oncely.cli", "contracts")
    for line in (
        "voucher.issue (queue voucher_issue)",
        "voucher.recall_c (queue voucher_recall_c)",
        "customer.greet_2nd (queue greetings)",
    ):
        assert line in listed.stdout, listed.stderr
    promises = {safety: RETRY_DESCRIPTIONS[safety] for safety in RetrySafety}
    assert {safety for safety, text in promises.items() if text in listed.stdout} == set(promises)


def test_first_job_is_small(here: Path) -> None:
    run_cli("init", "--job", "voucher.issue")

    job, test = (here / name for name in ("jobs/voucher_issue.py", "tests/test_voucher_issue.py"))
    assert len(job.read_text(encoding="utf-8").splitlines()) <= 25
    assert len([line for line in test.read_text(encoding="utf-8").splitlines() if line]) <= 5


def test_project_pins_the_command_line_that_this_repository_tests_with(here: Path) -> None:
    run_cli("init", "--job", "voucher.issue")

    generated, own = (json.loads((one / "package.json").read_text()) for one in (here, REPOSITORY))
    name = "aws-cdk"
    assert generated["devDependencies"] == {name: own["devDependencies"][name]}


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
        "package.json": '{"private": true}\n',
        "jobs/__init__.py": "",
    }
    for name, text in own.items():
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text(text, encoding="utf-8")

    made = run_cli("init", "--job", "voucher.issue")

    assert made.exit_code == 0, made.output
    after = files(here)
    assert {name: after[name] for name in own} == own
    assert {"jobs/voucher_issue.py", "tests/test_voucher_issue.py", "app.py"} <= set(after)
    lines = made.stdout.splitlines()
    assert "kept README.md" in lines
    assert '  jobs = ["jobs.job_list:JOBS"]' in lines
    assert "  [project]" not in lines
    assert '    "aws-cdk": "2.1147.0"' in "\n".join(lines)
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
        (("--job", "voucher.issue", "--queue", '"; evil()'), "write it like refunds"),
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
