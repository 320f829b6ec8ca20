"""A refused job table: nothing is claimed, written or sent, and no message is lost."""

import json
from datetime import timedelta
from typing import Any

from oncely.domain.claims import Claim
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.repairs import Repair
from oncely.ports import ClaimResult, SwapResult, TableOpen, TableRefused
from oncely.services.dead_letters import Fate
from oncely.services.find_due import Finder, Found, Sweep
from oncely.services.outcomes import Fenced
from oncely.services.repair_order import NotAllowed, RepairOrder
from oncely.testing.memory import MemoryDueIndex, MemoryGuard, MemoryJobStore, MemorySweepLeases
from tests.support.payments import Fault
from tests.support.worker import MAX_RECEIVES, Bench, delivery, held_elsewhere
from tests.support.world import World, charge
from tests.unit.test_dead_letters import receive

KEY = JobKey("payment.charge:order_18452")
REFUSED = TableRefused("the job table was restored: run `oncely restore-proofs --replacement`")
OPEN = TableOpen(deployment="dev")


def fenced_world() -> World:
    world = World(guard=MemoryGuard(REFUSED))
    world.add_order()
    return world


def find(world: World) -> Found:
    finder = Finder(
        registry=world.registry,
        tools=world.tools,
        store=world.store,
        index=MemoryDueIndex(world.store),
        leases=MemorySweepLeases(),
        clock=world.clock,
        guard=world.table,
    )
    return finder.find(Sweep())


def test_worker_claims_nothing_and_names_fix() -> None:
    world = fenced_world()

    outcome = world.run(charge())

    assert isinstance(outcome, Fenced)
    assert "oncely restore-proofs" in outcome.reason
    assert world.store.jobs == {}
    assert world.payments.calls == []


def test_message_is_returned_with_growing_delay() -> None:
    bench = Bench(world=fenced_world())

    for receives in range(1, MAX_RECEIVES):
        (worked,) = bench.work(delivery(charge(), receives=receives))
        assert not worked.acked
    waits = list(bench.inbox.shown_again.values())

    assert waits == [timedelta(minutes=minutes) for minutes in (1, 4, 16, 64)]


def test_invalid_message_is_still_rejected() -> None:
    bench = Bench(world=fenced_world())

    (worked,) = bench.work(delivery("no JSON"))

    assert worked.acked


def test_dead_letter_stays_in_queue() -> None:
    world = fenced_world()

    (letter,) = receive(world, json.dumps(charge()))

    assert letter.fate is Fate.LEFT
    assert world.store.jobs == {}
    assert world.alerts.told == []


def test_sweep_finds_nothing_and_says_why() -> None:
    world = World(guard=MemoryGuard(OPEN))
    world.add_order()
    world.payments.fails("execute", Fault.TIMEOUT_AFTER)
    world.run(charge())
    world.guard = MemoryGuard(REFUSED)
    world.clock.move(hours=1)

    found = find(world)

    assert found.items == ()
    assert found.refused == REFUSED.reason


def test_reconciler_writes_nothing() -> None:
    world = World(guard=MemoryGuard(OPEN))
    world.add_order()
    world.payments.fails("execute", Fault.TIMEOUT_AFTER)
    world.run(charge())
    before = world.job(KEY)
    world.guard = MemoryGuard(REFUSED)

    done = world.reconcile(KEY)

    assert done.outcome == "fenced"
    assert world.job(KEY) == before


def test_repair_is_not_allowed_and_says_why() -> None:
    world = World(guard=MemoryGuard(OPEN))
    world.add_order()
    world.payments.fails("execute", Fault.TIMEOUT_AFTER)
    world.run(charge())
    world.guard = MemoryGuard(REFUSED)
    order = RepairOrder(
        key=KEY, repair=Repair.ASK, version=world.job(KEY).version, reason="look", actor="ada"
    )

    assert world.repairer().repair(order) == NotAllowed(REFUSED.reason)


class RestoredDuringClaim(MemoryJobStore):
    """A table that is restored while a worker is frozen before its claim."""

    guard: MemoryGuard

    def claim(self, claim: Claim) -> ClaimResult:
        self.guard.state = REFUSED
        return super().claim(claim)


def test_worker_frozen_across_restore_sends_nothing() -> None:
    store = RestoredDuringClaim()
    store.guard = MemoryGuard(OPEN)
    world = World(store=store, guard=store.guard)
    world.add_order()

    outcome = world.run(charge())

    assert isinstance(outcome, Fenced)
    assert world.payments.calls == []


class LostAtTheEnd(MemoryJobStore):
    """A table that is restored while a worker is frozen before it records its end."""

    guard: MemoryGuard

    def swap(self, before: Job, after: Job, **more: Any) -> SwapResult:  # noqa: ANN401  # as it is
        if after.ended:
            self.guard.state = REFUSED
            self.jobs.clear()
        return super().swap(before, after, **more)


def test_message_is_redelivered_when_row_is_lost_with_table() -> None:
    store = LostAtTheEnd()
    store.guard = MemoryGuard(OPEN)
    world = World(store=store, guard=store.guard)
    world.add_order()

    assert isinstance(world.run(charge()), Fenced)
    assert world.payments.charges == ["pi_1"]
    assert world.alerts.told == []


def test_frozen_worker_marks_nothing_in_restored_table() -> None:
    store = RestoredDuringClaim()
    store.guard = MemoryGuard(OPEN)
    world = World(store=store, guard=store.guard)
    world.add_order()
    held_elsewhere(world, lease=timedelta(minutes=-1))
    store.guard.state = OPEN
    before = world.job(KEY)

    assert isinstance(world.run(charge()), Fenced)
    assert world.job(KEY) == before


def test_orders_without_job_wait_until_replay_window_ends() -> None:
    world = World()
    until = world.clock.now() + timedelta(days=18)
    world.guard = MemoryGuard(TableOpen(deployment="dev", replays_until=until))
    asked = (world.clock.now() - timedelta(hours=1)).isoformat()
    world.add_order(charge_requested_at=asked)

    assert find(world).items == ()
    message = charge()
    assert world.reconciler().resolve(KEY, message=message).outcome == "gone"  # type: ignore[arg-type]  # plain JSON
    assert world.store.jobs == {}

    world.clock.time = until
    assert [item.key for item in find(world).items] == [KEY]
