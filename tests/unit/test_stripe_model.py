"""The model of Stripe in this process: what it enforces, and how late it shows what happened."""

from dataclasses import replace
from datetime import timedelta

import pytest

from oncely.core.effect_outcomes import (
    Ambiguous,
    Anomalous,
    Declined,
    LookupFailed,
    NotFound,
    Pending,
    Prepared,
    StillOpen,
    Succeeded,
)
from oncely.core.keys import IdempotencyKey, JobKey
from oncely.core.money import Money
from oncely.providers.interfaces import ChargeState, Payment, Refund
from oncely.testing.digest import Digester
from tests.support.fakes import FakeClock
from tests.support.provider_fault import ProviderFault
from tests.support.stripe_account import StripeAccount

MINUTE = timedelta(minutes=1)
PAYMENT = Payment(
    money=Money(1250, "eur"),
    customer="cus_7",
    method="pm_card_visa",
    job_key=JobKey("payment.charge:order_1"),
    order_id="1",
)
REFUND = Refund(
    charge_id="ch_1",
    money=Money(1000, "eur"),
    job_key=JobKey("payment.refund:order_1:rma_1"),
    order_id="1",
    refund_id="rma_1",
)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def stripe(clock: FakeClock) -> StripeAccount:
    return StripeAccount(now=clock.now)


def prepare(stripe: StripeAccount, payment: Payment = PAYMENT) -> str:
    made = stripe.prepare(payment, idempotency_key=IdempotencyKey(f"{payment.job_key}:create:1"))
    assert isinstance(made, Prepared)
    return made.ref


def confirm(stripe: StripeAccount, ref: str, *, number: int = 1) -> object:
    key = IdempotencyKey(f"confirm:{number}")
    outcome: object = stripe.execute(ref, PAYMENT, idempotency_key=key, verified=True)
    return outcome


def refund(stripe: StripeAccount, refund: Refund = REFUND) -> object:
    outcome: object = stripe.refund(refund, idempotency_key=IdempotencyKey(f"{refund.job_key}:1"))
    return outcome


def test_reads_show_intent_of_a_minute_ago(stripe: StripeAccount, clock: FakeClock) -> None:
    stripe.model.intent_lag = MINUTE
    ref = prepare(stripe)
    unseen = stripe.lookup(ref, PAYMENT)
    clock.advance(minutes=2)
    confirm(stripe, ref)
    before = stripe.lookup(ref, PAYMENT)
    clock.advance(minutes=1)

    assert isinstance(unseen, LookupFailed)
    assert unseen.unknown_reference
    assert isinstance(before, NotFound)
    assert isinstance(stripe.lookup(ref, PAYMENT), Succeeded)


@pytest.mark.parametrize("lagging", ["list", "charge"])
def test_lists_of_refunds_and_charge_lag_separately(
    stripe: StripeAccount, clock: FakeClock, lagging: str
) -> None:
    confirm(stripe, prepare(stripe))
    stripe.model.refund_list_lag = MINUTE if lagging == "list" else timedelta(0)
    stripe.model.charge_lag = MINUTE if lagging == "charge" else timedelta(0)
    refund(stripe)

    def shown() -> tuple[type, int]:
        charge = stripe.read_charge("ch_1")
        assert isinstance(charge, ChargeState)
        return type(stripe.lookup_refund(REFUND)), charge.refunded

    assert shown() == ((LookupFailed, 1000) if lagging == "list" else (Succeeded, 0))
    clock.advance(minutes=1)
    assert shown() == (Succeeded, 1000)


def test_stale_list_and_stale_charge_show_no_refund(stripe: StripeAccount) -> None:
    confirm(stripe, prepare(stripe))
    stripe.model.refund_list_lag = stripe.model.charge_lag = MINUTE
    refund(stripe)
    assert isinstance(stripe.lookup_refund(REFUND), NotFound)


