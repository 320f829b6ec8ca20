"""Orders that say they are paid: the provider is asked, and without it the word stays a word."""

from dataclasses import replace
from typing import Any

import pytest

from oncely.core.job_row import UNCONFIRMED
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.core.money import Money
from oncely.core.outcomes import Ended, NeedsReview
from oncely.core.repairs import Repair
from oncely.operate.repair_request import Repaired
from oncely.providers.interfaces import Payment
from tests.support.braintree_account import BraintreeAccount
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_finished, is_retried
from tests.support.provider_fault import ProviderFault
from tests.support.repairs import repair_job
from tests.support.stripe_account import EFFECTS, StripeIntent
from tests.unit.samples import KEY

PAYMENT = Payment(
    money=Money(1250, "eur"),
    customer="cus_7",
    method="pm_1",
    job_key=KEY,
    order_id="18452",
    deployment="dev",
)
NO_CHARGE_ID = "the order's row says it was paid, without a charge_id; no provider confirmed it"


@pytest.fixture
def world() -> InMemoryStack:
    """The order was paid by ch_1, and the job table knows nothing of it."""
    world = InMemoryStack(deployment="dev")
    world.add_order(status="paid", charge_id="ch_1")
    charge(world)
    return world


def charge(world: InMemoryStack, **changes: Any) -> None:  # noqa: ANN401  # fields of the payment
    world.payments.intents["pi_1"] = StripeIntent("pi_1", replace(PAYMENT, **changes), "succeeded")


def made_before_oncely(world: InMemoryStack) -> None:
    ledger = world.payments.model.ledger
    ledger.save(*(replace(one, metadata={}) for one in (*ledger.intents, *ledger.charges)))


def effects(world: InMemoryStack) -> list[str]:
    return [step for step, _ in world.payments.calls if step in EFFECTS]


@pytest.mark.parametrize("is_ours", [True, False], ids=["ours", "before Oncely"])
def test_charge_that_the_provider_confirms_finishes_the_job(
    world: InMemoryStack, *, is_ours: bool
) -> None:
    if not is_ours:
        made_before_oncely(world)

    outcome = world.run(charge_message())

    assert is_finished(outcome)
    assert outcome.result == {"charge_id": "ch_1", "amount": 1250, "currency": "eur"}
    assert world.payments.calls == [("read_charge", "ch_1")]
    assert world.job(KEY).evidence[-1].reason.endswith("charge ch_1, and Stripe confirms it")
    (verdict,) = world.inspector().search("18452").verdicts
    assert (verdict.certain, verdict.text) == (
        True,
        "charged once, 12.50 EUR on 16 Nov 2026; no refund recorded",
    )


@pytest.mark.parametrize(
    ("order", "payment", "reason"),
    [
        ({"charge_id": "ch_invented"}, {}, "Stripe knows no such charge that took money"),
        ({"charge_id": "../customers/cus_7"}, {}, "Stripe knows no such charge that took money"),
        ({"charge_id": 7}, {}, "Stripe knows no such charge that took money"),
        ({}, {"money": Money(1, "eur")}, "Stripe took 0.01 EUR with it, not 12.50 EUR"),
        ({}, {"money": Money(1250, "usd")}, "Stripe took 12.50 USD with it, not 12.50 EUR"),
        ({}, {"job_key": JobKey("payment.charge:order_9")}, "charge of payment.charge:order_9"),
        ({}, {"deployment": "staging"}, "a charge of the deployment staging"),
    ],
)
def test_charge_that_is_not_the_orders_needs_review(
    world: InMemoryStack, order: dict[str, Any], payment: dict[str, Any], reason: str
) -> None:
    charge(world, **payment)
    world.add_order(**{"status": "paid", "charge_id": "ch_1", **order})

    outcome = world.run(charge_message())

    assert isinstance(outcome, NeedsReview)
    assert "the order's row says it was paid by charge" in outcome.reason
    assert reason in outcome.reason
    assert outcome.reason.endswith("this job charged nothing")
    assert effects(world) == []
    repair_job(world, Repair.MARK_FINISHED, reference="ch_invented")
    assert world.job(KEY).status is Status.NEEDS_REVIEW, "an operator's word confirms nothing"


def test_payment_that_took_nothing_is_no_charge(world: InMemoryStack) -> None:
    world.payments.complete("pi_1", status="processing")
    world.add_order(status="paid", charge_id="ch_2")
    assert isinstance(world.run(charge_message()), NeedsReview)


def test_charge_is_asked_for_again_when_the_provider_is_unreachable(world: InMemoryStack) -> None:
    world.payments.fail_next("list", ProviderFault.TIMEOUT_BEFORE)

    unreachable = world.run(charge_message())

    assert is_retried(unreachable)
    assert (world.job(KEY).status, world.job(KEY).attempts) == (Status.READY, 0)
    assert is_finished(world.run(charge_message()))
    assert effects(world) == []


