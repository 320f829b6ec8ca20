"""The local stack of a team's project: its fixtures, its messages and its own environment."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import Field

from oncely.cli.errors import CommandError
from oncely.contracts.registry import JobRegistry
from oncely.jobs.receipt_send import ReceiptSend
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.testing.local import LocalFixtures
from oncely_cdk.stage_file import IDENTITY_OUTPUT
from oncely_local import deploy, engine
from oncely_local.cdk_cli import require_cdk
from oncely_local.deploy import DeployError, stack_name, stack_sources
from oncely_local.engine import EngineError, install_if_missing
from oncely_local.project import LocalProject, local_project
from oncely_local.verdict import DemoFinalState, evaluate
from oncely_local.workload import project_workload
from tests.consumer.invoice_finalize import InvoiceFinalize
from tests.unit.test_demo_report import job_snapshot

PROJECT = """
[tool.oncely]
jobs = ["oncely.jobs.receipt_send:ReceiptSend"]
local = "{local}"
"""
FIXTURES = """
from oncely.testing.local import LocalFixtures
class Fixtures(LocalFixtures):
    secrets = {"partner": "secret"}
FIXTURES = Fixtures()
OTHER = object()
"""


class Receipts(LocalFixtures):
    rows = {"orders": [{"order_id": "1"}]}  # noqa: RUF012  # as a team writes it

    def messages(self, number: int) -> list[dict[str, object]]:
        return [{"job": "receipt.send", "v": 1, "order_id": str(n)} for n in range(number)]


@pytest.fixture
def project(tmp_path: Path) -> LocalProject:
    return LocalProject(tmp_path, (ReceiptSend,), Receipts())


def load(folder: Path, monkeypatch: pytest.MonkeyPatch, *, local: str) -> LocalProject:
    (folder / "pyproject.toml").write_text(PROJECT.format(local=local), encoding="utf-8")
    (folder / "shop_local.py").write_text(FIXTURES, encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "shop_local", raising=False)
    return local_project.__wrapped__()


def test_project_has_its_jobs_and_fixtures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = load(tmp_path, monkeypatch, local="shop_local:FIXTURES")

    assert (found.folder, found.jobs) == (tmp_path, (ReceiptSend,))
    assert found.secrets == {"partner": "secret"}  # SES has no API key
    assert not found.is_clone
    assert found.engine_environment == tmp_path / ".build" / "engine"
    assert found.queue_outputs == {"mail": "MailQueueUrl"}


@pytest.mark.parametrize(
    ("local", "reason"),
    [
        ("shop_local:MISSING", "cannot be imported"),
        ("no_module:FIXTURES", "cannot be imported"),
        ("shop_local:OTHER", "is not an instance of"),
    ],
)
def test_unusable_fixtures_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, local: str, reason: str
) -> None:
    with pytest.raises(CommandError, match=reason):
        load(tmp_path, monkeypatch, local=local)


def test_this_repository_is_a_project() -> None:
    here = local_project()

    assert (here.is_clone, here.jobs) == (True, SHIPPED_JOBS)
    assert here.settings.is_local
    assert set(here.secrets) == {"braintree", "hubspot", "stripe", "stripe_webhook"}


def test_demo_sends_the_messages_of_the_project(project: LocalProject) -> None:
    drawn = project_workload(project, jobs=50, seed=1)

    assert list(drawn.jobs) == [f"receipt.send:order_{n}" for n in range(50)]
    assert drawn.rows == {"orders": ({"order_id": "1"},)}
    assert {one.queue for one in drawn.messages} == {"MailQueueUrl"}
    assert drawn.duplicates
    assert drawn == project_workload(project, jobs=50, seed=1)
    registry = JobRegistry(project.jobs)
    for one in drawn.invalid:
        with pytest.raises(Exception, match=r".+"):
            registry.parse_body(one.body)


def test_demo_without_fixtures_numbers_the_examples(tmp_path: Path) -> None:
    """A job that needs business rows gets no message: it would wait for them."""
    project = LocalProject(tmp_path, (InvoiceFinalize, ReceiptSend), LocalFixtures())

    drawn = project_workload(project, jobs=3, seed=1)

    assert [json.loads(one.body) for one in drawn.jobs.values()] == [
        {"job": "invoice.finalize", "v": 1, "order_id": str(n), "amount": 1} for n in (1, 2, 3)
    ]


def test_invalid_message_for_the_demo_is_named(tmp_path: Path) -> None:
    class Coded(InvoiceFinalize):
        order_id: Annotated[str, Field(min_length=4)]

    project = LocalProject(tmp_path, (Coded,), LocalFixtures())

    with pytest.raises(CommandError, match=r"order_id should .*Give `messages` that are valid"):
        project_workload(project, jobs=3, seed=1)


@pytest.mark.parametrize("version", ["", "3.0.1 (build 1)"])
def test_cdk_cli_is_required_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    node = shutil.which("node")
    assert node
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "node").symlink_to(node)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    if version:
        cdk = tmp_path / "bin" / "cdk"
        cdk.write_text(f"#!/bin/sh\necho '{version}'\n", encoding="utf-8")
        cdk.chmod(0o755)

    with pytest.raises(CommandError, match="`npm install --save-dev aws-cdk@2`"):
        require_cdk(tmp_path)
    (tmp_path / "package.json").write_text('{"devDependencies": {"aws-cdk": "2.1.0"}}')
    with pytest.raises(CommandError, match="Run `npm install`"):
        require_cdk(tmp_path)


def test_verdict_knows_no_orders_of_a_team() -> None:
    """A job type of a team can have the name of a shipped one."""
    key = "payment.charge:7"
    job = job_snapshot(key)
    state = DemoFinalState(
        requested=frozenset({key}),
        jobs={key: job},
        history={key: job.status},
        with_effect=frozenset(),
    )

    assert evaluate(state).is_kept
    with_effect = replace(state, with_effect=frozenset({"payment.charge"}))
    assert evaluate(with_effect).inconsistent == (
        f"{key} is finished, but the provider has no effect",
    )


def test_synthesis_depends_on_the_sources_of_the_project(
    project: LocalProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = ("app.py", "jobs/a.py", "stages/local.toml", "requirements-jobs.txt")
    for name in (*sources, ".build/local/x", ".venv/y.py", "cdk.out/z", "tests/test_a.py"):
        (project.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (project.folder / name).touch()
    monkeypatch.setattr(deploy, "local_project", lambda: project)

    found = {str(path.relative_to(project.folder)) for path in stack_sources()}

    assert found == set(sources)


def test_stack_with_oncely_is_found_among_others(tmp_path: Path) -> None:
    templates: dict[str, object] = {
        "Site-local": {},
        "Shop-local": {"Outputs": {IDENTITY_OUTPUT: {}}},
    }
    for name, template in templates.items():
        (tmp_path / f"{name}.template.json").write_text(json.dumps(template), encoding="utf-8")
    assert stack_name(tmp_path) == "Shop-local"

    (tmp_path / "Shop-local.template.json").unlink()
    with pytest.raises(DeployError, match="has 0 stacks with Oncely"):
        stack_name(tmp_path)


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands that would install the local AWS. `pip` fails while `offline` exists."""
    pins, run = tmp_path / "pins.txt", []
    pins.write_text("a==1", encoding="utf-8")

    def record(*command: str) -> None:
        run.append(command[2])
        if command[2] == "venv":
            Path(command[-1]).mkdir(exist_ok=True)
            (Path(command[-1]) / engine._STAMP).unlink(missing_ok=True)  # noqa: SLF001  # as --clear does
        elif (tmp_path / "offline").exists():
            raise EngineError("no index")

    monkeypatch.setattr(engine, "REQUIREMENTS", pins)
    monkeypatch.setattr(engine, "_run", record)
    return run


def test_local_aws_is_installed_on_first_use_and_for_new_pins(
    tmp_path: Path, steps: list[str]
) -> None:
    environment, pins = tmp_path / "engine", tmp_path / "pins.txt"
    install_if_missing(environment)
    install_if_missing(environment)
    assert steps == ["venv", "pip"]

    pins.write_text("a==2", encoding="utf-8")
    (tmp_path / "offline").touch()
    with pytest.raises(EngineError):
        install_if_missing(environment)
    (tmp_path / "offline").unlink()
    install_if_missing(environment)
    assert steps == ["venv", "pip"] * 3
