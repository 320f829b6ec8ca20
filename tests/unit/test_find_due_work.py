"""A sweep finds due rows and orders without a job, and nothing else."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from oncely.contracts.job import AnyJob, Tools
from oncely.core.due import DueAction, due_shard
from oncely.core.errors import InvalidMessageError
from oncely.core.keys import JobKey, job_key
from oncely.core.lifecycle import Status
from oncely.core.store import JobStore
from oncely.jobs.tables import CHARGE_SHARDS, charge_shard
from oncely.reconcile.find_due_work import (
    MAX_LOOKUPS,
    MAX_PAGE_BYTES,
    SWEEP_LEASE,
    DueWork,
    DueWorkFinder,
    SweepItem,
    SweepRequest,
)
from tests.support.fakes import START
from tests.support.in_memory_stack import SETTINGS, InMemoryStack
from tests.unit.report_job import ReportBuild, report_message
from tests.unit.samples import make_job

KEY = "payment.charge:order_18452"


def make_finder(world: InMemoryStack, **settings: int) -> DueWorkFinder:
    app = world.app()
    return replace(app, settings=app.settings.model_copy(update=settings)).due_work_finder


def find(world: InMemoryStack, **sweep: object) -> DueWork:
    return make_finder(world).find(SweepRequest.parse(sweep))


def keys(found: DueWork) -> list[str]:
    return [item.key for item in found.items]


def test_unknown_job_is_found_when_due(unknown_charge: InMemoryStack) -> None:
    assert keys(find(unknown_charge)) == [KEY]


def test_requested_order_without_job_is_found_and_charged_once(world: InMemoryStack) -> None:
    world.clock.advance(hours=1)

    (item,) = find(world).items
    done = world.reconciler().resolve(item.key, message=item.message)
    world.run(world.outbox.sent.pop())

    assert done.outcome == "ready"
    assert world.job(KEY).status is Status.FINISHED
    assert world.payments.charges == ["pi_1"]
    assert find(world, job_type="payment.charge").items == ()


def test_pending_order_without_request_is_never_charged(world: InMemoryStack) -> None:
    row = {**world.order()}
    del row["charge_requested_at"]
    world.rows.put("orders", {"order_id": "18452"}, row)
    world.clock.advance(hours=1)

    assert find(world).items == ()


@pytest.mark.parametrize(
    "order",
    [
        {"status": "paid"},
        {"status": "payment_processing"},
        {"charge_requested_at": "2026-11-16T03:59:30.000Z"},  # its message may still arrive
    ],
)
def test_order_that_needs_no_charge_is_skipped(world: InMemoryStack, order: dict[str, Any]) -> None:
    world.add_order(**order)
    world.clock.advance(hours=1)
    assert find(world).items == ()


@pytest.mark.parametrize("shard", [str(number) for number in range(CHARGE_SHARDS)])
def test_order_is_found_in_every_shard(world: InMemoryStack, shard: str) -> None:
    world.add_order(charge_shard=shard)
    world.clock.advance(hours=1)
    assert keys(find(world)) == [KEY]


def test_orders_are_distributed_over_all_shards() -> None:
    shards = {charge_shard(str(number)) for number in range(1000)}
    assert shards == {str(number) for number in range(CHARGE_SHARDS)}


def _add_due(
    world: InMemoryStack, key: str, status: Status, *, minutes: int, **changes: object
) -> JobKey:
    since = world.clock.now() - timedelta(minutes=minutes)
    job = make_job(**{"job_key": JobKey(key), "status": status, "due_at": since, **changes})
    world.store.create(job)
    return job.job_key


def test_sweep_leaves_out_jobs_due_before_its_window() -> None:
    world = InMemoryStack()
    _add_due(world, "sync.contact:1", Status.READY, minutes=10)
    later = _add_due(world, "sync.contact:2", Status.READY, minutes=5)

    since = (world.clock.now() - timedelta(minutes=5)).isoformat()
    assert keys(find(world, **{"from": since})) == [later]


def test_sweep_of_one_key_finds_it_before_due_time() -> None:
    item = SweepItem(key=JobKey(KEY), on_demand=True)
    assert find(InMemoryStack(), key=KEY) == DueWork(items=(item,))


def test_sweep_of_one_key_type_or_window_finds_only_that(unknown_charge: InMemoryStack) -> None:
    world = unknown_charge
    assert keys(find(world, key="other:key")) == ["other:key"]
    assert find(world, job_type="sync.contact").items == ()
    window = {"from": "2026-11-16T00:00:00Z", "to": "2027-01-01T00:00:00Z"}
    assert keys(find(world, **window)) == [KEY]
    assert find(world, to="2026-11-15T00:00:00Z").items == ()


@pytest.mark.parametrize(
    "wrong",
    [
        *({"limit": limit} for limit in (0, 201, "5", "all")),
        *({"key": key} for key in ("", "k" * 201)),
        {"from": "yesterday"},
        {"jobs": "all"},
    ],
)
def test_invalid_sweep_is_rejected_with_reason(wrong: dict[str, object]) -> None:
    (name,) = wrong
    with pytest.raises(InvalidMessageError, match=f"not a valid sweep: ({name}:|a time)"):
        SweepRequest.parse(wrong)


def test_sweep_accepts_smallest_limit_and_shortest_key() -> None:
    sweep = SweepRequest.parse({"limit": 1, "key": "k"})
    assert (sweep.limit, sweep.key, sweep.dry_run) == (1, "k", False)


def test_sweep_without_limit_continues_after_its_page() -> None:
    sweep = SweepRequest.parse({"job_type": "sync.push"})
    later = START + timedelta(minutes=1)

    assert (SweepRequest.parse({}).limit, SETTINGS.sweep_page_size) == (None, 1000)
    assert sweep.next_page(later) == {"job_type": "sync.push", "from": "2026-11-16T03:01:00.000Z"}
    assert SweepRequest.parse(sweep.next_page(later)).since == "2026-11-16T03:01:00.000Z"


@pytest.mark.parametrize("by_hand", [{"limit": 5}, {"dry_run": True}])
def test_sweep_by_hand_ends_after_one_page(by_hand: dict[str, object]) -> None:
    assert SweepRequest.parse(by_hand).next_page(START) is None
    assert SweepRequest.parse({}).next_page(None) is None


def test_invalid_order_does_not_stop_sweep() -> None:
    world = InMemoryStack()
    world.add_order("é" * 60)
    world.add_order("x" * 300)
    world.add_order()
    world.clock.advance(hours=1)

    assert keys(find(world)) == [KEY]


class _MissingReportBuild(ReportBuild):
    """Ten reports without a job, each almost as long as a message may be."""

    @classmethod
    def missing_jobs(cls, tools: Tools, *, now: datetime) -> list[AnyJob]:
        messages = (report_message(str(one), text="x" * 60_000) for one in range(10))
        return [ReportBuild.model_validate(message) for message in messages]


class _CountingStore:
    def __init__(self, store: JobStore) -> None:
        self.store, self.reads = store, 0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # it stands for any store
        self.reads += name == "get"
        return getattr(self.store, name)


def _world_with_many_reviews(number: int) -> InMemoryStack:
    """Orders with a requested charge, each with a job that needs review."""
    world = InMemoryStack()
    for one in range(number):
        world.add_order(f"{one:05}")
        key = job_key("payment.charge", f"{one:05}", prefix="order_")
        world.store.create(make_job(job_key=key, status=Status.NEEDS_REVIEW, due_at=None))
    world.clock.advance(hours=1)
    return world


def test_orders_in_review_cost_bounded_number_of_reads() -> None:
    world = _world_with_many_reviews(3000)
    counting = _CountingStore(world.store)
    world.store = counting

    found = find(world)

    assert (found.items, found.requested_count) == ((), 3000)
    assert counting.reads == MAX_LOOKUPS


def test_lost_order_among_many_in_review_is_found_in_time() -> None:
    world = _world_with_many_reviews(1000)
    world.store.expire(job_key("payment.charge", "00777", prefix="order_"))

    rounds: list[str] = []
    for _ in range(1000 // MAX_LOOKUPS):
        rounds += keys(find(world))
        world.clock.advance(minutes=1)

    assert rounds == ["payment.charge:order_00777"]


def test_sweep_of_one_type_finds_no_missing_jobs_of_another(world: InMemoryStack) -> None:
    world.clock.advance(hours=1)
    assert keys(find(world, job_type="payment.charge")) == [KEY]
    assert find(world, job_type="sync.contact").items == ()


def test_large_messages_of_missing_jobs_fit_one_page() -> None:
    found = find(InMemoryStack(contracts=(_MissingReportBuild,)))
    assert 0 < len(found.items) < 10
    assert len(json.dumps([item.to_json() for item in found.items])) <= MAX_PAGE_BYTES


def _add_many(world: InMemoryStack, status: Status, count: int, *, minutes: int = 1) -> set[JobKey]:
    names = (f"sync.contact:{status}_{number:05}" for number in range(count))
    return {_add_due(world, name, status, minutes=minutes) for name in names}


@pytest.mark.parametrize("others", [Status.FINISHED, Status.NEEDS_REVIEW, Status.READY])
def test_unknown_job_is_on_first_page_despite_backlog(others: Status) -> None:
    world = InMemoryStack(contracts=())
    _add_many(world, others, 5000, minutes=24 * 60)
    unknown = _add_many(world, Status.UNKNOWN, 50)

    found = make_finder(world, sweep_page_size=100).find(SweepRequest())

    assert unknown < set(keys(found))
    assert len(set(keys(found))) == 100


def test_ended_row_in_stale_partition_is_moved_by_hold() -> None:
    # The write that ends a job does not move its index entry, so a sweep finds it there.
    world = InMemoryStack(contracts=())
    started = make_job(job_key=JobKey("sync.contact:1"), status=Status.STARTED, due_at=START)
    world.store.create(started)
    world.store.swap(started, replace(started, status=Status.FINISHED, version=2))
    world.clock.advance(minutes=1)
    index = world.ports().due_index

    def partition(action: DueAction) -> list[str]:
        now = world.clock.now()
        found = (index.due(action, shard, since=None, until=now) for shard in range(8))
        return [one.job_key for due in found for one in due]

    assert (partition(DueAction.LOOK_UP), partition(DueAction.PUBLISH)) == ([started.job_key], [])
    world.reconciler().hold_row(world.job(started.job_key))
    world.clock.advance(minutes=5)
    assert (partition(DueAction.LOOK_UP), partition(DueAction.PUBLISH)) == ([], [started.job_key])


def test_unknown_backlog_leaves_share_of_page_for_other_actions() -> None:
    world = InMemoryStack()
    _add_many(world, Status.UNKNOWN, 100, minutes=60)
    ready = _add_many(world, Status.READY, 30)
    ended = _add_many(world, Status.FINISHED, 30)
    reviews = _add_many(world, Status.NEEDS_REVIEW, 30)
    for one in range(30):
        world.add_order(f"lost_{one}", charge_requested_at="2026-11-16T02:00:00Z")

    found = make_finder(world, sweep_page_size=80).find(SweepRequest())

    lost = [item for item in found.items if item.message is not None]
    assert len(found.items) == 80
    others = [len(some & {*keys(found)}) for some in (ready, ended, reviews)]
    assert [*others, len(lost)] == [10, 10, 10, 10]
    assert {item.key for item in found.items if item.is_alert} < reviews
    assert found.requested_count == 30


def test_pages_continue_without_gaps_or_repeats() -> None:
    world = InMemoryStack(contracts=())
    ages = {f"sync.push:{one}": 100 - one for one in range(25)}
    due = [_add_due(world, key, Status.UNKNOWN, minutes=age) for key, age in ages.items()]
    finder = make_finder(world, sweep_page_size=10)

    pages = []
    following: Mapping[str, object] | None = {}
    while following is not None:
        sweep = SweepRequest.parse(following)
        found = finder.find(sweep)
        pages.append(keys(found))
        following = sweep.next_page(found.resume_at)

    assert pages == [due[:10], due[10:20], due[20:]]


def test_second_sweep_skips_shards_leased_by_first() -> None:
    world = InMemoryStack(contracts=())
    _add_many(world, Status.UNKNOWN, 40)
    finder = make_finder(world)

    first = finder.find(SweepRequest(), holder="one")
    second = finder.find(SweepRequest(), holder="two")
    looking = finder.find(SweepRequest())

    assert (len(first.items), len(first.shards), first.busy_shards) == (40, 8, 0)
    assert (second.items, second.shards, second.busy_shards) == ((), (), 8)
    assert len(looking.items) == 40


def test_sweep_leases_only_shards_with_due_rows() -> None:
    world = InMemoryStack(contracts=())
    key = _add_due(world, "sync.push:1", Status.UNKNOWN, minutes=1)

    found = make_finder(world).find(SweepRequest(), holder="one")

    leases, now = world.ports().sweep_leases, world.clock.now()
    free = [shard for shard in range(8) if leases.acquire(shard, holder="two", now=now, until=now)]
    assert found.shards == (due_shard(key, 8),)
    assert {*range(8)} - {*free} == {*found.shards}


def test_lease_of_dead_sweep_blocks_others_until_it_expires() -> None:
    world = InMemoryStack(contracts=())
    _add_many(world, Status.UNKNOWN, 40)
    finder = make_finder(world)
    finder.find(SweepRequest(), holder="died")

    world.clock.time = START + SWEEP_LEASE - timedelta(microseconds=1)
    early = finder.find(SweepRequest(), holder="next")
    world.clock.time = START + SWEEP_LEASE
    late = finder.find(SweepRequest(), holder="next")

    assert (len(early.items), len(late.items)) == (0, 40)
