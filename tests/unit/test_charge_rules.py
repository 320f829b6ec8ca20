"""payment.charge: its keys, its second attempts, and what it tells of a charge."""

import pytest

from oncely.contract import EffectCall, Proceed
from oncely.domain.effect_outcomes import Anomalous, NotFound
from oncely.domain.jobs import Job
from oncely.domain.lifecycle import Status
from oncely.jobs.payment_charge import ChargeMessage, Order, PaymentCharge
from oncely.run.outcomes import NeedsReview
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.unit.samples import KEY, make_job


def make_message(attempt: int = 1) -> ChargeMessage:
    return ChargeMessage.model_validate(charge_message(attempt=attempt))


def make_order() -> Order:
    world = InMemoryStack()
    world.add_order()
    standing = PaymentCharge(world.dependencies).precheck(make_message())
    assert isinstance(standing, Proceed)
    return standing.facts


def test_order_maps_to_job_keys_of_all_99_attempts() -> None:
    keys = list(PaymentCharge.keys_for_subject("18452"))

    assert keys[:2] == [KEY, f"{KEY}:2"]
    assert (keys[-1], len(keys)) == (f"{KEY}:99", 99)


@pytest.mark.parametrize(("attempt", "expected"), [(1, 2), (98, 99), (99, None)])
def test_resubmission_counts_up_to_last_attempt(attempt: int, expected: int | None) -> None:
    another = PaymentCharge.resubmission(make_message(attempt=attempt))

    assert (another.attempt if another else None) == expected


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (
            make_job(amount=1250, currency="eur", result={"charge_id": "ch_1"}),
            "Charged once: 12.50 EUR (ch_1).",
        ),
        (
            make_job(amount=1250, currency="eur", result={"amount": 1, "currency": "usd"}),
            "Charged once: 12.50 EUR (no charge id is known).",
        ),
        (
            make_job(result={"amount": 1250, "currency": "eur", "reference": "ch_2"}),
            "Charged once: 12.50 EUR (ch_2).",
        ),
        (make_job(result=None), "Charged once: the order's amount (no charge id is known)."),
    ],
)
def test_success_summary_names_amount_and_charge_id(job: Job, words: str) -> None:
    assert PaymentCharge.success_summary(job) == words


def test_claim_saves_provider_account_as_key_scope() -> None:
    world = InMemoryStack()
    world.add_order()

    world.run(charge_message())

    assert world.job(KEY).key_scope == world.payments.account


def test_charge_is_proved_absent_without_saved_payment() -> None:
    contract = PaymentCharge(InMemoryStack().dependencies)
    call = EffectCall(job=make_job(provider_ref=None), facts=make_order())

    asked, acted = contract.lookup(call), contract.execute(call)

    assert isinstance(asked, NotFound)
    assert asked.conclusive
    assert isinstance(acted, Anomalous)


@pytest.mark.parametrize("name", ["customer_id", "payment_customer", "payment_method"])
@pytest.mark.parametrize("value", ["", None, 7])
def test_order_without_payment_details_needs_review(name: str, value: object) -> None:
    world = InMemoryStack()
    world.add_order("18452", **{name: value})

    outcome = world.run(charge_message())

    assert isinstance(outcome, NeedsReview)
    assert outcome.reason.endswith(f"{name} is missing")
    assert world.payments.calls == []


def test_order_is_paid_without_charge_id_when_none_is_known() -> None:
    order = make_order()
    contract = PaymentCharge(InMemoryStack().dependencies)

    (unnamed,) = contract.on_success(order, make_job(status=Status.FINISHED, result=None))
    (named,) = contract.on_success(order, make_job(result={"charge_id": "ch_1"}))

    assert unnamed.set == {"status": "paid"}
    assert named.set == {"status": "paid", "charge_id": "ch_1"}
