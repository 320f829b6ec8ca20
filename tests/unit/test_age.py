"""The age of a job: what its row waited for, and what held it, is not age; everything else is."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from oncely.core.attempt import exclude_holds
from oncely.core.decide import MESSAGE_GRACE
from oncely.core.effect_outcomes import (
    Ambiguous,
    BusinessWrite,
    EffectOutcome,
    LookupFailed,
    LookupOutcome,
    NotSent,
    Pending,
    Succeeded,
)
from oncely.core.errors import NotConfiguredError
from oncely.core.job_row import JobRow, is_our_write
from oncely.core.lifecycle import Event, Status, WaitKind
from oncely.core.run_job import JobRunner
from oncely.core.surroundings import Hold
from oncely.gates.gate import Gate, PauseAction
from oncely.jobs.payment_charge import PaymentCharge
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_finished, is_held, is_retried
from tests.support.provider_fault import ProviderFault
from tests.unit.decision_grid import decide_any
from tests.unit.errand_job import KEY as ERRAND
from tests.unit.errand_job import MESSAGE, errand_type
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
def test_pause_is_not_age_after_a_wait_that_the_provider_asks_for(
    world: InMemoryStack, monkeypatch: pytest.MonkeyPatch, *, is_parked: bool
) -> None:
    """Two days of pause, then a day of the provider: the job has done nothing wrong."""
    world.enqueuer().enqueue(charge_message())
    body = world.outbox.sent.pop()
    if is_parked:
        switch(world, PauseAction.PAUSE, "payment.charge")
        assert is_held(world.run(body))
    pause_for(world, 2 * DAY)
    if is_parked:
        world.reconcile(KEY)
        body = world.outbox.sent.pop()
    with monkeypatch.context() as limited:
        limited.setattr(PaymentCharge, "prepare", lambda *_: NotSent("429", retry_after=DAY))
        assert is_retried(world.run(body))
    world.clock.time = world.job(KEY).due_at or NOW

    world.reconcile(KEY)

    assert world.job(KEY).status is Status.READY, world.job(KEY).last_error
    assert is_finished(world.run(world.outbox.sent.pop()))


def test_pause_of_a_row_that_waits_is_counted_once(world: InMemoryStack) -> None:
    """Ten hours of age, two days of pause, and fifteen hours: it is too old at the next sweep."""
    world.enqueuer().enqueue(charge_message())
    body = world.outbox.sent.pop()
    world.clock.advance(hours=10)
    world.store.jobs[KEY] = replace(world.job(KEY), due_at=world.clock.now() + HOUR)
    switch(world, PauseAction.PAUSE, "payment.charge")
    assert is_held(world.run(body))
    pause_for(world, 2 * DAY)
    now = world.clock.now()

    aged = exclude_holds(
        world.job(KEY), PaymentCharge(order_id="18452").with_tools(world.tools), world.gate, now
    )

    assert aged.age_starts_at(now) == now - 10 * HOUR


def test_pause_is_not_age_of_an_unknown_job() -> None:
    errand = errand_type(acts=lambda _: Ambiguous("timeout"), asks=lambda _: LookupFailed("down"))
    world = InMemoryStack(contracts=(errand,))
    world.run(MESSAGE)
    pause_for(world, 30 * HOUR, "errand.run")

    world.reconcile(ERRAND)
    assert world.job(ERRAND).status is Status.UNKNOWN
    world.clock.time += LIMIT
    world.reconcile(ERRAND)
    assert world.job(ERRAND).status is Status.NEEDS_REVIEW


def test_pause_is_not_age_of_a_job_that_finds_its_order_paid(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(charge_message())
    pause_for(world, 30 * HOUR)
    world.add_order(status="paid", charge_id="ch_1")
    world.payments.fail_next("list", ProviderFault.TIMEOUT_BEFORE)

    assert is_retried(world.run(charge_message()))


def test_pause_is_not_age_of_an_effect_whose_rows_change() -> None:
    taken = BusinessWrite(table="orders", key={"order_id": "7"}, set={"status": "run"})
    errand = errand_type(
        acts=lambda _: Ambiguous("timeout"),
        asks=lambda _: Succeeded("run"),
        on_success=lambda _: (taken,),
        tolerates_row_changes=True,
    )
    world = InMemoryStack(contracts=(errand,))
    world.run(MESSAGE)
    pause_for(world, 30 * HOUR, "errand.run")

    world.reconcile(ERRAND)

    job = world.job(ERRAND)
    assert (job.status, "business rows changed" in (job.last_error or "")) == (Status.UNKNOWN, True)


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


@pytest.mark.parametrize(("minutes", "reads"), [(0.5, 0), (1, 1)])
def test_ordinary_run_does_not_ask_how_long_it_was_held(minutes: float, reads: int) -> None:
    """Otherwise each run that takes longer than a snapshot lasts would read the gates once more."""
    asked = []

    class CountingGate(Gate):
        def held_time(self, *_: object, since: datetime, until: datetime) -> timedelta:
            asked.append(until - since)
            return timedelta(0)

    world = InMemoryStack()
    gate = CountingGate(table=world.gates, clock=world.clock)
    now = NOW + timedelta(minutes=minutes)
    exclude_holds(
        make_job(created_at=NOW), PaymentCharge(order_id="18452").with_tools(world.tools), gate, now
    )

    assert len(asked) == reads
