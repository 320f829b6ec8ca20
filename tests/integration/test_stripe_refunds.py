"""Refunds through Stripe's SDK against the sandbox, under every faulty response."""

from dataclasses import replace
from datetime import timedelta

import pytest

from oncely.core.effect_outcomes import (
    Ambiguous,
    Anomalous,
    Declined,
    EffectOutcome,
    LookupFailed,
    NotFound,
    NotSent,
    Pending,
    Prepared,
    Succeeded,
)
from oncely.core.keys import IdempotencyKey, JobKey
from oncely.core.money import Money
from oncely.plugins.events import EffectChange
from oncely.providers.interfaces import ChargeState, Payment, Refund
from oncely.providers.stripe.payments import StripePayments
from oncely.providers.stripe.refunds import MAX_REFUNDS
from tests.support.shipped_sandbox import ShippedSandbox

KEY = IdempotencyKey("refund:1")


@pytest.fixture
def provider(sandbox: ShippedSandbox) -> StripePayments:
    return StripePayments.from_api_key("sk_test_1", api_base=sandbox.url)


PAYMENT = Payment(
    money=Money(1250, "eur"),
    customer="cus_7",
    method="pm_card_visa",
    job_key=JobKey("payment.charge:order_18452"),
    order_id="18452",
)


@pytest.fixture
def charge_id(provider: StripePayments) -> str:
    return charge(provider, PAYMENT)


def charge(provider: StripePayments, payment: Payment) -> str:
    prepared = provider.prepare(payment, idempotency_key=IdempotencyKey("create:1"))
    assert isinstance(prepared, Prepared)
    key = IdempotencyKey("confirm:1")
    paid = provider.execute(prepared.ref, payment, idempotency_key=key, verified=True)
    assert isinstance(paid, Succeeded)
    return str(paid.result["charge_id"])


def make_refund(charge_id: str, amount: int = 500, refund_id: str = "rma_1") -> Refund:
    return Refund(
        charge_id=charge_id,
        money=Money(amount, "eur"),
        job_key=JobKey(f"payment.refund:order_18452:{refund_id}"),
        order_id="18452",
        refund_id=refund_id,
        deployment="dev",
    )


def refunded(sandbox: ShippedSandbox) -> list[int]:
    return [one.amount for one in sandbox.stripe.ledger.refunds]


def test_refund_is_made_and_found_again(
    sandbox: ShippedSandbox, provider: StripePayments, charge_id: str
) -> None:
    done = provider.refund(make_refund(charge_id), idempotency_key=KEY)

    assert isinstance(done, Succeeded)
    assert str(done.ref).startswith("re_")
    assert provider.lookup_refund(make_refund(charge_id)) == replace(
        done, result={**done.result, "request_id": None}
    )
    (made,) = sandbox.stripe.ledger.refunds
    assert made.metadata == {
        "job_key": "payment.refund:order_18452:rma_1",
        "order_id": "18452",
        "refund_id": "rma_1",
        "deployment": "dev",
    }


def test_charge_shows_what_was_refunded(
    sandbox: ShippedSandbox, provider: StripePayments, charge_id: str
) -> None:
    provider.refund(make_refund(charge_id), idempotency_key=KEY)
    state = ChargeState(captured=Money(1250, "eur"), refunded=500, order_id="18452")
    assert provider.read_charge(charge_id) == state
    (charge,) = sandbox.stripe.ledger.charges
    sandbox.stripe.ledger.save(replace(charge, disputed=True))
    assert provider.read_charge(charge_id) == replace(state, disputed=True)
    assert isinstance(provider.read_charge("ch_unknown"), NotFound)


def test_charge_shows_its_deployment(provider: StripePayments, ours: str) -> None:
    state = provider.read_charge(ours)
    assert isinstance(state, ChargeState)
    assert state.deployment == "dev"


@pytest.mark.parametrize("fault", ["outage", "rate_limit", "unauthorized", "drop_before"])
def test_unreadable_charge_means_nothing_was_sent(
    sandbox: ShippedSandbox, provider: StripePayments, charge_id: str, fault: str
) -> None:
    sandbox.faults.add(fault, path="/v1/charges/*")
    assert isinstance(provider.read_charge(charge_id), NotSent)


