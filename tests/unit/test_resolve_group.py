"""A group of a sweep: concurrent, independent, and within the function's timeout."""

import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from oncely.alerts.budget import AlertDelivery
from oncely.core.decide import SWEEP_HOLD
from oncely.core.errors import UnavailableError
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.reconcile.find_due_work import SweepItem
from oncely.reconcile.resolve_group import GroupResolver, HandledItem
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.provider_fault import ProviderFault
from tests.support.stored_rows import InspectableStore
from tests.unit.samples import make_job

NEEDED = timedelta(seconds=48)  # what one charge may take: four calls of ten seconds, and a write


def world_with_unknown_charges(number: int) -> tuple[InMemoryStack, list[JobKey]]:
    world = InMemoryStack()
    keys = []
    for one in range(number):
        world.add_order(str(one))
        world.payments.fail_next("execute", ProviderFault.TIMEOUT_AFTER)
        world.run(charge_message(str(one)))
        keys.append(JobKey(f"payment.charge:order_{one}"))
    return world, keys


def make_resolver(world: InMemoryStack, *, at_once: int = 10) -> GroupResolver:
    return replace(world.app().group_resolver, concurrency=at_once)


def resolve_group(
    world: InMemoryStack,
    keys: list[JobKey],
    group: GroupResolver | None = None,
    *,
    left: timedelta = NEEDED,
    dry_run: bool = False,
    at_once: int | None = None,
) -> list[HandledItem]:
    return (group or make_resolver(world)).resolve(
        [SweepItem(key=key) for key in keys],
        deadline=world.clock.now() + left,
        dry_run=dry_run,
        concurrency=at_once,
    )


@pytest.mark.parametrize("at_once", [None, 1])
def test_every_job_of_group_is_resolved(at_once: int | None) -> None:
    world, keys = world_with_unknown_charges(25)

    handled = resolve_group(world, keys, at_once=at_once)

    assert [one.key for one in handled] == keys
    assert {one.resolution and one.resolution.outcome for one in handled} == {"finished"}
    assert len(world.payments.charges) == 25


class _OneRowFailingStore(InspectableStore):
    broken: JobKey = JobKey("")

    def get(self, key: JobKey) -> JobRow | None:
        if key == self.broken:
            raise UnavailableError(f"no answer for {key}")
        return super().get(key)


def test_job_that_fails_never_stops_its_neighbours() -> None:
    world, keys = world_with_unknown_charges(5)
    broken = _OneRowFailingStore(world.aws)
    broken.broken = keys[2]
    group = replace(make_resolver(world), reconciler=replace(world.reconciler(), store=broken))

    handled = resolve_group(world, keys, group)

    assert [type(one.error).__name__ for one in handled if one.error] == ["UnavailableError"]
    assert [one.key for one in handled if one.resolution is None] == [keys[2]]
    assert {world.job(key).status for key in keys if key != keys[2]} == {Status.FINISHED}


def test_failing_job_is_due_later_unless_dry_run() -> None:
    world, (key,) = world_with_unknown_charges(1)
    group = make_resolver(world)
    unreadable = replace(group.reconciler, registry=None)  # type: ignore[arg-type]  # as a bug of ours
    broken = replace(group, reconciler=unreadable)

    (dry,) = resolve_group(world, [key], broken, dry_run=True)
    assert dry.error is not None
    assert world.job(key).due_at == world.clock.now()
    (handled,) = resolve_group(world, [key], broken)

    assert handled.error is not None
    assert world.job(key).due_at == world.clock.now() + SWEEP_HOLD


def test_job_is_not_started_when_time_is_too_short() -> None:
    world, (key,) = world_with_unknown_charges(1)

    (late,) = resolve_group(world, [key], left=NEEDED - timedelta(microseconds=1))
    assert (late.resolution, late.error, world.job(key).status) == (None, None, Status.UNKNOWN)

    (in_time,) = resolve_group(world, [key])
    assert in_time.resolution is not None


def test_job_of_unknown_type_needs_little_time(world: InMemoryStack) -> None:
    job = make_job(job_key=JobKey("no.such:1"), status=Status.UNKNOWN, due_at=world.clock.now())
    world.store.create(job)

    (early,) = resolve_group(world, [job.job_key], left=timedelta(seconds=9))
    (done,) = resolve_group(world, [job.job_key], left=timedelta(seconds=10))

    assert (early.resolution, early.error) == (None, None)
    assert done.resolution is not None


@pytest.mark.parametrize("at_once", [2, 3])
def test_group_lookups_run_concurrently_within_bound(at_once: int) -> None:
    world, keys = world_with_unknown_charges(12)
    world.payments = _ConcurrencyProbe(world.payments, limit=at_once)
    resolve_group(world, keys, make_resolver(world, at_once=at_once))
    assert world.payments.peak == at_once


def test_empty_group_has_nothing_to_resolve() -> None:
    assert resolve_group(InMemoryStack(), []) == []


class _ConcurrencyProbe:
    def __init__(self, payments: object, *, limit: int) -> None:
        self._payments = payments
        self._lock = threading.Lock()
        self._full = threading.Event()
        self._limit = limit
        self._now = 0
        self.peak = 0

    def lookup(self, *given: object) -> object:
        with self._lock:
            self._now += 1
            self.peak = max(self.peak, self._now)
            if self.peak == self._limit:
                self._full.set()
        self._full.wait(timeout=5)
        with self._lock:
            self._now -= 1
        return self._payments.lookup(*given)  # type: ignore[attr-defined]  # the same port

    def __getattr__(self, name: str) -> object:
        return getattr(self._payments, name)


@pytest.mark.parametrize("fails", [False, True])
def test_reviewed_job_is_due_until_alert_is_delivered(world: InMemoryStack, *, fails: bool) -> None:
    world.alerts.fails = fails
    job = make_job(status=Status.NEEDS_REVIEW, due_at=world.clock.now(), last_error="odd")
    world.store.create(job)

    (handled,) = resolve_group(world, [job.job_key])

    assert handled.alert_delivery is (AlertDelivery.FAILED if fails else AlertDelivery.DELIVERED)
    assert [alert.names for alert in world.alerts.sent] == [(job.job_key,)] * (not fails)
    assert (world.job(job.job_key).due_at is not None) is fails


def test_dry_run_alerts_nobody(world: InMemoryStack) -> None:
    world.store.create(make_job(status=Status.NEEDS_REVIEW, due_at=world.clock.now()))
    (handled,) = resolve_group(world, [make_job().job_key], dry_run=True)
    assert (handled.alert_delivery, world.alerts.sent) == (None, [])


@pytest.mark.parametrize("broken", [False, True])
def test_orphaned_outcome_is_alerted_or_reported_as_error(*, broken: bool) -> None:
    """No row stays due for it: if no alert is delivered, the sweep lists it."""
    world, (key,) = world_with_unknown_charges(1)
    world.alerts.fails = broken
    payments = world.payments

    class RowGoes:
        def lookup(self, *given: object) -> object:
            del world.store.jobs[key]
            return payments.lookup(*given)

        def __getattr__(self, name: str) -> object:
            return getattr(payments, name)

    world.payments = RowGoes()

    (handled,) = resolve_group(world, [key])

    assert (handled.alert_delivery, handled.error is None) == (
        (None, False) if broken else (AlertDelivery.DELIVERED, True)
    )
