"""Finding: due rows and work that never became a row; nothing else."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from oncely.domain.errors import InvalidMessageError, UnavailableError
from oncely.domain.keys import JobKey, job_key
from oncely.domain.lifecycle import Status
from oncely.ports import Due, JobStore
from oncely.registry import Registry
from oncely.services.find_due import LOOKS, MOST, Finder, Found, Item, Sweep
from oncely.testing.memory import MemoryDueIndex, MemoryJobStore
from tests.support.fakes import START
from tests.support.payments import Fault
from tests.support.world import World, charge
from tests.unit.report_contract import ReportBuild, ReportMessage, report
from tests.unit.samples import a_job

KEY = "payment.charge:order_18452"


def find(world: World, **sweep: object) -> Found:
    finder = Finder(
        registry=world.registry,
        tools=world.tools,
        store=world.store,
        index=MemoryDueIndex(world.store),
        clock=world.clock,
        guard=world.table,
    )
    return finder.find(Sweep.of(sweep))


def keys(found: Found) -> list[str]:
    return [item.key for item in found.items]


def test_an_unknown_job_is_found_when_it_is_due() -> None:
    world = World()
    world.add_order()
    world.payments.fails("execute", Fault.TIMEOUT_AFTER)
    world.run(charge())

    found = find(world)

    assert keys(found) == [KEY]


def test_an_order_that_asked_for_its_payment_and_has_no_job_is_found_and_charged_once() -> None:
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


def test_an_order_that_is_merely_pending_is_never_charged() -> None:
    world = World()
    world.add_order()
    row = {**world.order()}
    del row["charge_requested_at"]
    world.tools.rows.put("orders", {"order_id": "18452"}, row)
    world.clock.move(hours=1)

    found = find(world)

    assert found.items == ()


def test_an_order_whose_message_is_on_its_way_is_left_alone() -> None:
    world = World()
    world.add_order(charge_requested_at="2026-11-16T02:59:30.000Z")

    found = find(world)

    assert found.items == ()


def test_the_age_of_the_oldest_unresolved_job_is_told() -> None:
    world = World()
    world.add_order()
    world.payments.fails("execute", Fault.TIMEOUT_AFTER)
    world.run(charge())
    world.clock.move(hours=2)

    found = find(world)

    assert found.oldest_age.total_seconds() == 7200


def test_a_job_that_a_person_returned_is_as_old_as_its_return() -> None:
    world = World()
    begun = world.clock.now()
    for number, returned in enumerate((timedelta(days=3), timedelta(days=2), None)):
        made = begun + timedelta(days=2, hours=23) if returned is None else begun
        key = JobKey(f"payment.charge:order_{number}")
        world.store.jobs[key] = a_job(
            job_key=key,
            status=Status.UNKNOWN,
            created_at=made,
            due_at=begun,
            reopened_at=None if returned is None else begun + returned,
        )
    world.clock.move(days=3)

    first = find(world).oldest_age
    del world.store.jobs["payment.charge:order_1"]
    then = find(world).oldest_age

    assert (first, then) == (timedelta(days=1), timedelta(hours=1))


def _due(world: World, key: str, status: Status, *, minutes: int, **changes: object) -> JobKey:
    """A row that has been due for so many minutes."""
    since = world.clock.now() - timedelta(minutes=minutes)
    job = a_job(**{"job_key": JobKey(key), "status": status, "due_at": since, **changes})
    world.store.create(job)
    return job.job_key


def test_oldest_age_leaves_out_jobs_that_ended_or_need_review() -> None:
    world = World()
    long_ago = world.clock.now() - timedelta(days=9)
    for status in (Status.FINISHED, Status.FAILED, Status.NEEDS_REVIEW):
        _due(world, f"payment.charge:{status}", status, minutes=1, created_at=long_ago)

    assert find(world).oldest_age == timedelta(0)


def test_oldest_age_costs_one_read_when_no_job_was_returned() -> None:
    world = World(contracts=())
    hour_ago = world.clock.now() - timedelta(hours=1)
    for one in range(5):
        _due(world, f"sync.contact:{one}", Status.READY, minutes=one, created_at=hour_ago)
    counting = _CountingStore(world.store)
    world.store, world.rows = counting, world.store.business

    found = find(world)

    assert (found.oldest_age, counting.reads) == (timedelta(hours=1), 1)


def test_oldest_age_costs_at_most_20_reads_when_many_jobs_were_returned() -> None:
    world = World(contracts=())
    now = world.clock.now()
    for one in range(25):
        made = now - timedelta(days=2) + timedelta(minutes=one)
        _due(
            world, f"sync.contact:{one}", Status.READY, minutes=1, created_at=made, reopened_at=now
        )
    counting = _CountingStore(world.store)
    world.store, world.rows = counting, world.store.business

    found = find(world)

    assert counting.reads == 20
    assert found.oldest_age == timedelta(days=2) - timedelta(minutes=20)


@pytest.mark.parametrize("store", ["broken", "empty"])
def test_job_whose_row_cannot_be_read_is_as_old_as_the_index_says(store: str) -> None:
    world = World()
    day_ago = world.clock.now() - timedelta(days=1)
    _due(world, "sync.contact:1", Status.READY, minutes=1, created_at=day_ago)
    index = MemoryDueIndex(world.store)
    finder = Finder(
        registry=Registry(()),
        tools=world.tools,
        store=_BrokenStore() if store == "broken" else MemoryJobStore(),  # type: ignore[arg-type]  # only `get` is used
        index=index,
        clock=world.clock,
        guard=world.table,
    )

    assert finder.find(Sweep.of({})).oldest_age == timedelta(days=1)


class _BrokenStore:
    def get(self, key: JobKey) -> None:
        raise UnavailableError(f"DynamoDB gave no answer for {key}")


def test_due_jobs_are_found_longest_due_first_when_the_sweep_holds_them_all() -> None:
    world = World()
    unknown = _due(world, "sync.contact:1", Status.UNKNOWN, minutes=1)
    ready = _due(world, "sync.contact:2", Status.READY, minutes=2)

    found = find(world)

    assert found.items == tuple(Item(key=key, asked_for=False) for key in (ready, unknown))


@pytest.mark.parametrize(("limit", "expected"), [(1, 1), (2, 1), (3, 1), (6, 3)])
def test_full_sweep_gives_half_to_jobs_that_only_a_sweep_resolves(
    limit: int, expected: int
) -> None:
    world = World()
    ended = [
        _due(world, f"sync.contact:{one}", Status.FINISHED, minutes=20 - one) for one in range(6)
    ]
    unknown = [
        _due(world, f"sync.push:{one}", Status.UNKNOWN, minutes=10 - one) for one in range(6)
    ]

    found = find(world, limit=limit)

    assert keys(found) == [*unknown[:expected], *ended[: limit - expected]]
    assert found.asking == 0


def test_full_sweep_names_each_job_once() -> None:
    world = World()
    unknown = _due(world, "sync.push:1", Status.UNKNOWN, minutes=30)
    ended = [_due(world, f"sync.contact:{one}", Status.FINISHED, minutes=9) for one in range(6)]

    assert sorted(keys(find(world, limit=6))) == sorted([unknown, *ended[:5]])


def test_sweep_leaves_out_jobs_that_were_due_before_its_window() -> None:
    world = World()
    _due(world, "sync.contact:1", Status.READY, minutes=10)
    later = _due(world, "sync.contact:2", Status.READY, minutes=5)

    since = (world.clock.now() - timedelta(minutes=5)).isoformat()

    assert keys(find(world, **{"from": since})) == [later]


def test_sweep_of_one_key_looks_at_it_before_it_is_due() -> None:
    found = find(World(), key=KEY)

    item = Item(key=JobKey(KEY), asked_for=True)
    assert (found.items, found.oldest_age, found.asking) == ((item,), timedelta(0), 0)


def test_a_sweep_of_one_key_or_one_type_finds_only_that() -> None:
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
def test_a_wrong_sweep_is_refused_with_a_sentence(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidMessageError, match="not a valid sweep"):
        Sweep.of(wrong)


def test_sweep_takes_the_smallest_limit_and_the_shortest_key_and_is_not_dry() -> None:
    sweep = Sweep.of({"limit": 1, "key": "k"})

    assert (sweep.limit, sweep.key, sweep.dry_run) == (1, "k", False)


def test_one_order_that_can_never_be_a_job_does_not_stop_the_sweep() -> None:
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


def test_orders_in_review_cost_a_sweep_a_bounded_number_of_reads() -> None:
    world = _thousands_in_review(3000)
    counting = _CountingStore(world.store)
    world.store, world.rows = counting, world.store.business

    found = find(world)

    assert (found.items, found.asking) == ((), 3000)
    assert counting.reads == LOOKS


def test_one_lost_order_among_thousands_in_review_is_found_within_a_round_of_sweeps() -> None:
    world = _thousands_in_review(1000)
    world.store.expire(job_key("payment.charge", "00777", prefix="order_"))

    rounds: list[str] = []
    for _ in range(1000 // LOOKS):
        rounds += keys(find(world))
        world.clock.move(minutes=1)

    assert rounds == ["payment.charge:order_00777"]


@pytest.mark.parametrize("others", [Status.FINISHED, Status.READY])
def test_an_unknown_job_does_not_wait_behind_thousands_that_others_bring_on(others: Status) -> None:
    world = World()
    for one in range(1000):
        key = job_key("sync.contact", "hubspot", str(one), "e")
        world.store.create(a_job(job_key=key, status=others, due_at=world.clock.now()))
    world.clock.move(hours=1)
    world.add_order("lost")
    world.add_order()
    world.payments.fails("execute", Fault.TIMEOUT_AFTER)
    world.run(charge())
    world.clock.move(minutes=40)

    found = find(world)

    assert {KEY, "payment.charge:order_lost"} < set(keys(found))
    assert MOST // 2 < len(found.items) == len(set(keys(found))) <= MOST
    assert found.oldest_age >= timedelta(minutes=40), "the alarm must see it"


def test_thousands_of_unknown_jobs_leave_room_for_the_others() -> None:
    world = World()
    for one in range(1000):
        key = job_key("payment.charge", str(one), prefix="order_")
        world.store.create(a_job(job_key=key, status=Status.UNKNOWN, due_at=world.clock.now()))
    ended = job_key("sync.contact", "hubspot", "1", "e")
    longest = world.clock.now() - timedelta(minutes=1)
    world.store.create(a_job(job_key=ended, status=Status.FINISHED, due_at=longest))

    assert ended in keys(find(world))


def test_sweep_of_one_type_finds_no_lost_work_of_another() -> None:
    world = World()
    world.add_order()
    world.clock.move(hours=1)

    assert keys(find(world, job_type="payment.charge")) == [KEY]
    assert find(world, job_type="sync.contact").items == ()


def test_sweep_fills_up_with_lost_work_to_its_limit() -> None:
    world = World()
    due = job_key("payment.charge", "due", prefix="order_")
    world.store.create(a_job(job_key=due, status=Status.UNKNOWN, due_at=world.clock.now()))
    for one in range(5):
        world.add_order(f"lost_{one}")
    world.clock.move(hours=1)

    found = find(world, limit=3)

    assert (keys(found)[0], len(found.items), found.asking) == (due, 3, 5)


def test_full_sweep_keeps_a_tenth_for_work_without_a_row() -> None:
    world = World()
    for one in range(MOST + 1):
        key = job_key("payment.charge", str(one), prefix="order_")
        world.store.create(a_job(job_key=key, status=Status.UNKNOWN, due_at=world.clock.now()))
        world.add_order(f"lost_{one}")
    world.clock.move(hours=1)

    found = find(world)

    lost = [item for item in found.items if item.message is not None]
    assert (len(found.items), len(lost)) == (MOST, MOST // 10)


def test_large_messages_of_lost_work_do_not_break_a_sweep() -> None:
    world = World(contracts=(_LostReports,))

    found = find(world)

    assert 0 < len(found.items) < 10
    assert len(json.dumps([item.message for item in found.items])) < 256 * 1024


@pytest.mark.parametrize("key", ["", "k" * 201])
def test_a_key_that_no_job_can_have_is_refused(key: str) -> None:
    with pytest.raises(InvalidMessageError, match="key"):
        Sweep.of({"key": key})


class _NewerRowsFirst:
    """An index whose longest due rows are of a status that only a newer version knows."""

    def due(self, *, statuses: frozenset[Status] = frozenset(Status), **_: object) -> Iterator[Due]:
        every = [("paused", number) for number in range(300)] + [("ready", 300), ("unknown", 301)]
        for status, number in every:
            if statuses == frozenset(Status) or status in statuses:
                yield Due(
                    job_key=JobKey(f"payment.charge:order_{number}"),
                    job_type="payment.charge",
                    status=status,
                    due_at=START + timedelta(seconds=number),
                    created_at=START,
                )


def test_a_newer_versions_rows_hide_none_that_can_be_brought_on() -> None:
    world = World()
    finder = Finder(
        registry=world.registry,
        tools=world.tools,
        store=world.store,
        index=_NewerRowsFirst(),
        clock=world.clock,
        guard=world.table,
    )

    found = keys(finder.find(Sweep.of({})))

    assert {"payment.charge:order_300", "payment.charge:order_301"} <= set(found)
    assert "payment.charge:order_0" in found, "it is listed, and counted as not looked at"
