"""The registry: a mistake of a contract's author, and a fault that pydantic has no words for."""

import json
from typing import Literal

import pytest
from pydantic import field_validator

from oncely.contract import Message
from oncely.domain.errors import InvalidMessageError, InvariantError
from oncely.registry import ContractRegistry
from tests.unit.errand_contract import Errand, ErrandMessage


class UntypedMessage(Message):
    """A message that does not say which job it asks for."""

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
        ContractRegistry([contract])


def test_custom_validation_error_keeps_its_words() -> None:
    contract = type("PickyErrand", (Errand,), {"message": RejectingMessage})
    body = json.dumps({"job": "errand.run", "v": 1, "errand_id": "secret"})

    with pytest.raises(InvalidMessageError) as caught:
        ContractRegistry([contract]).parse_body(body)

    assert str(caught.value) == (
        "not a valid errand.run message: errand_id is invalid: an errand is never run twice"
    )
