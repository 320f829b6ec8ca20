"""Pause and resume: no effect begins, nothing is lost, and the time does not count as age."""

import json
from datetime import timedelta

import pytest

from oncely.core.errors import InvalidRequestError
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status, WaitKind
from oncely.gates.gate import Pause, PauseAction, PauseEntry
from oncely.gates.table import GateTable
from oncely.operate.own_tables import GATES
from oncely.operate.pauses import MAX_REASON_LENGTH, PauseChange, gates_to_json
from oncely.reconcile.find_due_work import SweepRequest
from oncely.reconcile.reconciler import HELD
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_conflict, is_duplicate, is_finished, is_held
from tests.support.provider_fault import ProviderFault
from tests.support.worker import BatchHarness, make_delivery

KEY = JobKey("payment.charge:order_18452")
TARGETS = ("payment.charge", "payments", "stripe")


@pytest.fixture
def world() -> InMemoryStack:
    world = InMemoryStack()
    world.add_order()
    return world


def change(world: InMemoryStack, action: PauseAction, target: str = TARGETS[0]) -> PauseChange:
    return world.app().pause_switch.change(target, action, actor="ada", reason="wrong prices")


def pause(world: InMemoryStack, target: str = TARGETS[0]) -> PauseChange:
    return change(world, PauseAction.PAUSE, target)


def resume(world: InMemoryStack, target: str = TARGETS[0]) -> PauseChange:
    return change(world, PauseAction.RESUME, target)


def sweep(world: InMemoryStack) -> list[str]:
    """One sweep. Returns what it did about each job."""
    items = world.finder().find(SweepRequest()).items
    deadline = world.clock.now() + timedelta(minutes=2)
    handled = world.app().group_resolver.resolve(items, deadline=deadline)
    return [one.resolution.outcome for one in handled if one.resolution is not None]


@pytest.mark.parametrize("target", TARGETS)
def test_paused_job_waits_in_its_row_for_three_days(world: InMemoryStack, target: str) -> None:
    pause(world, target)
    batch = BatchHarness(world=world)

    (processed,) = batch.process(make_delivery(charge_message()))

    assert is_held(processed.outcome)
    assert processed.acked, "the row has the message, and a queue keeps one for days only"
    assert (world.job(KEY).status, world.job(KEY).attempts) == (Status.READY, 0)
    version = world.job(KEY).version
    for _ in range(3 * 24):
        world.clock.advance(hours=1)
        assert set(sweep(world)) <= {HELD}
    assert world.job(KEY).version == version, "no write for each job and sweep"
    assert not world.payments.intents

    resume(world, target)
    sweep(world)
    (body,) = world.outbox.sent
    assert is_finished(world.run(body))
    assert world.alerts.sent == []


def test_pause_is_checked_again_before_each_effect(world: InMemoryStack) -> None:
    def prepare(*given: object, **more: object) -> object:
        prepared = world.payments.client.prepare(*given, **more)
        pause(world)
        return prepared

    world.payments.prepare = prepare

    outcome = world.run(charge_message())

    assert is_held(outcome)
    assert not outcome.redeliver
    job = world.job(KEY)
    assert (job.status, job.attempts, job.provider_ref) == (Status.READY, 0, "pi_1")
    assert not world.payments.charges
    resume(world)
    sweep(world)
    assert is_finished(world.run(world.outbox.sent.pop()))
    assert len(world.payments.charges) == 1


def test_pause_does_not_stop_lookups(world: InMemoryStack) -> None:
    world.payments.fail_next("execute", ProviderFault.TIMEOUT_AFTER)
    world.run(charge_message())
    assert world.job(KEY).status is Status.UNKNOWN
    pause(world)
    world.clock.advance(minutes=1)
    assert sweep(world) == [Status.FINISHED]


def test_unknown_job_that_is_requeued_waits_for_resume(world: InMemoryStack) -> None:
    """Three days of pause, in which the lookup proves that nothing was charged."""
    world.payments.fail_next("execute", ProviderFault.TIMEOUT_BEFORE)
    world.run(charge_message())
    pause(world)
    world.clock.advance(minutes=1)
    sweep(world)
    assert is_held(world.run(world.outbox.sent.pop()))
    world.clock.advance(days=3)
    assert set(sweep(world)) <= {HELD}
    resume(world)
    sweep(world)
    assert is_finished(world.run(world.outbox.sent.pop()))


