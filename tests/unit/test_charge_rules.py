"""payment.charge: its keys, its second attempts, and what it tells of a charge."""

import pytest

from oncely.contract import Call, Proceed
from oncely.contracts.payment_charge import ChargeMessage, Order, PaymentCharge
from oncely.domain.answers import Absent, Odd
from oncely.domain.jobs import Job
from oncely.domain.lifecycle import Status
from oncely.services.outcomes import NeedsReview
from tests.support.world import World, charge
from tests.unit.samples import KEY, a_job


def message(attempt: int = 1) -> ChargeMessage:
    return ChargeMessage.model_validate(charge(attempt=attempt))


def an_order() -> Order:
    world = World()
    world.add_order()
    standing = PaymentCharge(world.tools).check(message())
    assert isinstance(standing, Proceed)
    return standing.facts


def test_order_maps_to_job_keys_of_all_99_attempts() -> None:
    keys = list(PaymentCharge.keys_of("18452"))

    assert keys[:2] == [KEY, f"{KEY}:2"]
    assert (keys[-1], len(keys)) == (f"{KEY}:99", 99)


@pytest.mark.parametrize(("attempt", "expected"), [(1, 2), (98, 99), (99, None)])
def test_resubmission_counts_up_to_last_attempt(attempt: int, expected: int | None) -> None:
    another = PaymentCharge.another_attempt(message(attempt=attempt))

    assert (another.attempt if another else None) == expected


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (
            a_job(amount=1250, currency="eur", result={"charge_id": "ch_1"}),
            "Charged once: 12.50 EUR (ch_1).",
        ),
        (
            a_job(amount=1250, currency="eur", result={"amount": 1, "currency": "usd"}),
            "Charged once: 12.50 EUR (no charge id is known).",
        ),
        (
            a_job(result={"amount": 1250, "currency": "eur", "reference": "ch_2"}),
            "Charged once: 12.50 EUR (ch_2).",
        ),
        (a_job(result=None), "Charged once: the order's amount (no charge id is known)."),
    ],
)
def test_success_summary_names_amount_and_charge_id(job: Job, words: str) -> None:
    assert PaymentCharge.done_words(job) == words


def test_claim_saves_provider_account_as_key_scope() -> None:
    world = World()
    world.add_order()

    world.run(charge())

    assert world.job(KEY).key_scope == world.payments.account


def test_charge_is_proved_absent_without_saved_payment() -> None:
    contract = PaymentCharge(World().tools)
    call = Call(job=a_job(provider_ref=None), facts=an_order())

    asked, acted = contract.ask(call), contract.act(call)

    assert isinstance(asked, Absent)
    assert asked.proved
    assert isinstance(acted, Odd)


@pytest.mark.parametrize("name", ["customer_id", "payment_customer", "payment_method"])
@pytest.mark.parametrize("value", ["", None, 7])
def test_order_without_payment_details_needs_review(name: str, value: object) -> None:
    world = World()
    world.add_order("18452", **{name: value})

    outcome = world.run(charge())

    assert isinstance(outcome, NeedsReview)
    assert outcome.reason.endswith(f"{name} is missing")
    assert world.payments.calls == []


def test_order_is_paid_without_charge_id_when_none_is_known() -> None:
    order = an_order()
    contract = PaymentCharge(World().tools)

    (unnamed,) = contract.on_success(order, a_job(status=Status.FINISHED, result=None))
    (named,) = contract.on_success(order, a_job(result={"charge_id": "ch_1"}))

    assert unnamed.set == {"status": "paid"}
    assert named.set == {"status": "paid", "charge_id": "ch_1"}
