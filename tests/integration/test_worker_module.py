"""Importing the worker has no side effects. An incomplete deployment says what to do next."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import oncely
from oncely.aws import signals
from oncely.contracts.job_names import name_jobs
from oncely.core.errors import NotConfiguredError
from oncely.core.lifecycle import Status
from oncely.handlers.process_queue import get_worker, handler
from oncely.jobs.payment_charge import PaymentCharge
from oncely.jobs.receipt_send import ReceiptSend
from oncely_local.engine import REPOSITORY
from tests.support.dynamo import DynamoFixture
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.worker import KEY, WorkerHarness, invoke_handler, worker_harness

QUEUE_VARIABLES = ("QUEUE_NAME", "QUEUE_URL", "REJECTS_QUEUE_URL", "ALERT_TOPIC_ARN")
BODY = json.dumps(charge_message())

# Runs in its own process: imports a module and prints what that module's folder did.
PROBE = """
import collections.abc, json, os, sys
import boto3, socket

root, module = sys.argv[1:]
sys.path.insert(0, root)
done = []

def ours():
    # Whoever is met first on the way out did it: our own code, or the import of someone else's.
    frame = sys._getframe(2)
    while frame:
        name = frame.f_code.co_filename
        # pydantic looks for plugins whenever a model is defined; that is its own affair.
        if name.startswith("<frozen importlib") or "/pydantic/plugin/" in name:
            return None
        if name.startswith(root):
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back

def note(what):
    if place := ours():
        done.append(f"{what} at {place}")

class Recorded(collections.abc.MutableMapping):
    def __init__(self, variables): self.variables = variables
    def __getitem__(self, name): note(f"read {name}"); return self.variables[name]
    def __setitem__(self, name, value): note(f"set {name}"); self.variables[name] = value
    def __delitem__(self, name): note(f"deleted {name}"); del self.variables[name]
    def __iter__(self): note("read all"); return iter(self.variables)
    def __len__(self): return len(self.variables)
    def copy(self): return dict(self)

def audit(event, args):
    if event.startswith("socket."):
        raise RuntimeError(f"{event}, whoever did it")
    if event in ("open", "subprocess.Popen", "os.mkdir"):
        note(f"{event} {args[0]}")

def session(self, *args, **named):
    note("boto3.Session")
    made(self, *args, **named)

made, boto3.Session.__init__ = boto3.Session.__init__, session
os.environ = Recorded(dict(os.environ))
sys.addaudithook(audit)
try:
    __import__(module)
except RuntimeError as error:
    done.append(str(error))
