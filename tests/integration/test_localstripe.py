"""The payment job on localstripe, a third-party fake that ignores idempotency keys."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from oncely.core.effect_outcomes import Prepared
from oncely.core.keys import IdempotencyKey, JobKey
from oncely.core.lifecycle import Status
from tests.conformance.payment_harnesses import make_payment
from tests.support.crash_points import CrashingPort, CrashPlan, SimulatedCrashError
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.localstripe import LocalStripe, running_localstripe

KEY = JobKey("payment.charge:order_18452")


@pytest.fixture(scope="module")
def stripe() -> Iterator[LocalStripe]:
    with running_localstripe() as running:
        yield running


@pytest.fixture
def customer(stripe: LocalStripe) -> tuple[str, str]:
    return stripe.new_customer()


@pytest.fixture
def world(stripe: LocalStripe, customer: tuple[str, str]) -> InMemoryStack:
    world = InMemoryStack(payments=stripe.payments)
    payer, method = customer
    world.add_order("18452", payment_customer=payer, payment_method=method)
    return world


def test_localstripe_ignores_keys(stripe: LocalStripe, customer: tuple[str, str]) -> None:
    payer, method = customer
    payment = replace(make_payment(method), customer=payer)
    key = IdempotencyKey("the same")
    both = [stripe.payments.prepare(payment, idempotency_key=key) for _ in range(2)]
    assert len({one.ref for one in both if isinstance(one, Prepared)}) == 2


def test_many_deliveries_charge_once(
    world: InMemoryStack, stripe: LocalStripe, customer: tuple[str, str]
) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: world.run(charge_message()), range(24)))
    assert world.job(KEY).status is Status.FINISHED
    assert len(stripe.charges(customer[0])) == 1


@pytest.mark.parametrize("step", ["prepare", "execute"])
@pytest.mark.parametrize("after", [False, True])
def test_worker_that_dies_at_provider_leaves_one_charge(
    *, world: InMemoryStack, stripe: LocalStripe, customer: tuple[str, str], step: str, after: bool
) -> None:
    dying = world.runner(provider=CrashingPort(stripe.payments, CrashPlan(step, crash_after=after)))
    with pytest.raises(SimulatedCrashError):
        world.run(charge_message(), runner=dying)

    for _ in range(
        4
    ):  # the message is redelivered, the reconciler looks it up, and the job continues
        world.clock.advance(minutes=5)
        world.run(charge_message())
        world.reconcile(KEY)

    assert world.job(KEY).status is Status.FINISHED
    assert len(stripe.charges(customer[0])) == 1
