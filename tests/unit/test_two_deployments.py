"""Two deployments on one provider account: neither ever replays the other's payment."""

from dataclasses import replace
from typing import Any

import pytest

from oncely.domain.keys import MAX_KEY, JobKey, provider_key
from oncely.domain.lifecycle import Status
from oncely.services.outcomes import Finished, NeedsReview
from tests.support.payments import FakePayments, Fault
from tests.support.world import World, charge

KEY = JobKey("payment.charge:order_18452")


def stack(identity: str, payments: FakePayments, **order: Any) -> World:  # noqa: ANN401  # columns
    world = World(payments=payments, deployment=identity)
    world.add_order(**order)
    return world


def test_order_is_charged_once_in_each_deployment() -> None:
    payments = FakePayments()
    staging, dev = stack("staging", payments), stack("dev", payments)

    outcomes = [staging.run(charge()), dev.run(charge())]

    assert all(isinstance(outcome, Finished) for outcome in outcomes)
    assert payments.charges == ["pi_1", "pi_2"]
    assert staging.order()["charge_id"] != dev.order()["charge_id"]


def test_idempotency_keys_and_payments_carry_deployment() -> None:
    world = stack("dev", FakePayments())

    world.run(charge())

    assert world.payments.calls == [
        ("prepare", f"dev:{KEY}:create:1"),
        ("execute", f"dev:{KEY}:confirm:1"),
    ]
    assert world.payments.intents["pi_1"].payment.deployment == "dev"
    assert world.job(KEY).deployment == "dev"


def test_row_keeps_deployment_of_first_claim() -> None:
    world = stack("dev", FakePayments())
    world.payments.fails("execute", Fault.TIMEOUT_BEFORE)
    world.run(charge())

    job = world.until_quiet(KEY)

    assert (job.status, job.deployment) == (Status.FINISHED, "dev")
    assert world.payments.calls[-1] == ("execute", f"dev:{KEY}:confirm:2")


def copied(world: World) -> World:
    """Another deployment with the same rows, as a copied table has them, and its own identity."""
    copy = stack("copy", world.payments)
    copy.store.jobs[KEY] = world.job(KEY)
    copy.clock.time = world.clock.time
    return copy


@pytest.mark.parametrize("step", ["prepare", "execute"])
def test_row_of_other_deployment_needs_review(
    step: str,
) -> None:
    """Else both would replay one payment: one charge, and two orders marked paid."""
    world = stack("dev", FakePayments())
    world.payments.fails(step, Fault.REFUSED_CONNECTION)
    world.run(charge())
    copy = copied(world)

    assert isinstance(world.run(charge()), Finished)
    outcome = copy.run(charge())

    assert isinstance(outcome, NeedsReview)
    assert "another deployment" in outcome.reason
    assert copy.order()["status"] == "payment_pending"
    assert copy.job(KEY).deployment == "dev"
    assert world.payments.charges == ["pi_1"]


def test_open_send_of_other_deployment_is_not_resent() -> None:
    world = stack("dev", FakePayments())
    world.payments.fails("prepare", Fault.REFUSED_CONNECTION)
    world.run(charge())
    sent = replace(world.job(KEY), first_sent_at=world.clock.now(), key_scope="test")
    world.store.jobs[KEY] = sent
    copy = copied(world)
    copy.clock.move(minutes=1)

    assert isinstance(copy.run(charge()), NeedsReview)
    assert world.payments.charges == []


def test_reconciler_escalates_row_of_other_deployment() -> None:
    world = stack("dev", FakePayments())
    world.payments.fails("execute", Fault.TIMEOUT_AFTER)
    world.run(charge())
    copy = copied(world)

    job = copy.until_quiet(KEY)

    assert job.status is Status.NEEDS_REVIEW
    assert "another deployment" in (job.last_error or "")
    assert copy.order()["status"] == "payment_pending"
    assert copy.alerts.told


def test_payment_of_other_deployment_is_not_canceled() -> None:
    world = stack("dev", FakePayments(declines=True))
    world.payments.fails("close", Fault.REFUSED_CONNECTION)
    world.run(charge())
    copy = copied(world)

    assert isinstance(copy.run(charge()), NeedsReview)
    assert world.payments.intents["pi_1"].status == "declined"


def test_unclaimed_row_of_other_deployment_needs_review() -> None:
    world = stack("dev", FakePayments())
    world.enqueuer().enqueue(charge())
    world.store.jobs[KEY] = replace(world.job(KEY), deployment="staging")

    outcome = world.run(charge())

    assert isinstance(outcome, NeedsReview)
    assert world.payments.calls == []


@pytest.mark.parametrize("identity", ["dev", "x" * 16])
def test_longest_job_key_fits_stripe_key_limit(identity: str) -> None:
    key = provider_key(JobKey("k" * MAX_KEY), "confirm", 999, deployment=identity)

    assert key.startswith(f"{identity}:")
    assert len(key) <= 255
