"""The shipped handler on a batch of everything that can arrive, over real sockets."""

import json
from datetime import timedelta
from typing import Any

import pytest

from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Status
from tests.support.worker import KEY, Stage, held_elsewhere, invoke
from tests.support.world import World, charge

GOOD = ("1", "2", "3", "4")
NOT_JSON = '{"job": "payment.charge", '
UNKNOWN_JOB = json.dumps({"job": "payment.refund", "v": 1, "order_id": "1"})
TOO_LARGE = json.dumps(charge("1", customer_id="x" * 200_000))
HALF_A_CHARACTER = '{"job": "payment.charge", "v": 1, "order_id": "\\ud83d"}'
DECLINED = json.dumps(charge("declined"))
IN_PROGRESS = json.dumps(charge("in-progress"))
BATCH = (
    NOT_JSON,
    json.dumps(charge("1")),
    UNKNOWN_JOB,
    json.dumps(charge("2")),
    TOO_LARGE,
    HALF_A_CHARACTER,
    DECLINED,
    json.dumps(charge("3")),
    IN_PROGRESS,
    json.dumps(charge("4")),
)


@pytest.fixture
def world(stage: Stage) -> World:
    """Orders to charge; one whose card is declined, one that another worker has."""
    world = stage.world()
    for order_id in (*GOOD, "in-progress", "18452"):
        world.add_order(order_id)
    world.add_order("declined", payment_method="pm_card_chargeDeclined")
    held_elsewhere(world, lease=timedelta(minutes=5), order_id="in-progress")
    return world


def work(stage: Stage, event: dict[str, Any]) -> list[str]:
    """Invoke the function as Lambda does; gives the bodies that the queue must keep."""
    answer = invoke(event)
    stage.forget_acked(event, answer)
    kept = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
    return [record["body"] for record in event["Records"] if record["messageId"] in kept]


def test_only_leased_message_of_mixed_batch_stays_queued(stage: Stage, world: World) -> None:
    event = stage.deliver(*BATCH)

    kept = work(stage, event)

    assert len(event["Records"]) == len(BATCH)
    assert kept == [IN_PROGRESS]
    assert stage.left_in_queue() == 1


def test_valid_messages_of_mixed_batch_are_charged_once(stage: Stage, world: World) -> None:
    work(stage, stage.deliver(*BATCH))

    for order_id in GOOD:
        [charged] = stage.stripe.ledger.charges_for(order_id)
        assert world.order(order_id)["status"] == "paid"
        assert world.order(order_id)["charge_id"] == charged.charge_id
        assert world.job(f"payment.charge:order_{order_id}").status is Status.FINISHED
    assert len(stage.stripe.ledger.charges) == len(GOOD)


def test_declined_card_fails_job_and_order(stage: Stage, world: World) -> None:
    work(stage, stage.deliver(*BATCH))

    job = world.job("payment.charge:order_declined")
    assert job.status is Status.FAILED
    assert job.result is not None
    assert job.result["code"] == "card_declined"
    assert world.order("declined")["status"] == "payment_failed"


def test_invalid_message_is_rejected_unchanged_with_reason(stage: Stage, world: World) -> None:
    work(stage, stage.deliver(*BATCH))

    rejected = stage.rejected()
    assert rejected.keys() == {NOT_JSON, UNKNOWN_JOB, TOO_LARGE, HALF_A_CHARACTER}
    assert "not JSON" in rejected[NOT_JSON]
    assert "unknown job 'payment.refund'" in rejected[UNKNOWN_JOB]
    assert "65536 are allowed" in rejected[TOO_LARGE]
    assert "not a valid payment.charge message" in rejected[HALF_A_CHARACTER]


def test_lone_surrogate_in_event_body_is_rejected(stage: Stage, world: World) -> None:
    event = stage.deliver(json.dumps(charge("1")), "to be replaced")
    event["Records"][1]["body"] = '{"job": "payment.charge", "v": 1, "order_id": "\ud83d"}'

    kept = work(stage, event)

    assert kept == []
    assert list(stage.rejected()) == [HALF_A_CHARACTER]
    assert world.order("1")["status"] == "paid"


def test_reject_reason_escapes_characters_sqs_forbids(stage: Stage) -> None:
    body = '{"job": "payment.charge", "v": 1, "order_id": "1", "\\u0000\\uffff": 1}'

    kept = work(stage, stage.deliver(body))

    assert kept == []
    assert r"\x00\uffff" in stage.rejected()[body]


def test_redelivered_batch_charges_nothing(stage: Stage, world: World) -> None:
    event = stage.deliver(*BATCH)
    invoke(event)
    keys = [JobKey(f"payment.charge:order_{order_id}") for order_id in (*GOOD, "declined")]
    before = [stage.dynamo.row(key) for key in keys]

    kept = work(stage, event)

    assert kept == [IN_PROGRESS]
    assert len(stage.stripe.ledger.charges) == len(GOOD)
    assert [stage.dynamo.row(key) for key in keys] == before


def test_duplicates_in_one_batch_are_charged_once(stage: Stage, world: World) -> None:
    body = json.dumps(charge())

    work(stage, stage.deliver(*[body] * 10))

    assert len(stage.stripe.ledger.charges_for(KEY)) == 1
    assert world.job(KEY).status is Status.FINISHED


@pytest.mark.parametrize("changed", ["message", "order"])
def test_conflicting_amount_is_rejected_and_alerts(
    stage: Stage, world: World, changed: str
) -> None:
    work(stage, stage.deliver(json.dumps(charge())))
    before = stage.dynamo.row(KEY)
    if changed == "order":
        world.add_order(amount=9900)
    body = json.dumps(charge(amount=9900))

    kept = work(stage, stage.deliver(body))

    assert kept == []
    assert list(stage.rejected()) == [body]
    assert [alert["Subject"] for alert in stage.alerts()] == [
        f"Oncely: conflicting message for {KEY}"
    ]
    assert stage.dynamo.row(KEY) == before
    assert len(stage.stripe.ledger.charges) == 1
