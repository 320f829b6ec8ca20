"""`oncely reconcile`: what is asked for, what is told, and when someone is needed."""

import json
from typing import Any

import pytest

from ops_cli import reconcile
from tests.support.command import FakePlace, Machine, oncely

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
    monkeypatch.setattr(reconcile, "_EVERY", 0.0)


def place_with(status: str = "SUCCEEDED", **ended: Any) -> tuple[FakePlace, Machine]:  # noqa: ANN401  # as boto3 says it
    machine = Machine({"status": status, **ended})
    return FakePlace(clients={"stepfunctions": machine}, outputs={"ReconcilerArn": ARN}), machine


def test_it_asks_for_exactly_what_the_options_say() -> None:
    place, machine = place_with(output='{"counts": {}, "jobs": []}')

    said = oncely(
        *("reconcile", "--type", "payment.charge", "--from", "2026-11-16", "--limit", "5"),
        *("--dry-run",),
        place=place,
    )

    assert (said.exit_code, said.stdout) == (0, "Nothing is due.\n")
    assert machine.started[0]["stateMachineArn"] == ARN
    assert json.loads(machine.started[0]["input"]) == {
        "limit": 5,
        "dry_run": True,
        "job_type": "payment.charge",
        "from": "2026-11-16T00:00:00.000Z",
    }


def test_what_became_of_each_job_is_told() -> None:
    output = json.dumps({"counts": {"finished": 1}, "jobs": [JOB]})
    place, machine = place_with(output=output)

    said = oncely("reconcile", JOB["key"], place=place)

    assert said.exit_code == 0
    assert json.loads(machine.started[0]["input"])["key"] == JOB["key"]
    for part in (JOB["key"], "unknown", "Stripe says that it succeeded", "Looked at: 1 finished"):
        assert part in said.stdout


@pytest.mark.parametrize(
    ("status", "ended"),
    [
        ("SUCCEEDED", {"output": '{"counts": {"needs_review": 1}}'}),
        ("SUCCEEDED", {"output": '{"counts": {"error": 2}, "jobs": []}'}),
        ("FAILED", {"error": "ItemsNotLookedAt", "cause": '{"error": 2, "finished": 1}'}),
        ("FAILED", {"cause": "not JSON"}),
        ("TIMED_OUT", {}),
    ],
)
def test_what_needs_someone_has_an_exit_code_of_its_own(status: str, ended: dict[str, str]) -> None:
    place, _ = place_with(status, **ended)

    said = oncely("reconcile", place=place)

    assert said.exit_code == 4
    assert said.stderr
    assert "Traceback" not in said.output


def test_a_job_that_there_is_not_is_refused_as_everywhere() -> None:
    place, _ = place_with(output='{"counts": {"gone": 1}, "jobs": []}')

    said = oncely("reconcile", "payment.charge:order_none", place=place)

    assert said.exit_code == 1
    assert "There is no job 'payment.charge:order_none'" in said.stderr


def test_programs_read_the_output_as_it_is() -> None:
    place, _ = place_with(output=json.dumps({"counts": {"finished": 1}, "jobs": [JOB], "new": 1}))

    answer = json.loads(oncely("reconcile", "--json", place=place).stdout)

    assert answer == {
        "execution": "arn:one",
        "status": "SUCCEEDED",
        "counts": {"finished": 1},
        "jobs": [JOB],
        "new": 1,
    }


def test_reconcile_says_that_another_sweep_is_at_work() -> None:
    place, _ = place_with(output='{"counts": {}, "jobs": [], "busy_shards": 3}')

    said = oncely("reconcile", place=place)

    assert said.exit_code == 0
    assert "at work on 3 shards" in said.stdout
    assert "Nothing is due" not in said.stdout


def test_reconcile_says_how_many_jobs_are_not_listed() -> None:
    place, _ = place_with(output='{"counts": {"finished": 9}, "jobs": [], "not_listed": 9}')

    assert "9 more jobs are not listed" in oncely("reconcile", place=place).stdout


def test_it_need_not_be_waited_for() -> None:
    place, _ = place_with()

    said = oncely("reconcile", "--no-wait", place=place)

    assert (said.exit_code, said.stdout) == (0, "started: arn:one\n")


def test_a_stack_without_a_reconciler_says_what_to_do() -> None:
    said = oncely("reconcile", place=FakePlace())

    assert said.exit_code == 3
    assert "deploy it again" in said.stderr