@pytest.mark.parametrize("limits", [True, False])
def test_cap_on_refunds_can_be_switched_off(stripe: StripeAccount, *, limits: bool) -> None:
    stripe.model.limits_refunds = limits
    confirm(stripe, prepare(stripe))
    refund(stripe)

    second = refund(stripe, replace(REFUND, job_key=JobKey("payment.refund:order_1:rma_2")))

    assert isinstance(second, Declined if limits else Succeeded)
    assert stripe.refunded("ch_1") == (1000 if limits else 2000)


@pytest.mark.parametrize("honored", [True, False])
def test_idempotency_keys_can_be_ignored(stripe: StripeAccount, *, honored: bool) -> None:
    stripe.model.honors_idempotency_keys = honored
    assert (prepare(stripe) == prepare(stripe)) is honored


def test_key_is_forgotten_after_its_window(stripe: StripeAccount, clock: FakeClock) -> None:
    stripe.model.keys.window = MINUTE
    first = prepare(stripe)
    clock.advance(seconds=59)
    assert prepare(stripe) == first
    clock.advance(seconds=1)
    assert prepare(stripe) != first


def test_processing_payment_and_pending_refund_are_decided_later(
    stripe: StripeAccount, clock: FakeClock
) -> None:
    stripe.model.processing_time = MINUTE
    stripe.processes = True
    ref = prepare(stripe)
    processing = confirm(stripe, ref)
    clock.advance(minutes=1)
    paid = stripe.lookup(ref, PAYMENT)
    stripe.model.refund_status = "pending"
    pending = refund(stripe)
    clock.advance(minutes=1)

    assert isinstance(processing, Pending)
    assert isinstance(paid, Succeeded)
    assert isinstance(pending, Pending)
    assert isinstance(stripe.lookup_refund(REFUND), Succeeded)


def test_only_first_confirmation_is_declined(stripe: StripeAccount) -> None:
    stripe.model.acts_as = "pm_declinedFirst"
    ref = prepare(stripe)
    assert isinstance(confirm(stripe, ref), StillOpen)
    assert isinstance(confirm(stripe, ref, number=2), Succeeded)
    assert len(stripe.charges) == 1


def test_customer_pays_declined_intent_later(stripe: StripeAccount) -> None:
    stripe.declines = True
    ref = prepare(stripe)
    confirm(stripe, ref)
    stripe.model.pay_open_intent(ref)
    assert isinstance(stripe.lookup(ref, PAYMENT), Succeeded)


@pytest.mark.parametrize("fault", [ProviderFault.SERVER_ERROR, ProviderFault.SERVER_ERROR_UNSTORED])
def test_only_stored_500_is_replayed(stripe: StripeAccount, fault: ProviderFault) -> None:
    confirm(stripe, prepare(stripe))
    stripe.fail_next("refund", fault)
    first, second = refund(stripe), refund(stripe)

    assert isinstance(first, Ambiguous)
    assert not first.replayed
    if fault is ProviderFault.SERVER_ERROR:
        assert isinstance(second, Ambiguous)
        assert second.replayed
    else:
        assert isinstance(second, Succeeded)


def test_late_request_is_performed_at_its_time(stripe: StripeAccount, clock: FakeClock) -> None:
    ref = prepare(stripe)
    stripe.late_by = MINUTE
    stripe.fail_next("execute", ProviderFault.ARRIVES_LATE)
    assert isinstance(confirm(stripe, ref), Ambiguous)
    assert isinstance(stripe.lookup(ref, PAYMENT), NotFound)
    clock.advance(minutes=1)
    assert isinstance(stripe.lookup(ref, PAYMENT), Succeeded)


def test_charge_is_anomalous_after_dispute(stripe: StripeAccount) -> None:
    ref = prepare(stripe)
    confirm(stripe, ref)
    stripe.model.dispute(ref)
    found = stripe.lookup(ref, PAYMENT)
    assert isinstance(found, Anomalous)
    assert found.effect_done


def test_equal_runs_have_equal_digests(clock: FakeClock) -> None:
    def run(*, refunds: bool) -> int:
        stripe = StripeAccount(now=clock.now)
        confirm(stripe, prepare(stripe))
        if refunds:
            refund(stripe)
        return Digester().digest(stripe.model)

    assert run(refunds=True) == run(refunds=True) != run(refunds=False)
