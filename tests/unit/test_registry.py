"""Any message is accepted, or rejected with a reason. A contract's mistakes are found early."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal

import pytest
from pydantic import field_validator

from oncely.contracts.job import AnyJob
from oncely.contracts.message import MAX_MESSAGE_BYTES, Message
from oncely.contracts.registry import JobRegistry
from oncely.core.errors import InvalidMessageError, InvariantError
from oncely.core.profiles import RetryPolicy, RetrySafety
from oncely.jobs.payment_charge import PaymentCharge
from oncely.jobs.sync_contact import SyncContact
from oncely.providers.stripe.plugin import PROFILE as STRIPE
from tests.support.in_memory_stack import charge_message
from tests.unit.errand_contract import Errand, ErrandMessage
from tests.unit.report_contract import ReportBuild, report_message

REGISTRY = JobRegistry([PaymentCharge])


def test_message_is_parsed_with_its_contract() -> None:
    message = charge_message(amount=1250, currency="EUR")

    contract, parsed = REGISTRY.parse_body(json.dumps(message))

    assert contract is PaymentCharge
    assert parsed == PaymentCharge.model_validate(message)
    assert (contract, parsed) == REGISTRY.parse_mapping(message)


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
    _, taken = registry.parse_body(body)
    assert registry.parse_mapping(taken.to_dict()) == (ReportBuild, taken)


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


@pytest.mark.parametrize(
    ("changes", "mistake"),
    [
        ({"job_type": "charge"}, "job_type 'charge' must have the form"),
        ({"schedule_limit": timedelta(days=-1)}, "schedule_limit must be between 0 and 3650 days"),
        ({"schedule_limit": timedelta.max}, "schedule_limit must be between 0 and 3650 days"),
        (
            {
                "policies": {
                    "stripe": RetryPolicy(
                        safety=RetrySafety.KEYED, profile=replace(STRIPE, key_ttl=None)
                    )
                }
            },
            "a keyed effect needs a key_ttl in the Stripe profile",
        ),
        (
            {
                "policies": {
                    "stripe": RetryPolicy(
                        safety=RetrySafety.LOOKUP, profile=replace(STRIPE, lookup_lag=None)
                    )
                }
            },
            "a lookup effect needs a lookup_lag in the Stripe profile",
        ),
    ],
)
def test_contract_mistake_is_found_by_registry(changes: dict[str, object], mistake: str) -> None:
    wrong: type[AnyJob] = type("WrongCharge", (PaymentCharge,), changes)
    with pytest.raises(InvariantError, match=f"contract WrongCharge: {mistake}"):
        JobRegistry([wrong])


def test_job_type_registered_twice_raises() -> None:
    with pytest.raises(InvariantError, match=r"payment\.charge is registered twice"):
        JobRegistry([PaymentCharge, PaymentCharge])


def test_two_providers_of_one_name_are_refused() -> None:
    (plugin,) = SyncContact.all_providers()
    other = type("OtherHubspot", (type(plugin),), {})()
    resources = replace(ReportBuild.resources, providers=(other,))
    clashing: type[AnyJob] = type("Clashing", (ReportBuild,), {"resources": resources})

    with pytest.raises(InvariantError, match="contract Clashing: OtherHubspot has the name 'hubs"):
        JobRegistry([SyncContact, clashing])

    JobRegistry([clashing])


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


class UntypedMessage(Message):
    """A message without a job type."""

    errand_id: str


class OtherJobMessage(ErrandMessage):
    job: Literal["errand.walk"]  # type: ignore[assignment]  # the mistake


class RejectingMessage(ErrandMessage):
    @field_validator("errand_id")
    @classmethod
    def never(cls, value: str) -> str:
        raise ValueError("an errand is never run twice")


@pytest.mark.parametrize("message", [UntypedMessage, OtherJobMessage])
def test_contract_is_invalid_when_message_names_other_job(message: type[Message]) -> None:
    contract = type("Wrong", (Errand,), {"message": message})
    with pytest.raises(InvariantError, match=r"contract Wrong: the field job of its message"):
        JobRegistry([contract])


def test_custom_validation_error_keeps_its_words() -> None:
    contract = type("PickyErrand", (Errand,), {"message": RejectingMessage})
    body = json.dumps({"job": "errand.run", "v": 1, "errand_id": "secret"})

    with pytest.raises(InvalidMessageError) as caught:
        JobRegistry([contract]).parse_body(body)

    assert str(caught.value) == (
        "not a valid errand.run message: errand_id is invalid: an errand is never run twice"
    )
