"""Unresolved jobs through the deployed state machine: each is asked about, none is guessed."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Event, Status
from tests.e2e.deployment import Deployment, eventually
from tests.e2e.scenarios import charges, order
from tests.e2e.unresolved import job, leave_behind, store, sweep

pytestmark = pytest.mark.timeout(600)


def outcome(done: dict[str, Any], key: str) -> str:
    return str(next(one["outcome"] for one in done["jobs"] if one["key"] == key))


def test_a_crash_after_the_charge_is_finished_by_one_sweep(deployment: Deployment) -> None:
    left = leave_behind(deployment, "crash", status=Status.STARTED)

    done = deployment.reconcile(key=left.key)

    ended = job(deployment, left.key)
    assert outcome(done, left.key) == "finished"
    assert (ended.result or {})["payment_intent"] == left.ref
    assert charges(deployment, "crash") == 1
    paid = deployment.get("OrdersTableName", order_id="crash")
    assert paid is not None
    assert paid["charge_id"] == (ended.result or {})["charge_id"]


def test_a_timeout_that_had_charged_is_finished(deployment: Deployment) -> None:
    left = leave_behind(deployment, "timeout-charged")

    done = deployment.reconcile(key=left.key)

    assert outcome(done, left.key) == "finished"
    assert charges(deployment, "timeout-charged") == 1


def test_a_timeout_that_had_not_charged_is_charged_once_by_a_worker(
    deployment: Deployment,
) -> None:
    left = leave_behind(deployment, "timeout-not-charged", confirmed=False)

    done = deployment.reconcile(key=left.key)

    assert outcome(done, left.key) == "ready"
    deployment.job_when(left.key, "finished")
    assert job(deployment, left.key).key_number == 2
    assert charges(deployment, "timeout-not-charged") == 1


def test_a_payment_in_processing_stays_unknown_until_it_is_decided(
    deployment: Deployment,
) -> None:
    left = leave_behind(deployment, "processing", method="pm_processing")
    first = deployment.reconcile(key=left.key)
    deployment.sandbox.settle(left.ref, succeeded=True)

    second = deployment.reconcile(key=left.key)

    assert outcome(first, left.key) == "unknown"
    assert outcome(second, left.key) == "finished"
    assert charges(deployment, "processing") == 1


def test_a_decline_that_comes_late_fails_the_job_and_the_order(deployment: Deployment) -> None:
    left = leave_behind(deployment, "late-decline", method="pm_processing")
    deployment.sandbox.settle(left.ref, succeeded=False)

    done = deployment.reconcile(key=left.key)

    assert outcome(done, left.key) == "failed"
    failed = deployment.get("OrdersTableName", order_id="late-decline")
    assert failed is not None
    assert failed["status"] == "payment_failed"


def test_a_second_charge_for_a_paid_order_is_for_a_person(deployment: Deployment) -> None:
    left = leave_behind(deployment, "two")
    order(deployment, "two", status="paid", charge_id="ch_from_elsewhere")

    done = deployment.reconcile(key=left.key)

    assert outcome(done, left.key) == "needs_review"
    assert (job(deployment, left.key).result or {})["payment_intent"] == left.ref
    eventually(
        lambda: any(left.key in told for told in deployment.alerts()) or None, "a person is told"
    )


def test_a_payment_of_another_amount_is_for_a_person(deployment: Deployment) -> None:
    left = leave_behind(deployment, "amount")
    order(deployment, "amount", amount=9900)

    done = deployment.reconcile(key=left.key)

    assert outcome(done, left.key) == "needs_review"


def test_what_is_older_than_any_key_is_for_a_person(deployment: Deployment) -> None:
    left = leave_behind(deployment, "old", confirmed=False, age=timedelta(hours=25))

    done = deployment.reconcile(key=left.key)

    assert outcome(done, left.key) == "needs_review"
    assert charges(deployment, "old") == 0


def test_the_reconciler_only_reads_at_the_provider(deployment: Deployment) -> None:
    left = leave_behind(deployment, "reads")
    before = len(deployment.sandbox.ledger.requests)

    deployment.reconcile(key=left.key)

    asked = deployment.sandbox.ledger.requests[before:]
    ours = [request.method for request in asked if left.ref in request.path]
    assert set(ours) == {"GET"}


def test_two_sweeps_at_once_write_one_outcome(deployment: Deployment) -> None:
    left = [leave_behind(deployment, f"twice-{number}", due=True) for number in range(5)]

    with ThreadPoolExecutor(max_workers=2) as pool:
        list(pool.map(lambda _: sweep(deployment), range(2)))

    for one in left:
        events = [entry.event for entry in job(deployment, one.key).evidence]
        assert events.count(Event.CONFIRM) == 1
        assert charges(deployment, one.order_id) == 1


def test_a_wrong_input_is_refused_and_names_what_is_wrong(deployment: Deployment) -> None:
    states = deployment.client("stepfunctions")
    started = states.start_execution(
        stateMachineArn=deployment.outputs["ReconcilerArn"], input='{"limit": 5000}'
    )

    ended = eventually(
        lambda: (
            found
            if (found := states.describe_execution(executionArn=started["executionArn"]))["status"]
            != "RUNNING"
            else None
        ),
        "the sweep has ended",
    )

    assert ended["status"] == "FAILED"
    assert store(deployment).get(JobKey("limit")) is None