@pytest.mark.parametrize(
    ("fault", "expected", "made"),
    [
        ("rate_limit", NotSent, 0),
        ("unauthorized", NotSent, 0),
        ("accept_then_drop", Succeeded, 1),
        ("error_after", Succeeded, 1),
        ("garbled", Succeeded, 1),
        ("truncated", Succeeded, 1),
        ("error_before", Ambiguous, 0),
        ("drop_before", Ambiguous, 0),
        ("conflict", Ambiguous, 0),
        ("outage", Ambiguous, 0),
    ],
)
def test_refund_error_returns_what_the_list_shows(
    sandbox: ShippedSandbox,
    provider: StripePayments,
    charge_id: str,
    fault: str,
    *,
    expected: type[EffectOutcome],
    made: int,
) -> None:
    sandbox.faults.add(fault, method="POST", path="/v1/refunds")
    assert isinstance(provider.refund(make_refund(charge_id), idempotency_key=KEY), expected)
    assert len(refunded(sandbox)) == made


@pytest.mark.parametrize(
    ("fault", "replayed"),
    [
        ("error_before", [False, True]),
        ("error_unstored", [False, False]),
        ("outage", [False, False]),
        ("drop_before", [False, False]),
        ("conflict", [False, False]),
    ],
)
def test_only_a_replayed_error_was_stored_under_the_key(
    sandbox: ShippedSandbox,
    provider: StripePayments,
    charge_id: str,
    fault: str,
    replayed: list[bool],
) -> None:
    sandbox.faults.add(fault, method="POST", path="/v1/refunds", times=2)
    outcomes = [provider.refund(make_refund(charge_id), idempotency_key=KEY) for _ in range(2)]
    ambiguous = [one for one in outcomes if isinstance(one, Ambiguous)]
    assert [one.replayed for one in ambiguous] == replayed


def test_same_key_refunds_once(
    sandbox: ShippedSandbox, provider: StripePayments, charge_id: str
) -> None:
    for _ in range(3):
        assert isinstance(provider.refund(make_refund(charge_id), idempotency_key=KEY), Succeeded)
    assert refunded(sandbox) == [500]


def test_replayed_refund_is_read_as_it_is_now(
    sandbox: ShippedSandbox, provider: StripePayments, charge_id: str
) -> None:
    done = provider.refund(make_refund(charge_id), idempotency_key=KEY)
    assert isinstance(done, Succeeded)
    sandbox.stripe.complete_refund(str(done.ref), succeeded=False)

    assert isinstance(provider.refund(make_refund(charge_id), idempotency_key=KEY), Declined)
    assert provider.read_charge(charge_id) == ChargeState(
        captured=Money(1250, "eur"), refunded=0, order_id="18452"
    )


def test_already_refunded_is_our_own_refund(
    sandbox: ShippedSandbox, provider: StripePayments, charge_id: str
) -> None:
    whole = make_refund(charge_id, 1250)
    provider.refund(whole, idempotency_key=KEY)

    again = provider.refund(whole, idempotency_key=IdempotencyKey("refund:2"))

    assert isinstance(again, Succeeded)
    assert refunded(sandbox) == [1250]


def test_already_refunded_by_others_is_a_decline_only_after_the_search(
    sandbox: ShippedSandbox, provider: StripePayments, charge_id: str
) -> None:
    provider.refund(make_refund(charge_id, 1250, "other"), idempotency_key=KEY)
    second, key = make_refund(charge_id, 1250), IdempotencyKey("refund:2")
    sandbox.faults.add("outage", method="GET", path="/v1/refunds")

    assert isinstance(provider.refund(second, idempotency_key=key), Ambiguous)
    assert isinstance(provider.refund(second, idempotency_key=key), Declined)


def test_disputed_charge_needs_review(
    sandbox: ShippedSandbox, provider: StripePayments, charge_id: str
) -> None:
    (charge,) = sandbox.stripe.ledger.charges
    sandbox.stripe.ledger.save(replace(charge, disputed=True))
    assert isinstance(provider.refund(make_refund(charge_id), idempotency_key=KEY), Anomalous)


