"""Ambiguous charges: the job is unknown until a lookup resolves it."""

import pytest

from oncely.core.lifecycle import Status, WaitKind
from oncely.core.outcomes import Unknown
from tests.support.crash_points import InterruptingPort
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import awaits_resolution, is_finished, is_retried
from tests.support.provider_fault import ProviderFault

KEY = "payment.charge:order_18452"


def test_charge_without_response_is_unknown_until_lookup(world: InMemoryStack) -> None:
    world.payments.fail_next("execute", ProviderFault.TIMEOUT_AFTER)

    assert isinstance(world.run(charge_message()), Unknown)
    assert world.run_until_idle(KEY).status is Status.FINISHED
    assert world.payments.charges == ["pi_1"]
    assert world.order()["status"] == "paid"


def test_absent_charge_is_retried_under_next_key_number(world: InMemoryStack) -> None:
    world.payments.fail_next("execute", ProviderFault.TIMEOUT_BEFORE)

    world.run(charge_message())

    assert world.run_until_idle(KEY).status is Status.FINISHED
    assert world.payments.charges == ["pi_1"]
    keys = [key for step, key in world.payments.calls if step == "execute"]
    assert keys == [f"{KEY}:confirm:1", f"{KEY}:confirm:2"]


def test_saved_payment_is_reused(world: InMemoryStack) -> None:
    world.payments.model.honors_idempotency_keys = False
    world.payments.fail_next("execute", ProviderFault.TIMEOUT_BEFORE)

    world.run(charge_message())
    world.run_until_idle(KEY)

    assert [step for step, _ in world.payments.calls].count("prepare") == 1
    assert world.payments.charges == ["pi_1"]


def test_new_intent_is_created_without_saved_reference(world: InMemoryStack) -> None:
    world.payments.fail_next("prepare", ProviderFault.TIMEOUT_AFTER)
    world.run(charge_message())
    assert world.run_until_idle(KEY).status is Status.FINISHED
    assert world.payments.charges == ["pi_2"]


def test_pending_payment_is_unknown_until_it_succeeds(world: InMemoryStack) -> None:
    world.payments.processes = True
    assert isinstance(world.run(charge_message()), Unknown)
    world.clock.advance(minutes=1)
    world.reconcile(KEY)
    assert world.job(KEY).status is Status.UNKNOWN

    world.payments.complete("pi_1", status="succeeded")

    assert world.run_until_idle(KEY).status is Status.FINISHED
    assert world.payments.charges == ["pi_1"]


@pytest.mark.parametrize("step", ["prepare", "execute"])
def test_unsent_effect_returns_attempt_and_message(world: InMemoryStack, step: str) -> None:
    world.payments.fail_next(step, ProviderFault.REFUSED_CONNECTION)

    outcome = world.run(charge_message())

    assert is_retried(outcome)
    assert outcome.until > world.clock.now()
    assert (world.job(KEY).status, world.job(KEY).attempts) == (Status.READY, 0)
    assert is_finished(world.run(charge_message()))
    assert world.payments.charges == ["pi_1"]


def test_rejected_api_key_raises_alarm_without_alert(world: InMemoryStack) -> None:
    world.payments.fail_next("prepare", ProviderFault.UNAUTHORIZED)

    outcome = world.run(charge_message())

    assert is_retried(outcome)
    assert outcome.kind is WaitKind.SECRET
    assert world.alerts.sent == []


def test_outage_escalates_nothing_before_age_limit(unknown_charge: InMemoryStack) -> None:
    world = unknown_charge
    world.payments.fail_next("lookup", *[ProviderFault.TIMEOUT_BEFORE] * 40)

    for _ in range(40):
        world.clock.time = world.job(KEY).due_at or world.clock.time
        world.reconcile(KEY)

    assert (world.job(KEY).status, world.job(KEY).attempts) == (Status.UNKNOWN, 1)
    assert world.run_until_idle(KEY).status is Status.FINISHED


def test_consecutive_timeouts_need_review(world: InMemoryStack) -> None:
    world.payments.fail_next("execute", *[ProviderFault.TIMEOUT_BEFORE] * 5)
    started = world.clock.now()

    world.run(charge_message())

    assert world.run_until_idle(KEY).status is Status.NEEDS_REVIEW
    assert world.payments.charges == []
    assert (world.clock.now() - started).total_seconds() >= 3600
    assert "5 timeouts in a row" in world.alerts.sent[-1].text


def test_charge_needs_review_when_order_is_cancelled(unknown_charge: InMemoryStack) -> None:
    unknown_charge.add_order(status="cancelled")

    unknown_charge.reconcile(KEY)

    job = unknown_charge.job(KEY)
    assert job.status is Status.NEEDS_REVIEW
    assert (job.result or {})["charge_id"] == "ch_1"
    assert unknown_charge.order()["status"] == "cancelled"
    assert awaits_resolution(unknown_charge.run(charge_message()))


def test_refunded_charge_needs_review(unknown_charge: InMemoryStack) -> None:
    unknown_charge.payments.complete("pi_1", status="refunded")
    unknown_charge.reconcile(KEY)
    assert unknown_charge.job(KEY).status is Status.NEEDS_REVIEW
    assert unknown_charge.alerts.sent


def test_job_is_released_when_time_is_short_before_call(world: InMemoryStack) -> None:
    slow = InterruptingPort(world.payments, "prepare", lambda: world.clock.advance(seconds=50))
    assert is_retried(world.run(charge_message(), runner=world.runner(provider=slow)))
    assert world.payments.charges == []


def test_ready_job_needs_review_when_amount_changed(world: InMemoryStack) -> None:
    world.payments.fail_next("prepare", ProviderFault.REFUSED_CONNECTION)
    world.run(charge_message())
    world.add_order(amount=9900)

    job = world.run_until_idle(KEY)

    assert job.status is Status.NEEDS_REVIEW
    assert "values changed" in str(job.last_error)
    assert world.payments.charges == []
    assert len(world.alerts.sent) == 1