print(json.dumps(done))
"""


def probe(root: Path, module: str) -> list[str]:
    command = [sys.executable, "-c", PROBE, f"{root}/", module]
    path = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=path)
    effects: list[str] = json.loads(done.stdout)
    return effects


@pytest.fixture
def rig(dynamo: DynamoFixture, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerHarness]:
    with worker_harness(dynamo, monkeypatch) as stage:
        yield stage


def is_left_in_queue(event: dict[str, Any], answer: dict[str, Any]) -> bool:
    [record] = event["Records"]
    return answer == {"batchItemFailures": [{"itemIdentifier": record["messageId"]}]}


def log_line(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    [line] = [line for line in lines if "_aws" not in line]
    assert isinstance(line, dict)
    return line


def test_own_function_has_the_handler_of_its_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCELY_JOBS", name_jobs([PaymentCharge]))

    assert oncely.worker(jobs=[PaymentCharge]) is handler
    with pytest.raises(NotConfiguredError, match=r"the function runs oncely\.jobs.receipt_send"):
        oncely.worker(jobs=[ReceiptSend])


def test_handler_import_only_reads_lambda_function_name() -> None:
    done = probe(REPOSITORY / "functions", "oncely.handlers.process_queue")
    assert {one.partition(" at ")[0] for one in done} == {"read AWS_LAMBDA_FUNCTION_NAME"}


def test_package_import_has_no_side_effects() -> None:
    for module in (
        "oncely",
        "oncely.contracts.job",
        "oncely.producer",
    ):
        assert probe(REPOSITORY / "functions", module) == []


@pytest.mark.parametrize(
    ("line", "effect"),
    [
        ("import os; os.environ.get('HOME')", "read HOME"),
        ("import os; os.getenv('HOME')", "read HOME"),
        ("import aws_lambda_powertools; aws_lambda_powertools.Logger()", "read POWERTOOLS"),
        ("import boto3; boto3.Session()", "boto3.Session"),
        ("import socket; socket.create_connection(('127.0.0.1', 9))", "socket."),
        ("open('/dev/null')", "open /dev/null"),
    ],
)
def test_probe_detects_import_side_effects(tmp_path: Path, line: str, effect: str) -> None:
    (tmp_path / "careless.py").write_text(line)
    assert any(effect in one for one in probe(tmp_path, "careless"))


@pytest.mark.filterwarnings("ignore:No application metrics")
@pytest.mark.parametrize(
    "variable", [*QUEUE_VARIABLES, "RETENTION_DAYS", "JOBS_TABLE", "ORDERS_TABLE", "STRIPE_SECRET"]
)
def test_missing_variable_is_named_and_no_job_is_claimed(
    rig: WorkerHarness, world: InMemoryStack, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    event = rig.deliver(BODY)
    monkeypatch.delenv(variable)

    with pytest.raises(NotConfiguredError, match=rf"incomplete \({variable}: missing\): deploy"):
        invoke_handler(event)

    assert rig.dynamo.row(KEY) is None
    assert rig.sandbox.ledger.requests == ()


@pytest.mark.filterwarnings("ignore:No application metrics")
def test_unknown_queue_name_raises_and_rejects_nothing(
    rig: WorkerHarness, world: InMemoryStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = rig.deliver(BODY)
    monkeypatch.setenv("QUEUE_NAME", "payment")
    with pytest.raises(NotConfiguredError, match="no contract uses the queue 'payment'"):
        invoke_handler(event)
    assert rig.rejected() == {}


@pytest.mark.parametrize(
    ("secret", "error"),
    [
        (None, "check that it exists, that it holds the"),
        (" ", "the secret 'stripe' is empty: store the API key in it"),
    ],
)
def test_missing_secret_is_shown_on_job_without_claim_until_fixed(
    rig: WorkerHarness,
    world: InMemoryStack,
    capsys: pytest.CaptureFixture[str],
    secret: str | None,
    error: str,
) -> None:
    if secret is not None:
        rig.put_secret(secret)
    event = rig.deliver(BODY)

    answer = invoke_handler(event)

    logged, row = log_line(capsys), rig.dynamo.row(KEY)
    assert error in logged["reason"]
    assert is_left_in_queue(event, answer)
    assert row is not None
    assert error in row["last_error"]["S"]
    assert (row["status"]["S"], "fence" in row) == ("ready", False)
    assert rig.sandbox.ledger.requests == ()
    rig.put_secret()
    get_worker.cache_clear()
    assert invoke_handler(event) == {"batchItemFailures": []}
    assert len(rig.sandbox.stripe.ledger.charges_for(KEY)) == 1


@pytest.mark.parametrize("variable", ["JOBS_TABLE", "ORDERS_TABLE"])
def test_missing_table_is_named_and_nothing_is_sent(
    rig: WorkerHarness,
    world: InMemoryStack,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    variable: str,
) -> None:
    rig.put_secret()
    event = rig.deliver(BODY)
    monkeypatch.setenv(variable, "not-there")

    answer = invoke_handler(event)

    line = log_line(capsys)
    named = {"JOBS_TABLE": "the identity of the job table", "ORDERS_TABLE": "the table 'orders'"}
    assert named[variable] in line.get("error", line.get("reason", ""))
    assert "check" in line.get("error", line.get("reason", ""))
    # A stack trace has the name in AWS; the guard of the job table logs none.
    assert "not-there" in line["exception"] if variable == "ORDERS_TABLE" else "reason" in line
    assert is_left_in_queue(event, answer)
    assert rig.sandbox.ledger.requests == ()
    assert rig.dynamo.row(KEY) is None


def test_rejected_api_key_raises_alarm_without_attempt(
    rig: WorkerHarness, world: InMemoryStack, capsys: pytest.CaptureFixture[str]
) -> None:
    rig.put_secret("sk_live_of_another_account")
    event = rig.deliver(BODY)

    answer = invoke_handler(event)

    job = world.job(KEY)
    assert (job.status, job.attempts, job.provider_ref) == (Status.READY, 0, None)
    assert is_left_in_queue(event, answer)
    assert rig.sandbox.stripe.ledger.intents == ()
    # Every job is refused for the same reason: one alarm on the metric, not one alert per job.
    line, metrics = map(json.loads, capsys.readouterr().out.splitlines())
    assert (line["level"], line["message"]) == ("ERROR", "provider rejects our credentials")
    assert (metrics[signals.CREDENTIALS_REJECTED], rig.alerts()) == ([1], [])
