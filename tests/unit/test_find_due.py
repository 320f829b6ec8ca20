"""Finding: due rows and work that never became a row; nothing else."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from oncely.contracts.payment_charge import CHARGE_SHARDS, charge_shard
from oncely.domain.due import Action, due_shard
from oncely.domain.errors import InvalidMessageError
from oncely.domain.keys import JobKey, job_key
from oncely.domain.lifecycle import Status
from oncely.ports import JobStore
from oncely.services.find_due import (
    LOOKS,
    PAGE_BYTES,
    PAGE_SIZE,
    SWEEP_LEASE,
    Finder,
    Found,
    Item,
    Sweep,
)
from oncely.testing.memory import MemoryDueIndex, MemorySweepLeases
from tests.support.fakes import START
from tests.support.payments import Fault
from tests.support.world import World, charge
from tests.unit.report_contract import ReportBuild, ReportMessage, report
from tests.unit.samples import a_job

KEY = "payment.charge:order_18452"


def a_finder(world: World, **changes: Any) -> Finder:  # noqa: ANN401  # fields of a finder
    made = Finder(
        registry=world.registry,
        tools=world.tools,
        store=world.store,
        index=MemoryDueIndex(world.store),
        leases=MemorySweepLeases(),
        clock=world.clock,
        guard=world.table,
    )
    return replace(made, **changes)


def find(world: World, **sweep: object) -> Found:
    return a_finder(world).find(Sweep.of(sweep))


def keys(found: Found) -> list[str]:
    return [item.key for item in found.items]


def test_unknown_job_is_found_when_due() -> None:
    world = World()
    world.add_order()
    world.payments.fails("execute", Fault.TIMEOUT_AFTER)
    world.run(charge())

    found = find(world)

    assert keys(found) == [KEY]


def test_requested_order_without_job_is_found_and_charged_once() -> None:
    world = World()
    world.add_order()
    world.clock.move(hours=1)

    (item,) = find(world).items
    done = world.reconciler().resolve(item.key, message=item.message)
    world.run(world.outbox.sent.pop())

    assert done.outcome == "ready"
    assert world.job(KEY).status is Status.FINISHED
    assert world.payments.charges == ["pi_1"]
    assert find(world, job_type="payment.charge").items == ()


def test_pending_order_without_request_is_never_charged() -> None:
    world = World()
    world.add_order()
    row = {**world.order()}
    del row["charge_requested_at"]
    world.tools.rows.put("orders", {"order_id": "18452"}, row)
    world.clock.move(hours=1)

    found = find(world)

    assert found.items == ()


@pytest.mark.parametrize("status", ["paid", "payment_processing"])
def test_order_that_needs_no_charge_is_not_found(status: str) -> None:
    world = World()
    world.add_order(status=status)
    world.clock.move(hours=1)

    assert find(world).items == ()


@pytest.mark.parametrize("shard", [str(number) for number in range(CHARGE_SHARDS)])
def test_order_is_found_in_every_shard(shard: str) -> None:
    world = World()
    world.add_order(charge_shard=shard)
    world.clock.move(hours=1)

    assert keys(find(world)) == [KEY]


def test_orders_are_distributed_over_all_shards() -> None:
    shards = {charge_shard(str(number)) for number in range(1000)}

    assert shards == {str(number) for number in range(CHARGE_SHARDS)}


def test_order_with_recent_request_is_not_found() -> None:
    world = World()
    world.add_order(charge_requested_at="2026-11-16T02:59:30.000Z")

    found = find(world)

    assert found.items == ()


def _due(world: World, key: str, status: Status, *, minutes: int, **changes: object) -> JobKey:
    """A row that has been due for so many minutes."""
    since = world.clock.now() - timedelta(minutes=minutes)
    job = a_job(**{"job_key": JobKey(key), "status": status, "due_at": since, **changes})
    world.store.create(job)
    return job.job_key


def test_sweep_leaves_out_jobs_due_before_its_window() -> None:
    world = World()
    _due(world, "sync.contact:1", Status.READY, minutes=10)
    later = _due(world, "sync.contact:2", Status.READY, minutes=5)

    since = (world.clock.now() - timedelta(minutes=5)).isoformat()

    assert keys(find(world, **{"from": since})) == [later]


def test_sweep_of_one_key_finds_it_before_due_time() -> None:
    found = find(World(), key=KEY)

    item = Item(key=JobKey(KEY), asked_for=True)
    assert found == Found(items=(item,))


def test_sweep_of_one_key_type_or_window_finds_only_that() -> None:
    world = World()
    world.add_order()
    world.payments.fails("execute", Fault.TIMEOUT_AFTER)
    world.run(charge())

    assert keys(find(world, key="other:key")) == ["other:key"]
    assert find(world, job_type="sync.contact").items == ()
    assert keys(find(world, **{"from": "2026-11-16T00:00:00Z", "to": "2027-01-01T00:00:00Z"})) == [
        KEY
    ]
    assert find(world, to="2026-11-15T00:00:00Z").items == ()


@pytest.mark.parametrize(
    "wrong",
    [
        {"limit": 0},
        {"limit": 201},
        {"limit": "5"},
        {"limit": "all"},
        {"from": "yesterday"},
        {"jobs": "all"},
    ],
)
def test_invalid_sweep_is_rejected_with_reason(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidMessageError, match="not a valid sweep"):
        Sweep.of(wrong)


def test_sweep_accepts_smallest_limit_and_shortest_key() -> None:
    sweep = Sweep.of({"limit": 1, "key": "k"})

    assert (sweep.limit, sweep.key, sweep.dry_run) == (1, "k", False)


def test_sweep_without_limit_continues_after_its_page() -> None:
    sweep = Sweep.of({"job_type": "sync.push"})
    later = START + timedelta(minutes=1)

    assert (Sweep.of({}).limit, PAGE_SIZE) == (None, 1000)
    assert sweep.next_page(later) == {
        "job_type": "sync.push",
        "from": "2026-11-16T03:01:00.000Z",
    }
    assert Sweep.of(sweep.next_page(later)).since == "2026-11-16T03:01:00.000Z"


@pytest.mark.parametrize("by_hand", [{"limit": 5}, {"dry_run": True}])
def test_sweep_by_hand_ends_after_one_page(by_hand: dict[str, object]) -> None:
    assert Sweep.of(by_hand).next_page(START) is None
    assert Sweep.of({}).next_page(None) is None


def test_invalid_order_does_not_stop_sweep() -> None:
    world = World()
    world.add_order("é" * 60)
    world.add_order("x" * 300)
    world.add_order()
    world.clock.move(hours=1)

    assert keys(find(world)) == [KEY]


class _LostReports(ReportBuild):
    """Ten reports that nobody enqueued, each almost as long as a message may be."""

    def unserved(self, *, now: datetime) -> list[ReportMessage]:
        del now
        long = "x" * 60_000
        return [ReportMessage.model_validate(report(str(one), text=long)) for one in range(10)]


class _CountingStore:
    """Counts the rows that are read."""

    def __init__(self, store: JobStore) -> None:
        self.store = store
        self.reads = 0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # it stands for any store
        self.reads += name == "get"
        return getattr(self.store, name)


def _thousands_in_review(number: int) -> World:
    """Orders that asked for their payment, each with a job that waits for a person."""
    world = World()
    now = world.clock.now()
    for one in range(number):
        world.add_order(f"{one:05}")
        job = a_job(
            job_key=job_key("payment.charge", f"{one:05}", prefix="order_"),
            status=Status.NEEDS_REVIEW,
            due_at=None,
            created_at=now,
        )
        world.store.create(job)
    world.clock.move(hours=1)
    return world


def test_orders_in_review_cost_bounded_number_of_reads() -> None:
    world = _thousands_in_review(3000)
    counting = _CountingStore(world.store)
    world.store, world.rows = counting, world.store.business

    found = find(world)

    assert (found.items, found.asking) == ((), 3000)
    assert counting.reads == LOOKS


def test_lost_order_among_many_in_review_is_found_in_time() -> None:
    world = _thousands_in_review(1000)
    world.store.expire(job_key("payment.charge", "00777", prefix="order_"))

    rounds: list[str] = []
    for _ in range(1000 // LOOKS):
        rounds += keys(find(world))
        world.clock.move(minutes=1)

    assert rounds == ["payment.charge:order_00777"]


def test_sweep_of_one_type_finds_no_missing_jobs_of_another() -> None:
    world = World()
    world.add_order()
    world.clock.move(hours=1)

    assert keys(find(world, job_type="payment.charge")) == [KEY]
    assert find(world, job_type="sync.contact").items == ()


def test_large_messages_of_missing_jobs_fit_one_page() -> None:
    world = World(contracts=(_LostReports,))

    found = find(world)

    assert 0 < len(found.items) < 10
    assert len(json.dumps([item.as_json() for item in found.items])) <= PAGE_BYTES


@pytest.mark.parametrize("key", ["", "k" * 201])
def test_impossible_job_key_is_rejected(key: str) -> None:
    with pytest.raises(InvalidMessageError, match="key"):
        Sweep.of({"key": key})


def _many(world: World, status: Status, number: int, *, minutes: int = 1) -> set[JobKey]:
    return {
        _due(world, f"sync.contact:{status}_{one:05}", status, minutes=minutes)
        for one in range(number)
    }


@pytest.mark.parametrize("others", [Status.FINISHED, Status.NEEDS_REVIEW, Status.READY])
def test_unknown_job_is_on_first_page_despite_backlog(
    others: Status,
) -> None:
    """A stream that was dead for a day: its entries are older, and a hundred times as many."""
    world = World(contracts=())
    _many(world, others, 5000, minutes=24 * 60)
    unknown = _many(world, Status.UNKNOWN, 50)

    found = a_finder(world, page_size=100).find(Sweep())

    assert unknown < set(keys(found))
    assert len(set(keys(found))) == 100


def test_ended_row_in_stale_partition_is_moved_by_hold() -> None:
    """The write that ends a job may leave its entry in the index alone, then it is found there."""
    world = World(contracts=())
    started = a_job(job_key=JobKey("sync.contact:1"), status=Status.STARTED, due_at=START)
    world.store.create(started)
    world.store.swap(started, replace(started, status=Status.FINISHED, version=2))
    world.clock.move(minutes=1)
    index = MemoryDueIndex(world.store)

    def partition(action: Action) -> list[str]:
        found = (
            index.due(action, shard, since=None, until=world.clock.now()) for shard in range(8)
        )
        return [one.job_key for due in found for one in due]

    assert (partition(Action.ASK), partition(Action.PUBLISH)) == ([started.job_key], [])
    world.reconciler().hold(world.job(started.job_key))
    world.clock.move(minutes=5)
    assert (partition(Action.ASK), partition(Action.PUBLISH)) == ([], [started.job_key])


def test_unknown_backlog_leaves_share_of_page_for_other_actions() -> None:
    world = World()
    _many(world, Status.UNKNOWN, 100, minutes=60)
    ready = _many(world, Status.READY, 30)
    ended = _many(world, Status.FINISHED, 30)
    for one in range(30):
        world.add_order(f"lost_{one}", charge_requested_at="2026-11-16T02:00:00Z")

    found = a_finder(world, page_size=60).find(Sweep())

    lost = [item for item in found.items if item.message is not None]
    assert len(found.items) == 60
    assert (len(ready & {*keys(found)}), len(ended & {*keys(found)}), len(lost)) == (10, 10, 10)
    assert found.asking == 30


def test_pages_continue_without_gaps_or_repeats() -> None:
    world = World(contracts=())
    due = [_due(world, f"sync.push:{one}", Status.UNKNOWN, minutes=100 - one) for one in range(25)]
    finder = a_finder(world, page_size=10)

    pages, sweep = [], Sweep()
    while True:
        found = finder.find(sweep)
        pages.append(keys(found))
        following = sweep.next_page(found.resume_at)
        if following is None:
            break
        sweep = Sweep.of(following)

    assert pages == [due[:10], due[10:20], due[20:]]


def test_second_sweep_skips_shards_leased_by_first() -> None:
    world = World(contracts=())
    _many(world, Status.UNKNOWN, 40)
    finder = a_finder(world)

    first = finder.find(Sweep(), holder="one")
    second = finder.find(Sweep(), holder="two")
    looking = finder.find(Sweep())

    assert (len(first.items), len(first.shards), first.busy) == (40, 8, 0)
    assert (second.items, second.shards, second.busy) == ((), (), 8)
    assert len(looking.items) == 40


def test_sweep_leases_only_shards_with_due_rows() -> None:
    world = World(contracts=())
    key = _due(world, "sync.push:1", Status.UNKNOWN, minutes=1)
    leases = MemorySweepLeases()

    found = a_finder(world, leases=leases).find(Sweep(), holder="one")

    assert found.shards == tuple(leases.held) == (due_shard(key, 8),)


def test_lease_of_dead_sweep_blocks_others_until_it_expires() -> None:
    world = World(contracts=())
    _many(world, Status.UNKNOWN, 40)
    finder = a_finder(world)
    finder.find(Sweep(), holder="died")

    world.clock.time = START + SWEEP_LEASE - timedelta(microseconds=1)
    early = finder.find(Sweep(), holder="next")
    world.clock.time = START + SWEEP_LEASE
    late = finder.find(Sweep(), holder="next")

    assert (len(early.items), len(late.items)) == (0, 40)
