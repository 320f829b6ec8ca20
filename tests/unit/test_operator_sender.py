"""An operator's message: sent as a producer's, or held in its row until a second one confirms."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from oncely.core.job_row import operator_actor
from oncely.core.lifecycle import Event, Status
from oncely.core.repairs import Repair
from oncely.operate.operator_sender import OperatorSend, SendResult
from oncely.operate.repair_request import NotAllowed, Repaired, RepairRequested
from oncely.operate.second_operator import REQUEST_VALIDITY
from tests.support.cli import FakeStackConnection, run_cli
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import awaits_resolution, is_finished
from tests.support.repairs import KEY, OPERATOR, repair_job
from tests.support.scheduled_charge import ScheduledCharge
from tests.unit.samples import TICK

SECOND = "bob@example.com"
WRONG = charge_message(amount=9900)


@pytest.fixture
def world() -> InMemoryStack:
    """An order of 12.50 EUR, where one operator may decide about 12.49 EUR."""
    world = InMemoryStack(second_operator_above="eur:1249")
    world.add_order()
    return world


def send(
    world: InMemoryStack,
    *messages: dict[str, Any],
    actor: str = OPERATOR,
) -> list[SendResult]:
    by = OperatorSend(actor=actor, reason="a call")
    return world.app().operator_sender.send(messages or (charge_message(),), by)


def test_scheduled_job_in_review_keeps_its_time() -> None:
    world = InMemoryStack(second_operator_above="eur:1249", contracts=(ScheduledCharge,))
    world.add_order()
    run_at = world.clock.now() + timedelta(days=30)
    send(world, charge_message(run_at=run_at.isoformat()))

    assert awaits_resolution(world.run(charge_message()))
    assert world.payments.calls == []

    world.clock.time = run_at
    assert is_finished(world.run(charge_message()))


def test_request_is_the_first_write_of_the_row(world: InMemoryStack) -> None:
    (result,) = send(world)

    assert (result.created, result.sent, result.status) == (True, False, Status.NEEDS_REVIEW)
    assert f"{OPERATOR} requested reopen, valid until 2026-11-17 03:00 UTC" in str(result.waits)
    job = world.job(KEY)
    assert (job.version, job.fence, job.awaits_message) == (1, 0, True)
    (entry,) = job.evidence
    assert (entry.event, entry.actor) == (Event.REQUEST, operator_actor(OPERATOR))
    assert job.last_error is not None
    assert job.last_error.startswith(f"{OPERATOR} asked to send it")
    view = world.inspector().get(KEY)
    assert view is not None
    assert "A second operator returns the job to ready" in view.next_step


@pytest.mark.parametrize(
    ("above", "message", "waits"),
    [
        ("", charge_message(), False),
        ("eur:1250", charge_message(), False),
        ("usd:9999", charge_message(), True),
        ("eur:1250", charge_message("missing"), True),
        ("eur:0", {"job": "receipt.send", "v": 1, "order_id": "18452"}, False),
    ],
    ids=["off", "not above", "other currency", "unknown amount", "no money"],
)
def test_effect_decides_whether_message_waits(
    world: InMemoryStack, above: str, message: dict[str, Any], *, waits: bool
) -> None:
    world.second_operator_above = above

    (result,) = send(world, message)

    assert (result.created, result.sent, result.waits is not None) == (True, not waits, waits)
    first = world.job(result.job_key).evidence[0]
    assert first.actor == operator_actor(OPERATOR)


def test_message_cannot_replace_one_that_is_ready(world: InMemoryStack) -> None:
    """Otherwise a small message, a pause and a large message would need one operator."""
    world.enqueuer().enqueue(WRONG)
    world.outbox.sent.clear()
    before = world.job(KEY)

    (result,) = send(world)

    assert "cannot replace it: cancel the job, or wait for its review" in str(result.conflict)
    assert (world.job(KEY), world.outbox.sent) == (before, [])


def test_second_operator_runs_the_message_that_was_requested(world: InMemoryStack) -> None:
    """The review holds the wrong message. The request replaces it in the same write."""
    world.enqueuer().enqueue(WRONG)
    world.clock.advance(hours=1)
    world.reconcile(KEY)
    world.outbox.sent.clear()
    assert world.job(KEY).awaits_message

    (result,) = send(world)

    assert "recorded as a request" in str(result.waits)
    assert world.job(KEY).message == charge_message()
    (other,) = send(world, {**charge_message(), "currency": "eur"}, actor=SECOND)
    assert "Confirm exactly that" in str(other.waits)
    assert isinstance(repair_job(world, Repair.REOPEN, actor=SECOND), Repaired)
    assert is_finished(world.run(world.outbox.sent.pop()))


def test_message_of_producer_runs_held_job(world: InMemoryStack) -> None:
    """The producer has the right to send it, whatever an operator asked for."""
    send(world)
    assert world.enqueuer().enqueue(charge_message()).sent
    assert is_finished(world.run(world.outbox.sent.pop()))
    assert isinstance(repair_job(world, Repair.REOPEN, actor=SECOND), NotAllowed)


def test_unconfirmed_request_is_alerted_and_sends_nothing(world: InMemoryStack) -> None:
    send(world)
    world.clock.time += REQUEST_VALIDITY - TICK
    world.reconcile(KEY)
    assert world.alerts.sent == []

    world.clock.time += TICK
    world.reconcile(KEY)

    (alert,) = world.alerts.sent
    assert "Nothing was sent to the provider" in alert.text
    assert "a second operator must confirm it with reopen" in alert.text
    assert (world.outbox.sent, world.job(KEY).status) == ([], Status.NEEDS_REVIEW)
    assert isinstance(repair_job(world, Repair.REOPEN), RepairRequested)
    assert isinstance(repair_job(world, Repair.REOPEN, actor=SECOND), Repaired)


def test_file_sends_the_small_and_holds_the_large(world: InMemoryStack) -> None:
    world.add_order("2", amount=5)
    lines = "\n".join(json.dumps(charge_message(order)) for order in ("18452", "2"))
    stack = FakeStackConnection(world)

    text = run_cli("send", "--file", "-", connection=stack, stdin_text=lines)
    again = run_cli("send", "--json", "--file", "-", connection=stack, stdin_text=lines)

    assert (text.exit_code, again.exit_code) == (4, 4)
    assert f"waits      {KEY}  for a second operator: recorded as a request" in text.stdout
    assert text.stdout.splitlines()[-1] == "1 created, 1 waits"
    told = [json.loads(line) for line in again.stdout.splitlines()]
    assert [one["outcome"] for one in told] == ["waits", "duplicate"]
    assert [json.loads(one)["order_id"] for one in world.outbox.sent] == ["2"]


@pytest.mark.parametrize("status", [Status.NEEDS_REVIEW, Status.UNKNOWN, Status.CANCELLED])
def test_forged_row_holds_no_request(world: InMemoryStack, status: Status) -> None:
    world.enqueuer().enqueue(charge_message())
    world.outbox.sent.clear()
    forged = replace(world.job(KEY), status=status, due_at=None)
    world.store.jobs[KEY] = forged

    for actor in (OPERATOR, SECOND):
        (result,) = send(world, actor=actor)
        assert (result.sent, result.waits) == (False, None)
        assert "was not written by Oncely" in str(result.conflict)

    assert (world.job(KEY), world.outbox.sent) == (forged, [])
    assert is_finished(world.run(charge_message()))