def test_ready_row_of_paused_type_does_not_age(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(charge_message())
    pause(world)
    world.clock.advance(days=3)
    assert sweep(world) == []
    resume(world)
    world.clock.advance(hours=23)
    assert sweep(world) == [Status.READY]
    assert is_finished(world.run(world.outbox.sent.pop()))


def test_time_outside_of_pauses_is_age(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(charge_message())
    pause(world)
    world.clock.advance(days=3)
    resume(world)
    world.clock.advance(hours=25)
    assert sweep(world) == [Status.NEEDS_REVIEW]


def test_worker_does_not_count_pause_as_age(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(charge_message())
    pause(world)
    world.clock.advance(days=3)
    resume(world)
    assert is_finished(world.run(charge_message()))


def test_duplicate_of_ended_job_is_answered_during_pause(world: InMemoryStack) -> None:
    world.run(charge_message())
    pause(world)
    assert is_duplicate(world.run(charge_message()))


def test_second_message_of_held_job_changes_nothing(world: InMemoryStack) -> None:
    pause(world)
    world.run(charge_message())
    before = world.job(KEY)
    world.clock.advance(minutes=1)
    assert is_held(world.run(charge_message()))
    assert world.job(KEY) == before


def test_other_message_of_held_job_is_not_dropped(world: InMemoryStack) -> None:
    """It may have other values, which only the claim of the first one shows."""
    pause(world)
    world.run(charge_message())
    other = charge_message(amount=world.order()["amount"])
    held = world.run(other)
    assert is_held(held)
    assert held.redeliver
    deadline = world.clock.now() + timedelta(minutes=1)
    last = world.runner().run(json.dumps(other), deadline=deadline, nack=False)
    assert is_conflict(last)
    assert last.alerted


def test_message_with_other_values_than_the_claimed_ones_is_rejected_during_pause(
    world: InMemoryStack,
) -> None:
    world.payments.fail_next("prepare", ProviderFault.REFUSED_CONNECTION)
    world.run(charge_message())
    before = world.job(KEY)
    assert before.status is Status.READY
    world.add_order(amount=9900)
    pause(world)

    assert is_conflict(world.run(charge_message()))

    assert world.job(KEY) == before


def test_enqueued_row_shows_why_it_waits(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(charge_message())
    pause(world)
    assert is_held(world.run(charge_message()))
    job = world.job(KEY)
    assert (job.evidence[-1].event, job.waits_for) == (Event.PARK, WaitKind.GATE)
    assert "payment.charge is paused since" in (job.last_error or "")
    assert job.due_at == world.clock.now()


def test_other_job_types_continue(world: InMemoryStack) -> None:
    pause(world, "receipt.send")
    assert is_finished(world.run(charge_message()))


def test_changes_are_recorded_once_with_who_and_why(world: InMemoryStack) -> None:
    assert pause(world).is_changed
    assert not pause(world).is_changed
    assert resume(world).is_changed
    assert not resume(world).is_changed
    found = gates_to_json(world.app().pause_switch.snapshot())
    assert found["paused"] == []
    history = found["history"]
    assert isinstance(history, list)
    assert [one["action"] for one in history] == ["pause", "resume"]  # type: ignore[index,call-overload]  # JSON
    assert json.dumps(history[0]).count("wrong prices") == 1


@pytest.mark.parametrize(
    ("target", "found"),
    [("payments", "queue:payments"), ("provider:stripe", "provider:stripe")],
)
def test_target_is_found_by_its_name(world: InMemoryStack, target: str, found: str) -> None:
    assert pause(world, target).pause.target == found


def test_unknown_target_is_refused_with_known_ones(world: InMemoryStack) -> None:
    with pytest.raises(InvalidRequestError, match="no job type, queue or provider 'charges'; use"):
        pause(world, "charges")


def test_what_is_no_longer_deployed_can_be_resumed(world: InMemoryStack) -> None:
    """Otherwise its alarm could never end."""
    entry = PauseEntry(at=world.clock.now(), action=PauseAction.PAUSE, actor="ada", reason="why")
    world.gates.write_pause(Pause(target="sync.removed", entries=(entry,)))
    assert resume(world, "sync.removed").is_changed
    with pytest.raises(InvalidRequestError, match=r"no job type.*'sync\.removed'"):
        pause(world, "sync.removed")


def test_two_operators_who_resume_at_once_leave_one_entry(world: InMemoryStack) -> None:
    pause(world)

    class Slow(GateTable):
        def write_pause(self, after: Pause) -> bool:
            resume(world)
            return super().write_pause(after)

    switch = world.app(gate_table=Slow(world.gates.client, GATES)).pause_switch
    done = switch.change(TARGETS[0], PauseAction.RESUME, actor="bo", reason="fixed")

    assert not done.is_changed
    entries = world.gates.read().pauses[TARGETS[0]].entries
    assert [(one.action, one.actor) for one in entries] == [
        (PauseAction.PAUSE, "operator:ada"),
        (PauseAction.RESUME, "operator:ada"),
    ]


def test_huge_reason_is_one_short_line(world: InMemoryStack) -> None:
    reason = "prices\nresumed by bo " + "x" * 1_000_000
    switch = world.app().pause_switch
    done = switch.change("stripe", PauseAction.PAUSE, actor="ada", reason=reason)
    (entry,) = done.pause.entries
    assert len(entry.reason) == MAX_REASON_LENGTH
    assert entry.reason.isprintable()


def test_pause_needs_a_reason(world: InMemoryStack) -> None:
    with pytest.raises(InvalidRequestError, match="enter a reason"):
        world.app().pause_switch.change("stripe", PauseAction.PAUSE, actor="ada", reason=" ")
