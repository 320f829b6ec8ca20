"""The age of a job: what its row waited for, and what held it, is not age; everything else is."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from oncely.core.decide import MESSAGE_GRACE
from oncely.core.effect_outcomes import (
    EffectOutcome,
    LookupOutcome,
    NotSent,
    Pending,
)
from oncely.core.errors import NotConfiguredError
from oncely.core.job_row import JobRow, is_our_write
from oncely.core.lifecycle import Event, Status, WaitKind
from oncely.core.run_job import JobRunner
from oncely.core.surroundings import Hold
from oncely.gates.gate import Gate, PauseAction
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_finished
from tests.unit.decision_grid import decide_any
from tests.unit.samples import KEY, NOW, TERMS, make_job

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
LIMIT = TERMS.limits.max_age


@pytest.fixture
def world() -> InMemoryStack:
    world = InMemoryStack()
    world.add_order()
    return world


def missing_secret(name: str) -> str:
    raise NotConfiguredError(f"the secret {name!r} is empty: store the API key in it")


def switch(world: InMemoryStack, action: PauseAction, target: str) -> None:
    world.app().pause_switch.change(target, action, actor="ada", reason="wrong prices")


def pause_for(world: InMemoryStack, duration: timedelta, target: str = "payment.charge") -> None:
    switch(world, PauseAction.PAUSE, target)
    world.clock.time += duration
    switch(world, PauseAction.RESUME, target)


def run_near_receive_limit(
    world: InMemoryStack, duration: timedelta, make_runner: Callable[[], JobRunner]
) -> None:
    """Run a message that its row then keeps, and the next one when a sweep sends it."""
    ends, body = world.clock.now() + duration, json.dumps(charge_message())
    while world.clock.now() < ends and world.job(KEY).unresolved:
        deadline = world.clock.now() + timedelta(minutes=1)
        make_runner().run(body, deadline=deadline, nack=False)
        world.clock.time = (world.job(KEY).due_at or ends) + timedelta(minutes=1)
        world.reconcile(KEY)
        world.clock.advance(seconds=30)


@pytest.mark.parametrize("kind", WaitKind)
@pytest.mark.parametrize("by_note", [True, False])
def test_wait_moves_the_start_of_the_age_as_it_passes(kind: WaitKind, *, by_note: bool) -> None:
    """The writes in between do not change the sum."""
    job = make_job(status=Status.READY, waits_for=kind, created_at=NOW - HOUR)
    if by_note:
        for minutes in (0, 1, 20):
            at = NOW + timedelta(minutes=minutes)
            job = job.apply(Event.NOTE, now=at, actor="anyone", reason="noted")
    is_age = kind not in {WaitKind.BUSINESS_ROW, WaitKind.GATE, WaitKind.SECRET}
    assert job.age_starts_at(NOW + DAY) == NOW - HOUR + (timedelta(0) if is_age else DAY)


def test_age_never_starts_later_than_now() -> None:
    """Not even in a row that a clock ahead of ours wrote last, or whose age was to start later."""
    waiting = make_job(status=Status.READY, waits_for=WaitKind.SECRET)
    ahead = replace(waiting, updated_at=NOW + HOUR)
    assert ahead.age_starts_at(NOW) == NOW
    promised = replace(waiting, created_at=NOW - 2 * DAY, age_from=NOW + HOUR)
    assert promised.age_starts_at(NOW + 3 * HOUR) == NOW + 3 * HOUR


def test_missing_secret_is_not_age_however_a_message_ends(world: InMemoryStack) -> None:
    """At the receive limit the row keeps the job, and a sweep resends its message."""
    world.enqueuer().enqueue(charge_message())

    run_near_receive_limit(world, 5 * DAY, lambda: world.runner(secret=missing_secret))

    assert world.job(KEY).status is Status.READY, world.job(KEY).last_error
    assert is_finished(world.run(charge_message()))


def test_rate_limit_is_not_age(world: InMemoryStack, monkeypatch: pytest.MonkeyPatch) -> None:
    def enter(gate: Gate, *_: object, **__: object) -> Hold:
        return Hold(reason="the rate limit is used up", until=gate.clock.now() + HOUR / 6)

    world.enqueuer().enqueue(charge_message())
    with monkeypatch.context() as limited:
        limited.setattr(Gate, "enter", enter)
        run_near_receive_limit(world, 2 * DAY, world.runner)

    assert world.job(KEY).status is Status.READY, world.job(KEY).last_error
    assert is_finished(world.run(charge_message()))


def test_copies_of_a_message_do_not_add_up_their_waits(world: InMemoryStack) -> None:
    for _ in range(200):
        world.run(charge_message(), runner=world.runner(secret=missing_secret))
        world.clock.advance(seconds=0.2)
    now = world.clock.now()
    assert (world.job(KEY).age_from or now) <= now


@pytest.mark.parametrize(
    ("status", "outcome", "wait"),
    [
        (Status.UNKNOWN, Pending("at the bank"), HOUR),
        (Status.STARTED, NotSent("rate limited", retry_after=HOUR), HOUR),
    ],
)
def test_repeated_promise_is_excluded_once(
    status: Status, outcome: EffectOutcome | LookupOutcome, wait: timedelta
) -> None:
    """Events make each lookup early, and copies of a message each claim."""
    job, now = make_job(status=status), NOW
    for _ in range(200):
        now += timedelta(seconds=1)
        job = decide_any(job, TERMS, outcome, now=now).apply_to(job, now=now, actor="anyone")
        job = replace(job, status=status)
    assert job.age_starts_at(now) <= now + wait


@pytest.mark.parametrize("is_parked", [True, False], ids=["in its row", "in its queue"])
def age_limit_is_reached(world: InMemoryStack, *, within: timedelta) -> bool:
    """Sweep each minute, while every message is lost."""
    ends = world.clock.now() + within
    while world.clock.now() < ends and world.job(KEY).unresolved:
        world.clock.advance(minutes=1)
        if (world.job(KEY).due_at or ends) <= world.clock.now():
            world.reconcile(KEY)
    return world.job(KEY).status is Status.NEEDS_REVIEW


def hold_by_secret(world: InMemoryStack) -> None:
    world.run(charge_message(), runner=world.runner(secret=missing_secret))


def hold_by_pause(world: InMemoryStack) -> None:
    switch(world, PauseAction.PAUSE, "payment.charge")
    world.run(charge_message())
    pause_for(world, DAY)


def hold_by_nothing(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(charge_message())


@pytest.mark.parametrize("hold", [hold_by_secret, hold_by_pause, hold_by_nothing])
def test_job_whose_messages_are_lost_reaches_its_age_limit(
    world: InMemoryStack, hold: Callable[[InMemoryStack], None]
) -> None:
    """What it waited for before is over, so its row may not wait for that forever."""
    hold(world)
    assert not age_limit_is_reached(world, within=LIMIT - HOUR)
    assert age_limit_is_reached(world, within=2 * HOUR + 2 * MESSAGE_GRACE)


def test_write_is_ours_although_others_moved_the_age_since() -> None:
    """After a lost response, a note on the row that waits is no other owner's write."""
    before = make_job(status=Status.READY, waits_for=WaitKind.GATE)
    resent = written(before, Event.RESEND, NOW + HOUR)
    noted = written(resent, Event.NOTE, NOW + 2 * HOUR)
    assert is_our_write(noted, before=before, write=resent)


def written(job: JobRow, event: Event, at: datetime) -> JobRow:
    return job.apply(event, now=at, actor="anyone", reason=str(event))
