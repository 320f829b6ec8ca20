"""One item of a sweep: what a lost race, a dry run or a broken port makes of it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from oncely.contract import Mismatch, Settled
from oncely.domain.answers import Done
from oncely.domain.jobs import Job
from oncely.domain.lifecycle import Status
from oncely.domain.moves import MESSAGE_GRACE
from oncely.domain.profiles import Safety
from oncely.services.reconcile import GONE, Resolution
from tests.support.mortal import Meanwhile
from tests.support.world import World
from tests.unit.errand_contract import KEY, MESSAGE, errand_type, raising
from tests.unit.samples import NOW, a_job

BODY = MESSAGE.as_json()
NEVER = raising(AssertionError("the provider was asked"))


def world_with(status: Status | None = None, **changes: object) -> World:
    """A world of errands; with a row of this status, due now."""
    world = World(contracts=(errand_type(),))
    if status is not None:
        named = {"job_key": KEY, "job_type": "errand.run", "message": BODY, "fingerprint": None}
        given = {"status": status, "due_at": NOW, "lease_until": NOW, **named, **changes}
        world.store.create(a_job(**given))
    return world


def resolve(world: World, *, dry_run: bool = False) -> Resolution:
    return world.reconciler().resolve(KEY, dry_run=dry_run)


def resolve_while(world: World, action: Callable[[], object]) -> Resolution:
    """Resolve the job; something happens to its row right after it was read."""
    return replace(world.reconciler(), store=Meanwhile(world.store, "get", action)).resolve(KEY)


def looked_at_by_another(world: World) -> Job:
    row = world.store.jobs[KEY]
    world.store.jobs[KEY] = replace(row, version=row.version + 1, owner="owner-9")
    return world.job(KEY)


@pytest.mark.parametrize("status", [Status.UNKNOWN, Status.FINISHED])
def test_row_that_another_sweep_holds_is_left_to_it(status: Status) -> None:
    world = world_with(status)
    world.contracts = (errand_type(asks=NEVER),)

    done = resolve_while(world, lambda: looked_at_by_another(world))

    assert (done.outcome, done.old, done.new) == ("nothing", status, status)
    assert (world.bus.published, world.job(KEY).owner) == ([], "owner-9")


def test_unreadable_row_that_moved_on_meanwhile_is_left_alone() -> None:
    world = world_with(Status.UNKNOWN, message={"job": "errand.run", "v": 99})

    done = resolve_while(world, lambda: looked_at_by_another(world))

    assert (done.outcome, done.alert) == ("nothing", False)
    assert world.job(KEY).status is Status.UNKNOWN


def test_lookup_costs_no_write() -> None:
    seen: list[object] = []
    world = world_with(Status.UNKNOWN)
    before = world.job(KEY)

    def asks(_: object) -> Done:
        seen.append(world.job(KEY))
        return Done("was run")

    world.contracts = (errand_type(asks=asks),)
    resolve(world)

    assert seen == [before]


def test_dry_run_publishes_nothing_and_says_that_it_would() -> None:
    world = world_with(Status.FINISHED)
    before = world.job(KEY)

    done = resolve(world, dry_run=True)

    assert (done.outcome, done.new) == ("published", Status.FINISHED)
    assert (world.bus.published, world.outbox.sent, world.job(KEY)) == ([], [], before)


@pytest.mark.parametrize(
    ("last_error", "reason"), [("two were found", "two were found"), (None, "it needs review")]
)
def test_due_review_needs_alert_with_its_reason(last_error: str | None, reason: str) -> None:
    done = resolve(world_with(Status.NEEDS_REVIEW, last_error=last_error))

    assert (done.outcome, done.alert, done.reason) == ("needs_review", True, reason)


def test_job_is_missing_without_row_and_message() -> None:
    done = resolve(world_with())

    assert (done.key, done.outcome, done.new) == (KEY, GONE, None)


@pytest.mark.parametrize("dry_run", [True, False])
def test_lost_job_is_enqueued_unless_dry_run(*, dry_run: bool) -> None:
    world = world_with()

    done = world.reconciler().resolve(KEY, message=BODY, dry_run=dry_run)

    assert (done.outcome, done.new) == ("ready", Status.READY)
    assert (len(world.store.jobs), len(world.outbox.sent)) == ((0, 0) if dry_run else (1, 1))
    if not dry_run:
        assert world.job(KEY).due_at == NOW + MESSAGE_GRACE


def test_lost_job_is_sent_once_when_producer_enqueues_meanwhile() -> None:
    world = world_with()
    store = Meanwhile(world.store, "get", lambda: world.enqueuer().enqueue(BODY))

    done = replace(world.reconciler(), store=store).resolve(KEY, message=BODY)

    assert done.outcome == "ready"
    assert len(world.outbox.sent) == 1


def test_lost_message_needs_review_when_business_rows_differ() -> None:
    world = world_with(Status.READY)
    world.contracts = (errand_type(checks=lambda: Mismatch("another errand")),)

    done = resolve(world)

    assert (done.new, done.reason, done.alert) == (Status.NEEDS_REVIEW, "another errand", True)
    assert world.outbox.sent == []


def test_lost_message_is_resent_when_precheck_fails() -> None:
    world = world_with(Status.READY)
    world.contracts = (errand_type(checks=raising(OSError("no table"))),)

    assert resolve(world).new is Status.READY
    assert len(world.outbox.sent) == 1


@pytest.mark.parametrize("dry_run", [True, False])
def test_natural_effect_is_resent_at_once_after_crash(*, dry_run: bool) -> None:
    world = world_with(Status.STARTED)
    world.contracts = (errand_type(Safety.NATURAL, asks=NEVER),)

    done = resolve(world, dry_run=dry_run)

    assert (done.old, done.new) == (Status.STARTED, Status.READY)
    assert len(world.outbox.sent) == (not dry_run)


def test_contract_writes_nothing_without_facts() -> None:
    world = world_with(Status.UNKNOWN)
    settled = Settled[str](answer=Done("run before"))
    contract = errand_type(checks=lambda: settled, local_writes=raising(AssertionError("asked")))
    world.contracts = (contract,)

    assert resolve(world).new is Status.NEEDS_REVIEW
