"""Any message is accepted, or rejected with a reason. Names that clash are found early."""

import json
from typing import Any

import pytest
from pydantic import field_validator

from oncely.contracts.message import MAX_MESSAGE_BYTES
from oncely.contracts.registry import JobRegistry
from oncely.core.errors import InvalidMessageError, InvariantError
from oncely.jobs.payment_charge import PaymentCharge
from oncely.jobs.sync_contact import SyncContact
from tests.support.in_memory_stack import charge_message
from tests.unit.errand_job import Errand
from tests.unit.report_job import ReportBuild, report_message

REGISTRY = JobRegistry([PaymentCharge])


def test_message_is_parsed_with_its_contract() -> None:
    message = charge_message(amount=1250, currency="EUR")

    charge = PaymentCharge(order_id="18452", amount=1250, currency="eur")
    assert REGISTRY.parse_body(json.dumps(message)) == charge
    assert REGISTRY.parse_mapping(message) == charge


def test_queue_carries_only_its_own_job_types() -> None:
    both = JobRegistry([PaymentCharge, ReportBuild])
    assert [*both.for_queue("reports")] == [ReportBuild]
    assert [*both.for_queue("payments")] == [PaymentCharge]
    assert [*both.for_queue("other")] == []


def test_unknown_job_type_is_invalid_and_lists_known_types() -> None:
    expected = r"unknown job type 'report.build'; known job types: payment"
    with pytest.raises(InvalidMessageError, match=expected):
        REGISTRY.parse_body('{"job": "report.build"}')


@pytest.mark.parametrize("body", ["", "{", "nonsense", "\ufeff{}", "[" * 60_000])
def test_body_is_invalid_when_not_json(body: str) -> None:
    with pytest.raises(InvalidMessageError, match="the message is not JSON: "):
        REGISTRY.parse_body(body)


@pytest.mark.parametrize("body", ["null", "1", "[]", '"text"', "{}", '{"job": 1}'])
def test_json_without_job_is_invalid_with_example(body: str) -> None:
    with pytest.raises(InvalidMessageError, match='is not a JSON object with a "job", such as'):
        REGISTRY.parse_body(body)


def test_repeated_name_is_invalid_at_any_depth() -> None:
    for body in ('{"job": "payment.charge", "job": "x"}', '{"job": "x", "a": [{"b": 1, "b": 1}]}'):
        with pytest.raises(InvalidMessageError, match="an object has a duplicate name"):
            REGISTRY.parse_body(body)


def test_message_is_valid_up_to_size_limit() -> None:
    registry = JobRegistry([ReportBuild])
    longest = "x" * (MAX_MESSAGE_BYTES - len(json.dumps(report_message("t", text=""))))

    registry.parse_body(json.dumps(report_message("t", text=longest)))

    with pytest.raises(InvalidMessageError, match="65537 bytes, 65536 are allowed"):
        registry.parse_body(json.dumps(report_message("t", text=longest + "x")))


def test_parsed_message_can_be_read_from_its_row() -> None:
    registry = JobRegistry([ReportBuild])
    body = json.dumps(report_message("t", text="é" * 20_000), ensure_ascii=False)
    taken = registry.parse_body(body)
    assert registry.parse_mapping(taken.to_dict()) == taken


@pytest.mark.parametrize("value", [{1, 2}, object(), float("nan"), float("inf"), b"bytes"])
def test_mapping_is_invalid_when_not_json(value: object) -> None:
    with pytest.raises(InvalidMessageError, match="cannot be encoded as a JSON object"):
        REGISTRY.parse_mapping(charge_message(amount=value))


def test_mapping_is_invalid_when_nested_too_deeply() -> None:
    deep: dict[str, object] = {}
    for _ in range(100_000):
        deep = {"deeper": deep}

    with pytest.raises(InvalidMessageError, match="cannot be encoded as a JSON object"):
        REGISTRY.parse_mapping(charge_message(more=deep))


@pytest.mark.parametrize("message", [json.dumps(charge_message()), [charge_message()], None])
def test_non_mapping_is_invalid_and_names_its_type(message: Any) -> None:  # noqa: ANN401  # the wrong type on purpose
    with pytest.raises(InvalidMessageError, match=f"the message, a {type(message).__name__}, "):
        REGISTRY.parse_mapping(message)


def test_job_type_registered_twice_raises() -> None:
    with pytest.raises(InvariantError, match=r"payment\.charge is registered twice"):
        JobRegistry([PaymentCharge, PaymentCharge])


@pytest.mark.parametrize("class_name", ["HubSpotPlugin", "OtherHubspot"])
def test_two_providers_of_one_name_are_refused(class_name: str) -> None:
    (plugin,) = SyncContact.all_providers()
    same = type(plugin)
    other = same() if class_name == same.__name__ else type(class_name, (same,), {})()

    class Clashing(ReportBuild):
        provider = other

    with pytest.raises(InvariantError, match=f"job Clashing: {class_name} has the name 'hubs"):
        JobRegistry([SyncContact, Clashing])


@pytest.mark.parametrize("number", ["1e999", "-1E+400"])
def test_overflowing_number_is_invalid(number: str) -> None:
    record = '{"id": "1", "updatedAt": "2026-11-16T03:00:00Z", "properties": {"x": ' + number + "}}"
    ids = '"source": "hubspot", "source_id": "1", "event_id": "e"'
    body = '{"job": "sync.contact", "v": 1, ' + ids + ', "record": ' + record + "}"

    with pytest.raises(InvalidMessageError, match="is too large"):
        JobRegistry([SyncContact]).parse_body(body)


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_non_json_constant_is_invalid(constant: str) -> None:
    body = '{"job": "payment.charge", "v": 1, "order_id": "1", "amount": ' + constant + "}"
    with pytest.raises(InvalidMessageError, match="is not JSON"):
        JobRegistry([PaymentCharge]).parse_body(body)


class PickyErrand(Errand):
    @field_validator("errand_id")
    @classmethod
    def never(cls, value: str) -> str:
        raise ValueError("an errand is never run twice")


def test_custom_validation_error_keeps_its_words() -> None:
    body = json.dumps({"job": "errand.run", "v": 1, "errand_id": "secret"})

    with pytest.raises(InvalidMessageError) as caught:
        JobRegistry([PickyErrand]).parse_body(body)

    assert str(caught.value) == (
        "not a valid errand.run message: errand_id is invalid: an errand is never run twice"
    )
