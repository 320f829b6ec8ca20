"""A worker that lost its ownership: it overwrites nothing, and its outcome is kept."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from oncely.core.job_row import CLOCK_SKEW, JobRow
from oncely.core.lifecycle import Event, Status
from oncely.core.outcomes import LeasedElsewhere, OwnershipLost, Unknown
from oncely.jobs.payment_charge import PaymentCharge
from tests.support.crash_points import (
    CrashingPort,
    CrashPlan,
    InterruptingPort,
    SimulatedCrashError,
)
from tests.support.fakes import FakeClock
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_finished, lost_row

KEY = "payment.charge:order_18452"


def run_slowly(world: InMemoryStack, step: str, meanwhile: Callable[[], object]) -> object:
    slow = InterruptingPort(world.payments, step, meanwhile)
    return world.run(charge_message(), runner=world.runner(provider=slow))


def reconcile_after_lease(world: InMemoryStack) -> None:
    world.clock.advance(hours=1)
    world.run_until_idle(KEY)


def test_job_leased_elsewhere_is_left_until_lease_expires(world: InMemoryStack) -> None:
    seen: list[object] = []

    run_slowly(world, "execute", lambda: seen.append(world.run(charge_message())))

    held = seen[0]
    assert isinstance(held, LeasedElsewhere)
    assert held.until > world.clock.now()
    assert world.payments.charges == ["pi_1"]


def test_late_worker_cannot_overwrite_reconciled_job(world: InMemoryStack) -> None:
    outcome = run_slowly(world, "execute", lambda: reconcile_after_lease(world))

    job = world.job(KEY)
    assert isinstance(outcome, OwnershipLost)
    assert (job.status, job.evidence[-1].event) == (Status.FINISHED, "note")
    assert "late worker" in job.evidence[-1].reason
    assert world.payments.charges == ["pi_1"]


def test_late_worker_adds_note_when_another_result_was_recorded(world: InMemoryStack) -> None:
    def resolve_otherwise() -> None:
        reconcile_after_lease(world)
        world.store.jobs[KEY] = replace(world.job(KEY), result={"charge_id": "by hand"})

    outcome = run_slowly(world, "execute", resolve_otherwise)

    job = world.job(KEY)
    assert isinstance(outcome, OwnershipLost)
    assert (job.status, job.evidence[-1].event) == (Status.FINISHED, "note")
    assert "late worker" in job.evidence[-1].reason
    assert world.payments.charges == ["pi_1"]


def test_late_worker_without_saved_reference_cannot_confirm(world: InMemoryStack) -> None:
    outcome = run_slowly(world, "prepare", lambda: reconcile_after_lease(world))
    assert isinstance(outcome, OwnershipLost)
    assert world.payments.charges == ["pi_2"]
    assert world.job(KEY).provider_ref == "pi_2"


def test_late_worker_with_stopped_clock_cannot_confirm(world: InMemoryStack) -> None:
    """Its clock says that it has time, so only the failed write stops it."""
    stuck = FakeClock(world.clock.now())
    slow = InterruptingPort(world.payments, "prepare", lambda: reconcile_after_lease(world))
    runner = replace(world.runner(provider=slow), clock=stuck)

    outcome = runner.run(json.dumps(charge_message()), deadline=stuck.now() + timedelta(seconds=60))

    assert isinstance(outcome, OwnershipLost)
    assert world.payments.charges == ["pi_2"]


def test_lease_outlives_last_possible_provider_call(world: InMemoryStack) -> None:
    began = world.clock.now()
    seen: list[JobRow] = []

    run_slowly(world, "execute", lambda: seen.append(world.job(KEY)))

    last_call_is_over = began + timedelta(seconds=60) + PaymentCharge.policy.profile.request_timeout
    assert seen[0].lease_until is not None
    assert seen[0].lease_until >= last_call_is_over + CLOCK_SKEW


def test_contradicting_late_outcome_reopens_job_for_review(world: InMemoryStack) -> None:
    def fail_job() -> None:
        world.payments.complete("pi_1", status="declined")
        reconcile_after_lease(world)

    outcome = run_slowly(world, "execute", fail_job)

    job = world.job(KEY)
    assert isinstance(outcome, OwnershipLost)
    assert (job.status, job.expires_at, job.due_at) == (Status.NEEDS_REVIEW, None, None)
    assert world.alerts.sent


def test_late_worker_does_not_recreate_expired_row(world: InMemoryStack) -> None:
    outcome = run_slowly(world, "execute", lambda: world.store.expire(KEY))

    assert lost_row(outcome)
    assert "charged 12.50 EUR" in outcome.reason
    assert world.store.get(KEY) is None
    assert "row is gone" in world.alerts.sent[0].text


def test_evidence_added_during_run_survives_commit(world: InMemoryStack) -> None:
    def add_note() -> None:
        job, now = world.job(KEY), world.clock.now()
        noted = job.apply(Event.NOTE, now=now, actor="support", reason="customer called")
        world.store.swap(job, noted)

    assert is_finished(run_slowly(world, "execute", add_note))
    assert [entry.event for entry in world.job(KEY).evidence] == ["checkpoint", "note", "confirm"]


def test_expired_lease_makes_job_unknown_without_any_call(world: InMemoryStack) -> None:
    mortal = CrashingPort(world.payments, CrashPlan(crash_at="execute", crash_after=True))
    with pytest.raises(SimulatedCrashError):
        world.run(charge_message(), runner=world.runner(provider=mortal))
    calls = len(world.payments.calls)
    world.clock.advance(hours=1)

    assert isinstance(world.run(charge_message()), Unknown)
    assert world.job(KEY).due_at == world.clock.now()
    assert len(world.payments.calls) == calls
