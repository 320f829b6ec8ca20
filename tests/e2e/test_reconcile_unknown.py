"""Unresolved jobs in the deployed state machine: each is looked up, none is guessed."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status
from oncely_local.account import STACK_NAME
from oncely_local.engine import ACCOUNT
from tests.e2e.deployed_stack import StackClient, wait_for
from tests.e2e.scenarios import (
    claim_as_other_worker,
    count_charges,
    put_order,
    table_identity,
)
from tests.e2e.unresolved_jobs import (
    UnresolvedJob,
    change_amount_at_stripe,
    create_payment,
    create_unresolved_job,
    get_job,
    job_store,
    run_sweep,
)
from tests.support.mail_events import as_delivered, mail_event


def outcome_for(report: dict[str, Any], key: str) -> str:
    return str(next(one["outcome"] for one in report["jobs"] if one["key"] == key))


def test_crash_after_charge_is_finished_by_one_sweep(deployment: StackClient) -> None:
    left = create_unresolved_job(deployment, "crash", status=Status.STARTED)

    done = deployment.reconcile(key=left.key)

    ended = get_job(deployment, left.key)
    assert outcome_for(done, left.key) == "finished"
    assert (ended.result or {})["payment_intent"] == left.ref
    assert count_charges(deployment, "crash") == 1
    assert deployment.order("crash")["charge_id"] == (ended.result or {})["charge_id"]


def test_timeout_after_charge_is_finished(deployment: StackClient) -> None:
    left = create_unresolved_job(deployment, "timeout-charged")
    assert outcome_for(deployment.reconcile(key=left.key), left.key) == "finished"
    assert count_charges(deployment, "timeout-charged") == 1


def test_timeout_before_charge_is_charged_once_by_worker(deployment: StackClient) -> None:
    left = create_unresolved_job(deployment, "timeout-not-charged", confirmed=False)
    assert outcome_for(deployment.reconcile(key=left.key), left.key) == "ready"
    deployment.wait_for_job(left.key, "finished")
    assert get_job(deployment, left.key).key_number == 2
    assert count_charges(deployment, "timeout-not-charged") == 1


def test_processing_payment_stays_unknown_until_resolved(deployment: StackClient) -> None:
    left = create_unresolved_job(deployment, "processing", method="pm_processing")
    first = deployment.reconcile(key=left.key)
    deployment.sandbox.stripe.complete_pending(left.ref, succeeded=True)

    second = deployment.reconcile(key=left.key)
    assert outcome_for(first, left.key) == "unknown"
    assert outcome_for(second, left.key) == "finished"
    assert count_charges(deployment, "processing") == 1


def test_late_decline_fails_job_and_order(deployment: StackClient) -> None:
    left = create_unresolved_job(deployment, "late-decline", method="pm_processing")
    deployment.sandbox.stripe.complete_pending(left.ref, succeeded=False)

    done = deployment.reconcile(key=left.key)
    assert outcome_for(done, left.key) == "ready", "the reconciler closes nothing"
    deployment.wait_for_job(left.key, "failed")
    assert deployment.order("late-decline")["status"] == "payment_failed"
    intent = deployment.sandbox.stripe.ledger.intent(left.ref)
    assert intent is not None
    assert intent.status == "canceled"


def test_two_charges_for_one_job_need_review(deployment: StackClient) -> None:
    left = create_unresolved_job(deployment, "two")
    second = create_payment(deployment, "two", number=2)

    done = deployment.reconcile(key=left.key)

    told = deployment.wait_for_alert(left.key)
    assert outcome_for(done, left.key) == "needs_review"
    assert count_charges(deployment, "two") == 2
    assert left.ref in told
    assert second in told
    assert deployment.order("two")["status"] == "payment_pending"


@pytest.mark.parametrize(
    ("order_id", "arrange", "alert"),
    [
        (
            "amount",
            lambda stack, left: change_amount_at_stripe(stack, left.ref, amount=9900),
            "its amount is 9900, not 4900",
        ),
        ("changed", lambda stack, _: put_order(stack, "changed", amount=9900), ""),
        (
            "paid-otherwise",
            lambda stack, _: put_order(stack, "paid-otherwise", status="paid", charge_id="ch_2"),
            "but a business write failed",
        ),
    ],
)
def test_charge_needs_review_when_order_and_provider_disagree(
    deployment: StackClient,
    order_id: str,
    arrange: Callable[[StackClient, UnresolvedJob], object],
    alert: str,
) -> None:
    left = create_unresolved_job(deployment, order_id)
    arrange(deployment, left)
    before = deployment.order(order_id)

    assert outcome_for(deployment.reconcile(key=left.key), left.key) == "needs_review"
    assert alert in deployment.wait_for_alert(left.key)
    assert deployment.order(order_id) == before
    kept = get_job(deployment, left.key).result or {}
    assert kept.get("payment_intent") == (left.ref if order_id == "paid-otherwise" else None)


def test_unsaved_payment_is_replaced_and_charged_once(deployment: StackClient) -> None:
    left = create_unresolved_job(
        deployment, "unsaved", status=Status.STARTED, confirmed=False, saved=False
    )

    assert outcome_for(deployment.reconcile(key=left.key), left.key) == "ready"
    deployment.wait_for_job(left.key, "finished")
    assert get_job(deployment, left.key).provider_ref != left.ref
    assert count_charges(deployment, "unsaved") == 1


def test_idempotency_key_is_reused_only_within_its_window(deployment: StackClient) -> None:
    """An open send and no reference: a key is safe for 23 hours, a job may be 24 hours old."""
    safe, over = (
        create_unresolved_job(
            deployment, name, status=Status.READY, confirmed=False, saved=False, age=age, due=True
        )
        for name, age in {
            "window-open": timedelta(hours=22),
            "window-over": timedelta(hours=23, minutes=30),
        }.items()
    )

    run_sweep(deployment)
    deployment.wait_for_job(safe.key, "finished")
    deployment.wait_for_job(over.key, "needs_review")

    assert get_job(deployment, safe.key).provider_ref == safe.ref
    assert count_charges(deployment, "window-open") == 1
    assert "its key is no longer safe" in deployment.wait_for_alert(over.key)
    assert count_charges(deployment, "window-over") == 0


def test_possibly_sent_mail_waits_for_its_event_and_needs_review_without(
    deployment: StackClient,
) -> None:
    key = JobKey("receipt.send:order_mail-lost")
    put_order(deployment, "mail-lost", status="paid", charge_id="ch_1")
    message = {"job": "receipt.send", "v": 1, "order_id": "mail-lost"}
    claim_as_other_worker(deployment, key, message, lease=-timedelta(minutes=20))

    assert outcome_for(deployment.reconcile(key=key), key) == "needs_review"
    assert "it may have happened" in deployment.wait_for_alert(key)
    assert not any("mail-lost@" in mail.to for mail in deployment.sandbox.ses.ledger.mails)

    # Its event arrives late.
    claimed = get_job(deployment, key)
    event = mail_event(
        "Send",
        key=key,
        fence=claimed.fence,
        deployment=claimed.deployment,
        tag_key=table_identity(deployment).tag_key,
    )
    deployment.send("EventsQueueUrl", as_delivered({**event, "account": ACCOUNT}))
    deployment.wait_for_job(key, "finished")
    assert get_job(deployment, key).provider_ref == "mail_1"


def test_old_job_needs_review_and_alert_names_next_command(deployment: StackClient) -> None:
    left = create_unresolved_job(deployment, "told", confirmed=False, age=timedelta(hours=25))

    done = deployment.reconcile(key=left.key)

    lines = deployment.wait_for_alert(left.key).splitlines()
    assert done["jobs"][0]["alert"] == "delivered"
    assert f"Known: provider reference: {left.ref}" in lines
    assert f"Unknown: the outcome of {left.ref} at the provider" in lines
    assert f"Next: oncely show '{left.key}' --stack {STACK_NAME}" in lines
    assert get_job(deployment, left.key).due_at is None
    assert outcome_for(done, left.key) == "needs_review"
    assert any("older than" in line for line in lines)
    assert count_charges(deployment, "told") == 0


def test_concurrent_sweeps_alert_once(deployment: StackClient) -> None:
    left = [
        create_unresolved_job(deployment, f"told-once-{number}", due=True) for number in range(5)
    ]
    for one in left:
        change_amount_at_stripe(deployment, one.ref, amount=9900)

    with ThreadPoolExecutor(max_workers=2) as pool:
        list(pool.map(lambda _: run_sweep(deployment), range(2)))
    run_sweep(deployment)

    for one in left:
        deployment.wait_for_job(one.key, "needs_review")
        deployment.wait_for_alert(one.key)
        assert [entry.event for entry in get_job(deployment, one.key).evidence].count(
            Event.ALERT
        ) == 1


def test_unreadable_row_is_listed_and_blocks_no_other_job(deployment: StackClient) -> None:
    left = create_unresolved_job(deployment, "neighbour", due=True)
    broken = "payment.charge:order_broken"
    create_unresolved_job(deployment, "broken", due=True)
    table = deployment.outputs["JobsTableName"]
    rows = deployment.client("dynamodb")
    rows.update_item(
        TableName=table,
        Key={"job_key": {"S": broken}},
        UpdateExpression="SET message = :nonsense",
        ExpressionAttributeValues={":nonsense": {"S": "{not JSON"}},
    )

    done = run_sweep(deployment)
    deployment.wait_for_job(left.key, "finished")
    rows.delete_item(TableName=table, Key={"job_key": {"S": broken}})

    (listed,) = (one for one in done["jobs"] if one["key"] == broken)
    assert listed["outcome"] == "error"
    assert "cannot be read by this deployment" in listed["reason"]
    assert "changed by hand" in listed["reason"]
    assert (done["counts"]["error"], sum(done["counts"].values())) == (1, len(done["jobs"]))


def test_reconciler_only_reads_at_provider(deployment: StackClient) -> None:
    left = create_unresolved_job(deployment, "reads")
    before = len(deployment.sandbox.ledger.requests)

    deployment.reconcile(key=left.key)

    ours = [
        request.method
        for request in deployment.sandbox.ledger.requests[before:]
        if left.ref in request.path or request.params.get("customer") == "cus_reads"
    ]
    assert ours == ["GET"]  # the customer's payments: ours, and whether there is another


def test_concurrent_sweeps_write_one_outcome(deployment: StackClient) -> None:
    left = [create_unresolved_job(deployment, f"twice-{number}", due=True) for number in range(5)]

    with ThreadPoolExecutor(max_workers=2) as pool:
        list(pool.map(lambda _: run_sweep(deployment), range(2)))

    for one in left:
        events = [entry.event for entry in get_job(deployment, one.key).evidence]
        assert (events.count(Event.CONFIRM), count_charges(deployment, one.order_id)) == (1, 1)


def test_invalid_input_fails_sweep(deployment: StackClient) -> None:
    started = deployment.client("stepfunctions").start_execution(
        stateMachineArn=deployment.outputs["ReconcilerArn"], input='{"limit": 5000}'
    )

    ended = wait_for(
        lambda: deployment.account.sweep_result(started["executionArn"]), "the sweep has ended"
    )

    assert ended["status"] == "FAILED"
    assert job_store(deployment).get(JobKey("limit")) is None
