"""Each field of a payment.charge message: what is valid, and how it is rejected if not."""

import json

import pytest

from oncely.contracts.registry import JobRegistry
from oncely.core.errors import InvalidMessageError
from oncely.jobs.payment_charge import PaymentCharge
from tests.support.in_memory_stack import charge_message

REGISTRY = JobRegistry([PaymentCharge])


def error_text(message: dict[str, object]) -> str:
    with pytest.raises(InvalidMessageError) as caught:
        REGISTRY.parse_body(json.dumps(message))
    return str(caught.value)


@pytest.mark.parametrize(
    ("field", "wrong", "why"),
    [
        ("v", 2, "should be 1"),
        ("v", "1", "should be 1"),
        ("v", None, "should be 1"),
        ("order_id", 18452, "should be a valid string"),
        ("order_id", None, "should be a valid string"),
        ("order_id", "", "at least 1 character"),
        ("order_id", "x" * 129, "at most 128 characters"),
        ("amount", "1250", "should be a valid integer"),
        ("amount", 12.5, "should be a valid integer"),
        ("amount", 1250.0, "should be a valid integer"),
        ("amount", True, "should be a valid integer"),
        ("amount", 0, "greater than 0"),
        ("amount", -1, "greater than 0"),
        ("currency", 978, "should be a valid string"),
        ("currency", "euro", "should match pattern"),
        ("currency", "eur\n", "should match pattern"),
        ("customer_id", 7, "should be a valid string"),
        ("customer_id", "", "at least 1 character"),
        ("attempt", "2", "should be a valid integer"),
        ("attempt", 2.0, "should be a valid integer"),
        ("attempt", None, "should be a valid integer"),
        ("attempt", 0, "greater than or equal to 1"),
        ("attempt", 100, "less than or equal to 99"),
        ("card_number", "4242", "is not a field of this message"),
    ],
)
def test_invalid_field_is_rejected_by_name(field: str, wrong: object, why: str) -> None:
    reason = error_text({**charge_message(), field: wrong})
    assert reason.startswith(f"not a valid payment.charge message: {field} ")
    assert why in reason


@pytest.mark.parametrize("field", ["v", "order_id"])
def test_missing_field_is_rejected_by_name(field: str) -> None:
    message = {name: value for name, value in charge_message().items() if name != field}
    assert error_text(message) == f"not a valid payment.charge message: {field} is missing"


def test_message_without_job_type_is_rejected_with_example() -> None:
    assert '"job": "payment.charge"' in error_text({"v": 1, "order_id": "18452"})


def test_all_faults_of_message_are_reported_at_once() -> None:
    message = charge_message(amount=-1, currency="euro", tip=1)
    del message["v"]
    reason = error_text(message)
    assert all(f" {field} " in reason for field in ("v", "amount", "currency", "tip"))


def test_omitted_fields_stay_out_of_row() -> None:
    job = REGISTRY.parse_body(json.dumps(charge_message(amount=None)))
    assert job.to_dict() == charge_message()


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ({}, "payment.charge:order_18452"),
        ({"attempt": 1}, "payment.charge:order_18452"),
        ({"attempt": 2}, "payment.charge:order_18452:2"),
        ({"amount": 1, "currency": "usd", "customer_id": "7"}, "payment.charge:order_18452"),
    ],
)
def test_job_key_depends_only_on_order_and_attempt(more: dict[str, object], key: str) -> None:
    assert REGISTRY.parse_body(json.dumps({**charge_message(), **more})).job_key() == key
