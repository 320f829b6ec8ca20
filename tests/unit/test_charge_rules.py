"""payment.charge: its keys, its resubmissions and its summaries."""

import pytest

from oncely.core.effect_outcomes import Anomalous, NotFound
from oncely.core.job_row import JobRow
from oncely.core.job_type import Proceed
from oncely.core.outcomes import NeedsReview
from oncely.jobs.payment_charge import Order, PaymentCharge
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.unit.samples import KEY, make_job

EUR = {"amount": 1250, "currency": "eur"}


def make_charge(world: InMemoryStack) -> PaymentCharge:
    return PaymentCharge(order_id="18452").with_tools(world.tools)


def make_order() -> Order:
    world = InMemoryStack()
    world.add_order()
    standing = make_charge(world).precheck()
    assert isinstance(standing, Proceed)
    return standing.facts


def test_order_maps_to_job_keys_of_all_99_attempts() -> None:
    keys = list(PaymentCharge.keys_for_subject("18452"))
    assert keys[:2] == [KEY, f"{KEY}:2"]
    assert (keys[-1], len(keys)) == (f"{KEY}:99", 99)


@pytest.mark.parametrize(("attempt", "expected"), [(1, 2), (98, 99), (99, None)])
def test_resubmission_counts_up_to_last_attempt(attempt: int, expected: int | None) -> None:
    new = PaymentCharge(order_id="18452", attempt=attempt).resubmission()
    assert (new.attempt if new else None) == expected


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (make_job(**EUR, result={"charge_id": "ch_1"}), "12.50 EUR (ch_1)."),
        (
            make_job(**EUR, result={"amount": 1, "currency": "usd"}),
            "12.50 EUR (charge id unknown).",
        ),
        (make_job(result={**EUR, "charge_id": "ch_2"}), "12.50 EUR (ch_2)."),
        (make_job(result=None), "the order's amount (charge id unknown)."),
    ],
)
def test_success_summary_names_amount_and_charge_id(job: JobRow, words: str) -> None:
    assert PaymentCharge.success_summary(job) == f"Charged once: {words}"


def test_claim_saves_provider_account_as_key_scope(world: InMemoryStack) -> None:
    world.run(charge_message())
    assert world.job(KEY).key_scope == world.payments.key_scope()


def test_charge_is_proved_absent_without_saved_payment() -> None:
    charge = make_charge(InMemoryStack())
    call = charge.new_call(make_job(provider_ref=None), make_order())

    lookup = charge.lookup(call)

    assert isinstance(lookup, NotFound)
    assert lookup.conclusive
    assert isinstance(charge.execute(call), Anomalous)


@pytest.mark.parametrize("name", ["customer_id", "payment_customer", "payment_method"])
@pytest.mark.parametrize("value", ["", None, 7])
def test_order_without_payment_details_needs_review(name: str, value: object) -> None:
    world = InMemoryStack()
    world.add_order(**{name: value})  # type: ignore[arg-type]  # a field by name

    outcome = world.run(charge_message())

    assert isinstance(outcome, NeedsReview)
    assert outcome.reason.endswith(f"{name} is missing")
    assert world.payments.calls == []


def test_order_is_paid_without_charge_id_when_none_is_known() -> None:
    charge = make_charge(InMemoryStack())
    for known in ({}, {"charge_id": "ch_1"}):
        call = charge.new_call(make_job(result=known or None), make_order())
        (write,) = charge.on_success(call)
        assert write.set == {"status": "paid", **known}
