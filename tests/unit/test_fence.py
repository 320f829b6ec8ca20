"""A blocked job table: nothing is claimed, written or sent, and no message is lost."""

import json
from datetime import timedelta
from typing import Any

import pytest

from oncely.core.claims import Claim
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.repairs import Repair
from oncely.core.store import ClaimResult, SwapResult
from oncely.core.table_guard import TableBlocked, TableOpen
from oncely.operate.repair_request import NotAllowed, RepairRequest
from oncely.reconcile.find_due_work import DueWork, SweepRequest
from oncely.run.dead_letters import DeadLetterOutcome
from tests.support.fakes import FakeTableGuard
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_blocked
from tests.support.stored_rows import InspectableStore
from tests.support.worker import MAX_RECEIVES, BatchHarness, lease_to_other_worker, make_delivery
from tests.unit.test_dead_letters import handle_dead_letters

KEY = JobKey("payment.charge:order_18452")
BLOCKED = TableBlocked("the job table was restored: run `oncely restore-proofs`")
OPEN = TableOpen(deployment="dev")


def fenced_world() -> InMemoryStack:
    world = InMemoryStack(guard=FakeTableGuard(BLOCKED))
    world.add_order()
    return world


def find_due(world: InMemoryStack) -> DueWork:
    return world.finder().find(SweepRequest())


def test_worker_claims_nothing_and_names_fix() -> None:
    world = fenced_world()

    outcome = world.run(charge_message())

    assert is_blocked(outcome)
    assert "oncely restore-proofs" in str(outcome.reason)
    assert world.store.jobs == {}
    assert world.payments.calls == []


def test_message_is_returned_with_growing_delay() -> None:
    harness = BatchHarness(world=fenced_world())

    for receives in range(1, MAX_RECEIVES):
        (worked,) = harness.process(make_delivery(charge_message(), receives=receives))
        assert not worked.acked

    delays = [timedelta(seconds=seconds) for seconds in (70, 231, 765, 2536)]
    assert list(harness.inbox.redelivered.values()) == delays


def test_invalid_message_is_still_rejected() -> None:
    (worked,) = BatchHarness(world=fenced_world()).process(make_delivery("no JSON"))
    assert worked.acked


def test_dead_letter_stays_in_queue() -> None:
    world = fenced_world()

    (handled,) = handle_dead_letters(world, json.dumps(charge_message()))

    assert handled.outcome is DeadLetterOutcome.LEFT_IN_QUEUE
    assert world.store.jobs == {}
    assert world.alerts.sent == []


@pytest.fixture
def fenced_later(unknown_charge: InMemoryStack) -> InMemoryStack:
    unknown_charge.guard = FakeTableGuard(BLOCKED)
    return unknown_charge


def test_sweep_finds_nothing_and_says_why(fenced_later: InMemoryStack) -> None:
    fenced_later.clock.advance(hours=1)
    found = find_due(fenced_later)
    assert found.items == ()
    assert found.table_refusal == BLOCKED.reason


def test_reconciler_writes_nothing(fenced_later: InMemoryStack) -> None:
    before = fenced_later.job(KEY)
    assert fenced_later.reconcile(KEY).outcome == "fenced"
    assert fenced_later.job(KEY) == before


def test_repair_is_not_allowed_and_says_why(fenced_later: InMemoryStack) -> None:
    version = fenced_later.job(KEY).version
    request = RepairRequest(
        key=KEY, repair=Repair.LOOK_UP, version=version, reason="look", actor="ada"
    )

    assert fenced_later.repairer().repair(request) == NotAllowed(BLOCKED.reason)


class RestoredDuringClaim(InspectableStore):
    """A table that is restored while a worker is frozen before its claim."""

    guard: FakeTableGuard

    def claim(self, claim: Claim) -> ClaimResult:
        self.guard.state = BLOCKED
        return super().claim(claim)


class RestoredBeforeSwap(InspectableStore):
    """A table that is restored while a worker is frozen before it records its end."""

    guard: FakeTableGuard

    def swap(self, before: JobRow, after: JobRow, **more: Any) -> SwapResult:  # noqa: ANN401  # as it is
        if after.ended:
            self.guard.state = BLOCKED
            self.jobs.clear()
        return super().swap(before, after, **more)


def world_with(store: RestoredDuringClaim | RestoredBeforeSwap) -> InMemoryStack:
    store.guard = FakeTableGuard(OPEN)
    world = InMemoryStack(store=store, guard=store.guard)
    world.add_order()
    return world


def test_worker_frozen_across_restore_sends_nothing() -> None:
    world = world_with(RestoredDuringClaim())
    assert is_blocked(world.run(charge_message()))
    assert world.payments.calls == []


def test_message_is_redelivered_when_row_is_lost_with_table() -> None:
    world = world_with(RestoredBeforeSwap())
    assert is_blocked(world.run(charge_message()))
    assert world.payments.charges == ["pi_1"]
    assert world.alerts.sent == []


def test_frozen_worker_marks_nothing_in_restored_table() -> None:
    world = world_with(store := RestoredDuringClaim())
    lease_to_other_worker(world, lease=timedelta(minutes=-1))
    store.guard.state = OPEN
    before = world.job(KEY)

    assert is_blocked(world.run(charge_message()))
    assert world.job(KEY) == before


def test_orders_without_job_wait_until_replay_window_ends() -> None:
    world = InMemoryStack()
    until = world.clock.now() + timedelta(days=18)
    world.guard = FakeTableGuard(TableOpen(deployment="dev", replays_until=until))
    world.add_order(charge_requested_at=(world.clock.now() - timedelta(hours=1)).isoformat())

    assert find_due(world).items == ()
    message = charge_message()
    assert world.reconciler().resolve(KEY, message=message).outcome == "gone"  # type: ignore[arg-type]  # plain JSON
    assert world.store.jobs == {}

    world.clock.time = until
    assert [item.key for item in find_due(world).items] == [KEY]
