"""An operator runs a scheduled job now, or at another time. Nobody else moves its time."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from oncely.admin_page.request_bodies import RepairBody
from oncely.core.decide import MESSAGE_GRACE
from oncely.core.errors import InvalidRequestError
from oncely.core.job_row import operator_actor
from oncely.core.lifecycle import Event, Status, WaitKind
from oncely.core.repairs import Repair
from oncely.jobs.receipt_send import ReceiptSend
from oncely.operate.repair_request import NotAllowed, Repaired, RepairRequested
from tests.support.cli import FakeStackConnection, run_cli
from tests.support.fakes import START
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_finished, is_scheduled
from tests.support.repairs import KEY, OPERATOR, REASON, is_unchanged, repair_job
from tests.support.scheduled_charge import ScheduledCharge

MONTH = START + timedelta(days=30)
WEEK = START + timedelta(days=7)
SECOND = "bob@example.com"
LATER: dict[str, Any] = {"what": Repair.RESCHEDULE, "run_at": WEEK}
NOW: dict[str, Any] = {"what": Repair.RUN_NOW}


@pytest.fixture
def world() -> InMemoryStack:
    """A charge that waits for its time for a month, and was enqueued a day ago."""
    stack = InMemoryStack(contracts=(ScheduledCharge, ReceiptSend))
    stack.add_order()
    stack.enqueuer().enqueue(charge_message(), run_at=MONTH)
    stack.clock.advance(hours=25)
    return stack


def test_run_now_sends_message_and_runs_job(world: InMemoryStack) -> None:
    outcome = repair_job(world, **NOW)

    assert isinstance(outcome, Repaired)
    row, now = world.job(KEY), world.clock.now()
    assert (row.run_at, row.due_at) == (now, now + MESSAGE_GRACE)
    entry = row.evidence[-1]
    assert (entry.event, entry.actor) == (Event.RESCHEDULE, operator_actor(OPERATOR))
    assert entry.reason == f"to run now, instead of 2026-12-16 03:00 UTC: {REASON}"
    (body,) = world.outbox.sent
    assert is_finished(world.run(body))


def test_job_run_now_is_not_too_old(world: InMemoryStack) -> None:
    """It was enqueued more than a day ago: its age counts from now, also if its message is lost."""
    repair_job(world, **NOW)
    world.outbox.sent.clear()
    assert world.run_until_idle(KEY).status is Status.FINISHED


def test_reschedule_sets_time_and_sends_nothing(world: InMemoryStack) -> None:
    outcome = repair_job(world, **LATER)

    assert isinstance(outcome, Repaired)
    assert str(outcome.details) == "it runs at 2026-11-23 03:00 UTC"
    row = world.job(KEY)
    assert (row.status, row.run_at, row.due_at) == (Status.READY, WEEK, WEEK)
    assert row.evidence[-1].reason.startswith("to run 2026-11-23 03:00 UTC, instead of 2026-12-16")
    assert world.outbox.sent == []
    assert is_scheduled(world.run(charge_message()))
    world.clock.time = WEEK
    assert is_finished(world.run(charge_message()))


@pytest.mark.parametrize("repair", [LATER, NOW])
@pytest.mark.parametrize("kind", [WaitKind.RUN_AT, WaitKind.DEAD_LETTER])
def test_operator_s_time_replaces_what_the_job_waited_for(
    world: InMemoryStack, kind: WaitKind, repair: dict[str, Any]
) -> None:
    world.store.jobs[KEY] = replace(world.job(KEY), waits_for=kind, since=START)
    assert isinstance(repair_job(world, **repair), Repaired)
    assert (world.job(KEY).waits_for, world.job(KEY).since) == (None, None)


@pytest.mark.parametrize("repair", [LATER, NOW])
def test_dry_run_says_the_same_and_changes_nothing(
    world: InMemoryStack, repair: dict[str, Any]
) -> None:
    before = world.job(KEY)
    dry = repair_job(world, **repair, dry_run=True)
    assert isinstance(dry, Repaired)
    assert is_unchanged(world, before)
    assert world.outbox.sent == []
    act = repair_job(world, **repair)
    assert isinstance(act, Repaired)
    assert (dry.details, dry.after) == (act.details, act.after)


@pytest.mark.parametrize(
    ("run_at", "reason"),
    [
        (START + timedelta(days=200), "more than 120 days ahead"),
        (START, "that time has passed: use run-now"),
        (None, "a time is required"),
    ],
)
def test_reschedule_refuses_time(world: InMemoryStack, run_at: object, reason: str) -> None:
    before = world.job(KEY)
    outcome = repair_job(world, Repair.RESCHEDULE, run_at=run_at)
    assert isinstance(outcome, NotAllowed)
    assert reason in outcome.reason
    assert is_unchanged(world, before)


@pytest.mark.parametrize("repair", [LATER, NOW])
def test_job_without_time_is_not_rescheduled(repair: dict[str, Any]) -> None:
    """Neither can an operator hold back a job that was not scheduled."""
    world = InMemoryStack(contracts=(ScheduledCharge,))
    world.add_order()
    world.enqueuer().enqueue(charge_message())
    outcome = repair_job(world, **repair)
    assert isinstance(outcome, NotAllowed)
    assert outcome.reason == "it does not wait for a run time"


@pytest.mark.parametrize("repair", [LATER, NOW])
def test_time_above_amount_waits_for_second_operator(
    world: InMemoryStack, repair: dict[str, Any]
) -> None:
    world.second_operator_above = "eur:1249"

    first = repair_job(world, **repair)
    own = repair_job(world, **repair)

    assert isinstance(first, RepairRequested)
    assert isinstance(own, NotAllowed)
    assert (world.job(KEY).run_at, world.outbox.sent) == (MONTH, [])
    assert isinstance(repair_job(world, **repair, actor=SECOND), Repaired)
    assert world.job(KEY).run_at == repair.get("run_at", world.clock.now())


def test_second_operator_confirms_exactly_the_same_time(world: InMemoryStack) -> None:
    world.second_operator_above = "eur:1249"
    repair_job(world, **LATER)
    shown = world.inspector().get(KEY)
    assert shown is not None
    option = next(one for one in shown.repairs if one.repair is Repair.RESCHEDULE)
    assert (option.needs_time, option.needs_reference) == (True, False)
    assert option.reason.startswith(f"{OPERATOR} requested reschedule to 2026-11-23T03:00:00.000Z,")

    other = {**LATER, "run_at": WEEK + timedelta(seconds=1)}
    refused = repair_job(world, **other, actor=SECOND)

    assert isinstance(refused, NotAllowed)
    assert "Confirm exactly that" in refused.reason
    assert world.job(KEY).run_at == MONTH


def test_only_reschedule_takes_time(world: InMemoryStack) -> None:
    with pytest.raises(InvalidRequestError, match="only reschedule takes a time"):
        repair_job(world, Repair.CANCEL, run_at=WEEK)


def test_page_sends_time_with_zone() -> None:
    asked = '{"key": "a.b:1", "repair": "reschedule", "version": 1, "reason": "x", "run_at": "%s"}'
    request = RepairBody.parse(asked % "2026-11-23T03:00Z").to_request(actor=OPERATOR)
    assert request.run_at == WEEK
    with pytest.raises(InvalidRequestError, match="run_at"):
        RepairBody.parse(asked % "2026-11-23T03:00")


def test_command_reschedules_job(world: InMemoryStack) -> None:
    words = ("repair", KEY, "reschedule", "--reason", "moved", "--yes", "--at")
    connection = FakeStackConnection(world)
    wrong = run_cli(*words, "soon", connection=connection)
    done = run_cli(*words, "2026-11-23T03:00:00Z", connection=connection)
    assert wrong.exit_code == 2
    assert "Invalid time 'soon': write 2026-12-07T09:00:00Z." in wrong.stderr
    assert done.exit_code == 0, done.output
    assert "it runs at 2026-11-23 03:00 UTC" in done.stdout
    assert world.job(KEY).run_at == WEEK