def test_unreachable_provider_is_asked_until_the_age_limit(world: InMemoryStack) -> None:
    world.payments.fail_next("list", ProviderFault.TIMEOUT_BEFORE)
    world.run(charge_message())
    world.clock.advance(days=30)
    world.payments.fail_next("list", ProviderFault.TIMEOUT_BEFORE)

    outcome = world.run(charge_message())

    assert isinstance(outcome, NeedsReview)
    assert outcome.reason.startswith("the job is older than")


@pytest.fixture
def prepared(world: InMemoryStack) -> InMemoryStack:
    """The job prepared pi_1 and may have confirmed it; then pi_7, made before, paid the order."""
    world.payments.intents["pi_7"] = StripeIntent("pi_7", PAYMENT, "succeeded")
    made_before_oncely(world)
    world.add_order()
    world.payments.fail_next("execute", ProviderFault.SERVER_ERROR_UNSTORED)
    world.run(charge_message())
    world.clock.advance(minutes=10)
    repair_job(world, Repair.LOOK_UP)
    job = world.job(KEY)
    assert (job.status, job.provider_ref) == (Status.READY, "pi_1")
    world.clock.advance(hours=2)
    return world


def test_job_that_prepared_a_payment_is_looked_up_by_the_charge_that_paid_its_order(
    prepared: InMemoryStack,
) -> None:
    (charge_id,) = (one for one in prepared.payments.ids("pi_7") if one.startswith("ch_"))
    prepared.add_order(status="paid", charge_id=charge_id)
    assert is_finished(prepared.run(charge_message()))
    prepared.payments.complete("pi_1", status="canceled")

    outcome = repair_job(prepared, Repair.LOOK_UP)

    assert isinstance(outcome, Repaired)
    assert prepared.job(KEY).status is Status.FINISHED
    assert "Stripe confirms it" in str(outcome.details)


def test_job_that_prepared_a_payment_does_not_claim_that_it_charged_nothing(
    prepared: InMemoryStack,
) -> None:
    prepared.add_order(status="paid", charge_id="ch_invented")

    outcome = prepared.run(charge_message())

    assert isinstance(outcome, NeedsReview)
    assert "charged nothing" not in outcome.reason
    assert outcome.reason.endswith("look up whether this job charged as well")


def test_resubmission_meets_the_charge_of_the_first_attempt(world: InMemoryStack) -> None:
    world.run(charge_message())

    outcome = world.run(charge_message(attempt=2))

    assert is_finished(outcome)
    assert outcome.result["charge_id"] == "ch_1"
    (verdict,) = world.inspector().search("18452").verdicts
    assert not verdict.is_duplicate


def test_order_paid_without_charge_id_is_the_rows_word_alone(world: InMemoryStack) -> None:
    world.add_order(status="paid")

    outcome = world.run(charge_message())

    assert is_finished(outcome)
    assert outcome.result["code"] == UNCONFIRMED
    assert world.payments.calls == []
    assert world.job(KEY).evidence[-1].reason == NO_CHARGE_ID
    view = world.inspector().get(KEY)
    assert view is not None
    assert view.headline == (
        "The order's row says it was paid: 12.50 EUR. No provider confirmed it."
    )
    shown: Any = view.to_json()["timeline"]
    assert shown[-1]["event_label"] == "finished by the word of its business rows"
    (verdict,) = world.inspector().search("18452").verdicts
    assert not verdict.certain
    assert verdict.text == (
        "not certain yet: the order's row says it was paid (12.50 EUR); no provider confirmed it"
    )
    assert verdict.basis.startswith("From our records. The provider has not confirmed all")


def test_lookup_of_a_job_that_found_its_order_paid_asks_for_that_charge(
    world: InMemoryStack,
) -> None:
    world.run(charge_message())

    outcome = repair_job(world, Repair.LOOK_UP)

    assert isinstance(outcome, Repaired)
    assert str(outcome.details).startswith("Stripe lookup: succeeded, ")
    assert world.job(KEY).status is Status.FINISHED


@pytest.mark.parametrize("charge_id", ["invented", "paid"])
def test_braintree_is_asked_for_its_transaction(charge_id: str) -> None:
    world = InMemoryStack(deployment="dev")
    account = BraintreeAccount(now=world.clock.now)
    world.other_payments = {"braintree": account.client}
    world.add_order(payment_provider="braintree")
    if charge_id == "paid":
        assert is_finished(world.run(charge_message()))
        (charge_id,) = account.refs
        world.store.jobs.pop(KEY)
    world.add_order(payment_provider="braintree", status="paid", charge_id=charge_id)

    outcome = world.run(charge_message())

    assert isinstance(outcome, NeedsReview if charge_id == "invented" else Ended)
    assert account.refs == ([] if charge_id == "invented" else [charge_id])