def test_pending_refund_is_pending_until_it_is_decided(
    sandbox: ShippedSandbox, provider: StripePayments, charge_id: str
) -> None:
    sandbox.stripe.refund_status = "pending"
    refund = make_refund(charge_id)
    assert isinstance(provider.refund(refund, idempotency_key=KEY), Pending)
    (made,) = sandbox.stripe.ledger.refunds
    sandbox.stripe.complete_refund(made.refund_id, succeeded=True)
    assert isinstance(provider.lookup_refund(refund), Succeeded)


def test_refund_with_unexpected_status_needs_review(
    sandbox: ShippedSandbox, provider: StripePayments, charge_id: str
) -> None:
    sandbox.stripe.refund_status = "requires_action"
    found = provider.refund(make_refund(charge_id), idempotency_key=KEY)
    assert isinstance(found, Anomalous)
    assert found.reason.endswith("has the unexpected status requires_action")


def test_refund_of_another_deployment_or_amount_is_not_ours(
    provider: StripePayments, charge_id: str
) -> None:
    provider.refund(make_refund(charge_id), idempotency_key=KEY)
    staging = replace(make_refund(charge_id), deployment="staging")
    assert isinstance(provider.lookup_refund(staging), NotFound)
    assert isinstance(provider.lookup_refund(make_refund(charge_id, 600)), Anomalous)


def test_several_refunds_of_one_job_need_review(provider: StripePayments, charge_id: str) -> None:
    for number in (1, 2):
        key = IdempotencyKey(f"refund:{number}")
        provider.refund(make_refund(charge_id), idempotency_key=key)
    assert isinstance(provider.lookup_refund(make_refund(charge_id)), Anomalous)


def test_unreadable_list_is_a_failed_lookup(
    sandbox: ShippedSandbox, provider: StripePayments, charge_id: str
) -> None:
    sandbox.faults.add("outage", method="GET", path="/v1/refunds")
    assert isinstance(provider.lookup_refund(make_refund(charge_id)), LookupFailed)


@pytest.mark.parametrize(
    ("others", "expected"), [(MAX_REFUNDS - 1, Succeeded), (MAX_REFUNDS, Anomalous)]
)
def test_charge_with_more_refunds_than_a_page_needs_review(
    sandbox: ShippedSandbox,
    provider: StripePayments,
    charge_id: str,
    others: int,
    expected: type[EffectOutcome],
) -> None:
    provider.refund(make_refund(charge_id), idempotency_key=KEY)
    (ours,) = sandbox.stripe.ledger.refunds
    sandbox.stripe.ledger.save(
        *(replace(ours, refund_id=f"re_{n}", metadata={}, amount=1) for n in range(others))
    )
    assert isinstance(provider.lookup_refund(make_refund(charge_id)), expected)


def test_list_that_lacks_what_the_charge_counts_proves_nothing(
    sandbox: ShippedSandbox, provider: StripePayments, charge_id: str
) -> None:
    refund, other = make_refund(charge_id), make_refund(charge_id, refund_id="other")
    provider.refund(other, idempotency_key=IdempotencyKey("other:1"))
    assert isinstance(provider.lookup_refund(refund), NotFound)

    sandbox.stripe.refund_list_lag = timedelta(hours=1)
    stale = provider.lookup_refund(refund)
    sandbox.faults.add("error_after", method="POST", path="/v1/refunds")
    unlisted = provider.refund(refund, idempotency_key=KEY)

    assert isinstance(stale, LookupFailed)
    assert "5.00 EUR of" in stale.reason
    assert isinstance(unlisted, Ambiguous)
    sandbox.stripe.refund_list_lag = timedelta(0)
    assert isinstance(provider.lookup_refund(refund), Succeeded)


