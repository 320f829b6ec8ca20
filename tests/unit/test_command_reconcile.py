"""`oncely reconcile`: its input, its output and its exit codes."""

import json

import pytest
from typer.testing import Result

from oncely.cli import reconcile
from tests.support.cli import FakeStackConnection, FakeStateMachine, run_cli

ARN = "arn:aws:states:us-east-1:1:stateMachine:Reconciler"
JOB = {
    "key": "payment.charge:order_18452",
    "outcome": "finished",
    "old": "unknown",
    "new": "finished",
    "reason": "Stripe says that it succeeded",
}


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile, "_POLL_SECONDS", 0.0)


def reconcile_cli(*words: str, **ended: str) -> tuple[Result, FakeStateMachine]:
    machine = FakeStateMachine({"status": "SUCCEEDED", **ended})
    stack = FakeStackConnection(clients={"stepfunctions": machine}, outputs={"ReconcilerArn": ARN})
    return run_cli("reconcile", *words, connection=stack), machine


def test_sweep_input_matches_options() -> None:
    words = ("--type", "payment.charge", "--since", "2026-11-16", "--limit", "5", "--dry-run")

    result, machine = reconcile_cli(*words, output='{"counts": {}, "jobs": []}')

    assert (result.exit_code, result.stdout) == (0, "No jobs are due.\n")
    assert machine.started[0]["stateMachineArn"] == ARN
    job_type = {"job_type": "payment.charge", "from": "2026-11-16T00:00:00.000Z"}
    assert json.loads(machine.started[0]["input"]) == {"limit": 5, "dry_run": True, **job_type}


def test_resolution_of_each_job_is_printed() -> None:
    output = json.dumps({"counts": {"finished": 1}, "jobs": [JOB]})

    result, machine = reconcile_cli(JOB["key"], output=output)

    assert result.exit_code == 0
    assert json.loads(machine.started[0]["input"])["key"] == JOB["key"]
    for part in (JOB["key"], "unknown", "Stripe says that it succeeded", "Checked: 1 finished"):
        assert part in result.stdout


@pytest.mark.parametrize(
    "ended",
    [
        {"output": '{"counts": {"needs_review": 1}}'},
        {"output": '{"counts": {"error": 2}, "jobs": []}'},
        {"status": "FAILED", "error": "ItemsNotLookedAt", "cause": '{"error": 2, "finished": 1}'},
        {"status": "FAILED", "cause": "not JSON"},
        {"status": "TIMED_OUT"},
    ],
)
def test_sweep_that_needs_attention_has_its_own_exit_code(ended: dict[str, str]) -> None:
    result, _ = reconcile_cli(**ended)
    assert result.exit_code == 4
    assert result.stderr
    assert "Traceback" not in result.output


def test_missing_job_is_reported() -> None:
    output = '{"counts": {"gone": 1}, "jobs": []}'
    result, _ = reconcile_cli("payment.charge:order_none", output=output)
    assert result.exit_code == 1
    assert "No job 'payment.charge:order_none'" in result.stderr


def test_json_output_is_passed_through() -> None:
    report = {"counts": {"finished": 1}, "jobs": [JOB], "new": 1}
    result, _ = reconcile_cli("--json", output=json.dumps(report))
    execution = {"execution": "arn:one", "status": "SUCCEEDED"}
    assert json.loads(result.stdout) == {**execution, **report}


def test_reconcile_reports_shards_busy_with_other_sweep() -> None:
    result, _ = reconcile_cli(output='{"counts": {}, "jobs": [], "busy_shards": 3}')
    assert result.exit_code == 0
    assert "Skipped 3 shards" in result.stdout
    assert "No jobs are due" not in result.stdout


def test_reconcile_reports_number_of_unlisted_jobs() -> None:
    result, _ = reconcile_cli(output='{"counts": {"finished": 9}, "jobs": [], "not_listed": 9}')
    assert "9 more jobs are not listed" in result.stdout


def test_no_wait_option_returns_after_start() -> None:
    result, _ = reconcile_cli("--no-wait")
    assert (result.exit_code, result.stdout) == (0, "started: arn:one\n")


def test_stack_without_reconciler_names_fix() -> None:
    result = run_cli("reconcile", connection=FakeStackConnection())
    assert result.exit_code == 3
    assert "Deploy it again" in result.stderr
