"""One item of a sweep, with a lost race, a dry run or a broken port."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from oncely.core.decide import MESSAGE_GRACE
from oncely.core.effect_outcomes import Succeeded
from oncely.core.job_row import JobRow
from oncely.core.job_type import AlreadyResolved, Mismatch
from oncely.core.lifecycle import Status
from oncely.core.profiles import RetrySafety
from oncely.reconcile.reconciler import ROW_MISSING, Resolution
from tests.support.crash_points import InterruptingPort
from tests.support.in_memory_stack import InMemoryStack
from tests.unit.errand_job import KEY, MESSAGE, errand_type, raising_step
from tests.unit.samples import NOW, make_job

BODY = MESSAGE
NEVER = raising_step(AssertionError("the provider was asked"))


def world_with(status: Status | None = None, **changes: object) -> InMemoryStack:
    world = InMemoryStack(contracts=(errand_type(),))
    if status is not None:
        named = {"job_key": KEY, "job_type": "errand.run", "message": BODY, "fingerprint": None}
        given = {"status": status, "due_at": NOW, "lease_until": NOW, **named, **changes}
        world.store.create(make_job(**given))
    return world


def resolve_job(world: InMemoryStack, *, dry_run: bool = False) -> Resolution:
    return world.reconciler().resolve(KEY, dry_run=dry_run)


def resolve_during(world: InMemoryStack, action: Callable[[], object]) -> Resolution:
    store: Any = InterruptingPort(world.store, "get", action)
    return replace(world.reconciler(), store=store).resolve(KEY)


def hold_by_other_sweep(world: InMemoryStack) -> JobRow:
    row = world.store.jobs[KEY]
    world.store.jobs[KEY] = replace(row, version=row.version + 1, owner="owner-9")
    return world.job(KEY)


@pytest.mark.parametrize("status", [Status.UNKNOWN, Status.FINISHED])
def test_row_that_another_sweep_holds_is_left_to_it(status: Status) -> None:
    world = world_with(status)
    world.contracts = (errand_type(asks=NEVER),)

    done = resolve_during(world, lambda: hold_by_other_sweep(world))

    assert (done.outcome, done.from_status, done.to_status) == ("nothing", status, status)
    assert (world.bus.published, world.job(KEY).owner) == ([], "owner-9")


def test_unreadable_row_that_moved_on_meanwhile_is_left_alone() -> None:
    world = world_with(Status.UNKNOWN, message={"job": "errand.run", "v": 99})
    done = resolve_during(world, lambda: hold_by_other_sweep(world))
    assert (done.outcome, done.needs_alert) == ("nothing", False)
    assert world.job(KEY).status is Status.UNKNOWN


def test_lookup_costs_no_write() -> None:
    seen: list[object] = []
    world = world_with(Status.UNKNOWN)
    before = world.job(KEY)

    def asks(_: object) -> Succeeded:
        seen.append(world.job(KEY))
        return Succeeded("was run")

    world.contracts = (errand_type(asks=asks),)
    resolve_job(world)

    assert seen == [before]


def test_dry_run_publishes_nothing_and_says_that_it_would() -> None:
    world = world_with(Status.FINISHED)
    before = world.job(KEY)

    done = resolve_job(world, dry_run=True)

    assert (done.outcome, done.to_status) == ("published", Status.FINISHED)
    assert (world.bus.published, world.outbox.sent, world.job(KEY)) == ([], [], before)


@pytest.mark.parametrize(
    ("last_error", "reason"), [("two were found", "two were found"), (None, "it needs review")]
)
def test_due_review_needs_alert_with_its_reason(last_error: str | None, reason: str) -> None:
    done = resolve_job(world_with(Status.NEEDS_REVIEW, last_error=last_error))
    assert (done.outcome, done.needs_alert, done.reason) == ("needs_review", True, reason)


def test_job_is_missing_without_row_and_message() -> None:
    done = resolve_job(world_with())
    assert (done.key, done.outcome, done.to_status) == (KEY, ROW_MISSING, None)


@pytest.mark.parametrize("dry_run", [True, False])
def test_lost_job_is_enqueued_unless_dry_run(*, dry_run: bool) -> None:
    world = world_with()

    done = world.reconciler().resolve(KEY, message=BODY, dry_run=dry_run)

    assert (done.outcome, done.to_status) == ("ready", Status.READY)
    assert (len(world.store.jobs), len(world.outbox.sent)) == ((0, 0) if dry_run else (1, 1))
    if not dry_run:
        assert world.job(KEY).due_at == NOW + MESSAGE_GRACE


def test_lost_job_is_sent_once_when_producer_enqueues_meanwhile() -> None:
    world = world_with()
    store: Any = InterruptingPort(world.store, "get", lambda: world.enqueuer().enqueue(BODY))
    assert replace(world.reconciler(), store=store).resolve(KEY, message=BODY).outcome == "ready"
    assert len(world.outbox.sent) == 1


def test_lost_message_needs_review_when_business_rows_differ() -> None:
    world = world_with(Status.READY)
    world.contracts = (errand_type(checks=lambda: Mismatch("another errand")),)

    done = resolve_job(world)

    assert (done.to_status, done.needs_alert) == (Status.NEEDS_REVIEW, True)
    assert (done.reason, world.outbox.sent) == ("another errand", [])


def test_lost_message_is_resent_when_precheck_fails() -> None:
    world = world_with(Status.READY)
    world.contracts = (errand_type(checks=raising_step(OSError("no table"))),)
    assert resolve_job(world).to_status is Status.READY
    assert len(world.outbox.sent) == 1


@pytest.mark.parametrize("dry_run", [True, False])
def test_natural_effect_is_resent_at_once_after_crash(*, dry_run: bool) -> None:
    world = world_with(Status.STARTED)
    world.contracts = (errand_type(RetrySafety.NATURAL, asks=NEVER),)

    done = resolve_job(world, dry_run=dry_run)

    assert (done.from_status, done.to_status) == (Status.STARTED, Status.READY)
    assert len(world.outbox.sent) == (not dry_run)


def test_contract_writes_nothing_without_facts() -> None:
    world = world_with(Status.UNKNOWN)
    settled = AlreadyResolved[str](outcome=Succeeded("run before"))
    fails = raising_step(AssertionError("asked"))
    world.contracts = (errand_type(checks=lambda: settled, local_writes=fails),)

    assert resolve_job(world).to_status is Status.NEEDS_REVIEW