@pytest.mark.parametrize("status", ["failed", "requires_action"])
def test_refund_that_the_charge_may_not_count_does_not_hide_a_missing_one(
    sandbox: ShippedSandbox, provider: StripePayments, charge_id: str, status: str
) -> None:
    refund = make_refund(charge_id)
    provider.refund(make_refund(charge_id, refund_id="other"), idempotency_key=KEY)
    (other,) = sandbox.stripe.ledger.refunds
    sandbox.stripe.complete_refund(other.refund_id, succeeded=False)
    (other,) = sandbox.stripe.ledger.refunds
    listed = replace(other, status=status, created=other.created - timedelta(hours=2))
    sandbox.stripe.ledger.save(listed)
    sandbox.stripe.refund_list_lag = timedelta(hours=1)
    assert isinstance(provider.lookup_refund(refund), NotFound)

    provider.refund(refund, idempotency_key=IdempotencyKey("refund:2"))

    assert isinstance(provider.lookup_refund(refund), LookupFailed)


def test_absence_is_not_concluded_without_the_charge(
    sandbox: ShippedSandbox, provider: StripePayments, charge_id: str
) -> None:
    sandbox.faults.add("outage", path="/v1/charges/*")
    assert isinstance(provider.lookup_refund(make_refund(charge_id)), LookupFailed)


def test_already_refunded_is_no_decline_while_the_list_is_stale(
    sandbox: ShippedSandbox, provider: StripePayments, charge_id: str
) -> None:
    whole = make_refund(charge_id, 1250)
    provider.refund(whole, idempotency_key=KEY)
    sandbox.stripe.refund_list_lag = timedelta(hours=1)

    again = provider.refund(whole, idempotency_key=IdempotencyKey("refund:2"))

    assert isinstance(again, Ambiguous)


@pytest.fixture
def ours(provider: StripePayments) -> str:
    """The charge of a job of this deployment."""
    payment = replace(PAYMENT, deployment="dev")
    return charge(provider, payment)


def test_refund_by_hand_is_read_with_its_job(
    sandbox: ShippedSandbox, provider: StripePayments, ours: str
) -> None:
    provider.refund(make_refund(ours), idempotency_key=KEY)
    by_us = provider.read_change(ours)
    sandbox.stripe.refund(sandbox.stripe.ledger.intents[0].intent_id)
    by_hand = provider.read_change(ours)

    assert isinstance(by_us, EffectChange)
    assert isinstance(by_hand, EffectChange)
    assert (by_us.kind, by_us.deployment, by_us.job_key) == ("refunded", "dev", PAYMENT.job_key)
    assert (by_us.by_us, by_hand.by_us) == (True, False)
    assert by_us.summary == f"5.00 EUR of 12.50 EUR ({ours}) was refunded"
    assert by_hand.details["amount_refunded"] == 1250


@pytest.mark.parametrize(
    ("status", "kind"), [("needs_response", "disputed"), ("lost", "dispute closed")]
)
def test_dispute_has_a_deadline_while_it_is_open(
    sandbox: ShippedSandbox, provider: StripePayments, ours: str, status: str, kind: str
) -> None:
    sandbox.stripe.dispute(sandbox.stripe.ledger.intents[0].intent_id)
    (opened,) = sandbox.stripe.ledger.disputes
    sandbox.stripe.ledger.save(replace(opened, dispute_id="dp_2", status=status))

    change = provider.read_change("dp_2")

    assert isinstance(change, EffectChange)
    assert (change.kind, change.job_key) == (kind, PAYMENT.job_key)
    assert (change.respond_by is None) is (kind == "dispute closed")
    assert change.summary == f"dispute dp_2 of {ours} over 12.50 EUR is {status}"


def test_change_of_a_charge_that_is_not_ours_is_not_found(
    sandbox: ShippedSandbox, provider: StripePayments, charge_id: str
) -> None:
    sandbox.stripe.dispute(sandbox.stripe.ledger.intents[0].intent_id)
    (opened,) = sandbox.stripe.ledger.disputes
    for object_id in (charge_id, opened.dispute_id, "ch_none", "dp_none"):
        assert isinstance(provider.read_change(object_id), NotFound)


def test_unanswered_read_of_a_change_is_tried_again(
    sandbox: ShippedSandbox, provider: StripePayments, ours: str
) -> None:
    sandbox.faults.add("outage", path="/v1/charges/*", times=10)
    assert isinstance(provider.read_change(ours), LookupFailed)
