"""Any message is taken whole or refused with a sentence; a contract's mistakes are found early."""

import json
from dataclasses import replace
from typing import Any

import pytest

from oncely.contract import MAX_MESSAGE_BYTES, AnyContract
from oncely.contracts.payment_charge import ChargeMessage, PaymentCharge
from oncely.contracts.sync_contact import SyncContact
from oncely.domain.errors import InvalidMessageError, InvariantError
from oncely.domain.profiles import STRIPE, Safety, Terms
from oncely.registry import Registry
from tests.support.world import charge
from tests.unit.report_contract import ReportBuild, report

REGISTRY = Registry([PaymentCharge])


def test_a_message_finds_its_contract() -> None:
    contract, message = REGISTRY.parse(json.dumps(charge(amount=1250, currency="EUR")))

    assert contract is PaymentCharge
    assert message == ChargeMessage(
        job="payment.charge", v=1, order_id="18452", amount=1250, currency="EUR"
    )


def test_a_queue_carries_only_its_own_job_types() -> None:
    both = Registry([PaymentCharge, ReportBuild])

    assert [*both.of_queue("reports")] == [ReportBuild]
    assert [*both.of_queue("payments")] == [PaymentCharge]
    assert [*both.of_queue("other")] == []


def test_an_unknown_job_is_refused_with_the_ones_that_are_known_here() -> None:
    with pytest.raises(
        InvalidMessageError, match=r"unknown job 'report.build'; known here: payment"
    ):
        REGISTRY.parse('{"job": "report.build"}')


@pytest.mark.parametrize("body", ["", "{", "nonsense", "\ufeff{}", "[" * 60_000])
def test_what_is_no_json_is_refused_as_such(body: str) -> None:
    with pytest.raises(InvalidMessageError, match="the message is not JSON: "):
        REGISTRY.parse(body)


@pytest.mark.parametrize("body", ["null", "1", "[]", '"text"', "{}", '{"job": 1}'])
def test_json_that_names_no_job_is_refused_with_an_example(body: str) -> None:
    with pytest.raises(InvalidMessageError, match='no JSON object with a "job", such as'):
        REGISTRY.parse(body)


def test_a_name_that_stands_twice_is_refused_wherever_it_stands() -> None:
    for body in ('{"job": "payment.charge", "job": "x"}', '{"job": "x", "a": [{"b": 1, "b": 1}]}'):
        with pytest.raises(InvalidMessageError, match="a name stands twice"):
            REGISTRY.parse(body)


def test_a_message_may_be_just_as_long_as_is_allowed() -> None:
    registry = Registry([ReportBuild])
    frame = len(json.dumps(report("t", text="")))
    longest = "x" * (MAX_MESSAGE_BYTES - frame)

    registry.parse(json.dumps(report("t", text=longest)))

    with pytest.raises(InvalidMessageError, match="65537 bytes, 65536 are allowed"):
        registry.parse(json.dumps(report("t", text=longest + "x")))


def test_a_message_that_was_taken_once_is_taken_again_from_its_row() -> None:
    registry = Registry([ReportBuild])
    body = json.dumps(report("t", text="é" * 20_000), ensure_ascii=False)

    _, taken = registry.parse(body)

    assert registry.read(taken.as_json()) == (ReportBuild, taken)


def test_a_message_in_a_row_is_read_like_one_from_the_queue() -> None:
    message = charge(amount=1250)

    assert REGISTRY.read(message) == REGISTRY.parse(json.dumps(message))


@pytest.mark.parametrize("value", [{1, 2}, object(), float("nan"), float("inf"), b"bytes"])
def test_a_mapping_that_is_no_json_is_refused_as_such(value: object) -> None:
    with pytest.raises(InvalidMessageError, match="cannot be written as a JSON object"):
        REGISTRY.read(charge(amount=value))


def test_a_mapping_without_end_is_refused_as_such() -> None:
    deep: dict[str, object] = {}
    for _ in range(100_000):
        deep = {"deeper": deep}

    with pytest.raises(InvalidMessageError, match="cannot be written as a JSON object"):
        REGISTRY.read(charge(more=deep))


@pytest.mark.parametrize("message", [json.dumps(charge()), [charge()], None])
def test_what_is_no_mapping_is_refused_by_what_it_is(message: Any) -> None:  # noqa: ANN401  # the wrong type on purpose
    with pytest.raises(InvalidMessageError, match=f"the message, a {type(message).__name__}, "):
        REGISTRY.read(message)


@pytest.mark.parametrize(
    ("changes", "mistake"),
    [
        ({"job_type": "charge"}, "job_type 'charge' is not written like"),
        (
            {"terms": Terms(safety=Safety.KEYED, profile=replace(STRIPE, key_window=None))},
            "a keyed effect needs a key_window in the Stripe profile",
        ),
        (
            {"terms": Terms(safety=Safety.LOOKUP, profile=replace(STRIPE, lookup_lag=None))},
            "a lookup effect needs a lookup_lag in the Stripe profile",
        ),
    ],
)
def test_a_mistake_in_a_contract_is_found_when_the_registry_is_made(
    changes: dict[str, object], mistake: str
) -> None:
    wrong: type[AnyContract] = type("WrongCharge", (PaymentCharge,), changes)

    with pytest.raises(InvariantError, match=f"contract WrongCharge: {mistake}"):
        Registry([wrong])


def test_two_contracts_of_one_job_type_are_a_mistake() -> None:
    with pytest.raises(InvariantError, match=r"payment\.charge is registered twice"):
        Registry([PaymentCharge, PaymentCharge])


@pytest.mark.parametrize("number", ["1e999", "-1E+400"])
def test_a_number_that_a_row_would_keep_as_nothing_is_refused(number: str) -> None:
    record = '{"id": "1", "updatedAt": "2026-11-16T03:00:00Z", "properties": {"x": ' + number + "}}"
    ids = '"source": "hubspot", "source_id": "1", "event_id": "e"'
    body = '{"job": "sync.contact", "v": 1, ' + ids + ', "record": ' + record + "}"

    with pytest.raises(InvalidMessageError, match="is too large"):
        Registry([SyncContact]).parse(body)


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_a_constant_that_is_not_json_is_refused(constant: str) -> None:
    body = '{"job": "payment.charge", "v": 1, "order_id": "1", "amount": ' + constant + "}"

    with pytest.raises(InvalidMessageError, match="is not JSON"):
        Registry([PaymentCharge]).parse(body)
