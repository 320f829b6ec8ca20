"""The shipped handler with a batch of every kind of message, over real sockets."""

import json
from datetime import timedelta
from typing import Any

import pytest

from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.worker import KEY, WorkerHarness, invoke_handler, lease_to_other_worker

GOOD = ("1", "2", "3", "4")
NOT_JSON = '{"job": "payment.charge", '
UNKNOWN_JOB = json.dumps({"job": "payment.repeat", "v": 1, "order_id": "1"})
TOO_LARGE = json.dumps(charge_message("1", customer_id="x" * 200_000))
HALF_A_CHARACTER = '{"job": "payment.charge", "v": 1, "order_id": "\\ud83d"}'
DECLINED = json.dumps(charge_message("declined"))
IN_PROGRESS = json.dumps(charge_message("in-progress"))
BATCH = (
    NOT_JSON,
    json.dumps(charge_message("1")),
    UNKNOWN_JOB,
    json.dumps(charge_message("2")),
    TOO_LARGE,
    HALF_A_CHARACTER,
    DECLINED,
    json.dumps(charge_message("3")),
    IN_PROGRESS,
    json.dumps(charge_message("4")),
)


@pytest.fixture
def world(rig: WorkerHarness) -> InMemoryStack:
    world = rig.world()
    for order_id in (*GOOD, "in-progress", "18452"):
        world.add_order(order_id)
    world.add_order("declined", payment_method="pm_card_chargeDeclined")
    lease_to_other_worker(world, lease=timedelta(minutes=5), order_id="in-progress")
    return world


def process_event(rig: WorkerHarness, event: dict[str, Any]) -> list[str]:
    answer = invoke_handler(event)
    rig.delete_acked(event, answer)
    kept = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
    return [record["body"] for record in event["Records"] if record["messageId"] in kept]


def test_each_message_of_batch_has_own_outcome(rig: WorkerHarness, world: InMemoryStack) -> None:
    event = rig.deliver(*BATCH)

    kept = process_event(rig, event)

    assert (len(event["Records"]), kept) == (len(BATCH), [IN_PROGRESS])
    assert rig.remaining_messages() == 1
    for order_id in GOOD:
        [charged] = rig.sandbox.stripe.ledger.charges_for(order_id)
        order = world.order(order_id)
        assert (order["status"], order["charge_id"]) == ("paid", charged.charge_id)
        assert world.job(f"payment.charge:order_{order_id}").status is Status.FINISHED
    assert len(rig.sandbox.stripe.ledger.charges) == len(GOOD)
    job = world.job("payment.charge:order_declined")
    assert (job.status, (job.result or {})["code"]) == (Status.FAILED, "card_declined")
    assert world.order("declined")["status"] == "payment_failed"
    rejected = rig.rejected()
    assert rejected.keys() == {NOT_JSON, UNKNOWN_JOB, TOO_LARGE, HALF_A_CHARACTER}
    assert "not JSON" in rejected[NOT_JSON]
    assert "unknown job type 'payment.repeat'" in rejected[UNKNOWN_JOB]
    assert "65536 are allowed" in rejected[TOO_LARGE]
    assert "not a valid payment.charge message" in rejected[HALF_A_CHARACTER]


def test_lone_surrogate_in_body_is_rejected(rig: WorkerHarness, world: InMemoryStack) -> None:
    event = rig.deliver(json.dumps(charge_message("1")), "to be replaced")
    event["Records"][1]["body"] = '{"job": "payment.charge", "v": 1, "order_id": "\ud83d"}'
    assert process_event(rig, event) == []
    assert (list(rig.rejected()), world.order("1")["status"]) == ([HALF_A_CHARACTER], "paid")


def test_reject_reason_escapes_characters_sqs_forbids(rig: WorkerHarness) -> None:
    body = '{"job": "payment.charge", "v": 1, "order_id": "1", "\\u0000\\uffff": 1}'
    assert process_event(rig, rig.deliver(body)) == []
    assert r"\x00\uffff" in rig.rejected()[body]


def test_redelivered_batch_charges_nothing(rig: WorkerHarness, world: InMemoryStack) -> None:
    event = rig.deliver(*BATCH)
    invoke_handler(event)
    keys = [JobKey(f"payment.charge:order_{order_id}") for order_id in (*GOOD, "declined")]
    before = [rig.dynamo.row(key) for key in keys]

    assert process_event(rig, event) == [IN_PROGRESS]
    assert len(rig.sandbox.stripe.ledger.charges) == len(GOOD)
    assert [rig.dynamo.row(key) for key in keys] == before


def test_duplicates_in_batch_are_charged_once(rig: WorkerHarness, world: InMemoryStack) -> None:
    process_event(rig, rig.deliver(*[json.dumps(charge_message())] * 10))
    assert len(rig.sandbox.stripe.ledger.charges_for(KEY)) == 1
    assert world.job(KEY).status is Status.FINISHED


@pytest.mark.parametrize("changed", ["message", "order"])
def test_conflicting_amount_is_rejected_and_alerts(
    rig: WorkerHarness, world: InMemoryStack, changed: str
) -> None:
    process_event(rig, rig.deliver(json.dumps(charge_message())))
    before = rig.dynamo.row(KEY)
    if changed == "order":
        world.add_order(amount=9900)
    body = json.dumps(charge_message(amount=9900))

    assert process_event(rig, rig.deliver(body)) == []
    assert list(rig.rejected()) == [body]
    subjects = [alert["Subject"] for alert in rig.alerts()]
    assert subjects == [f"Oncely: conflicting message for {KEY}"]
    assert (rig.dynamo.row(KEY), len(rig.sandbox.stripe.ledger.charges)) == (before, 1)
