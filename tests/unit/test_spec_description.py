"""How a value is compared with a vendor's description."""

import pytest

from tests.specs.description import ApiDescription

DESCRIPTION = ApiDescription(
    operations={},
    objects={"Refund": {"id": "string", "reason?": "string", "charge?": ["#Charge", "string"]}}
    | {"Charge": {"amount": "integer", "kinds?": {"array": {"enum": ["card"]}}}}
    | {"Metadata": {"all": {"map": "string"}, "left?": ["integer", "null"]}},
)


@pytest.mark.parametrize(
    ("type_", "value", "differences"),
    [
        ("#Refund", {"id": "re_1"}, []),
        ("#Refund", {}, ["Refund.id: missing"]),
        ("#Refund", {"id": "re_1", "reason": None}, ["Refund.reason: null"]),
        ("#Refund", {"id": 7, "name": ""}, ["Refund.id: integer", "Refund.name: not described"]),
        ("#Refund", {"id": "re_1", "charge": "ch_1"}, []),
        ("#Refund", {"id": "re_1", "charge": {}}, ["Charge.amount: missing"]),
        ("#Refund", {"id": "re_1", "charge": 7}, ["Refund.charge: integer"]),
        ("#Charge", {"amount": True}, ["Charge.amount: boolean"]),
        ("#Charge", {"amount": 7, "kinds": ["card", "cash"]}, ["Charge.kinds[]: 'cash'"]),
        ("#Charge", {"amount": 7, "kinds": "card"}, ["Charge.kinds: string"]),
        ("#Metadata", {"all": {"a": 7}, "left": None}, ["Metadata.all.*: integer"]),
        ("#Metadata", ["a"], ["it: array"]),
    ],
)
def test_difference_is_found(type_: str, value: object, differences: list[str]) -> None:
    assert list(DESCRIPTION.compare(type_, value, "it")) == differences


@pytest.mark.parametrize(
    ("value", "differences"),
    [
        ({"amount": "7", "kinds": "card"}, []),
        ({"amount": "7.5"}, ["Charge.amount: string"]),
        ({"amount": "", "kinds": ["cash"]}, ["Charge.amount: string", "Charge.kinds[]: 'cash'"]),
    ],
)
def test_form_is_compared_as_text(value: object, differences: list[str]) -> None:
    assert list(DESCRIPTION.compare("#Charge", value, "it", is_text=True)) == differences
