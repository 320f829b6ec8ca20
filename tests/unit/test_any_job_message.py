"""Every job that ships: whatever is sent to it is refused in words, or means the same for ever."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncely.contract import AnyContract, Message, encode_message
from oncely.domain.errors import InvalidInputError
from oncely.domain.keys import MAX_KEY_LENGTH
from oncely.jobs import CONTRACTS
from oncely.registry import ContractRegistry

REGISTRY = ContractRegistry(CONTRACTS)
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
ANYTHING = st.one_of(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    st.lists(ANY_TEXT, max_size=2),
    st.dictionaries(ANY_TEXT, ANY_TEXT, max_size=2),
)
IDS = st.text("aZ1:%~#/. é", min_size=1, max_size=8).filter(str.strip)
# What a producer might say, by field; every other field is an id.
LIKELY = {
    "amount": st.integers(1, 10**6),
    "attempt": st.integers(1, 99),
    "currency": st.sampled_from(["eur", "EUR", "Usd"]),
    "record": st.dictionaries(st.sampled_from(["id", "updatedAt", "properties"]), ANYTHING),
    "source": st.just("hubspot"),
    "target": st.just("hubspot"),
    "updated_since": st.sampled_from(["2026-11-16T03:00:00Z", "2026-11-16T03:00:00.5+02:00"]),
    "v": st.just(1),
    "version": st.integers(1, 10**6),
}


@st.composite
def messages(draw: st.DrawFn) -> dict[str, Any]:
    """A contract's shortest message, with any values in any of its fields."""
    contract = draw(st.sampled_from(CONTRACTS))
    fields = sorted(contract.message.model_fields.keys() - {"job"})
    said = {name: draw(LIKELY.get(name, IDS)) for name in fields if draw(st.booleans())}
    odd = draw(st.dictionaries(st.sampled_from(fields), ANYTHING, max_size=1))
    return {**contract.example.to_dict(), **said, **(odd if draw(st.booleans()) else {})}


def parse_body(body: str) -> tuple[type[AnyContract], Message] | str:
    """What a worker makes of it: a job, or the reason that it is refused with."""
    try:
        contract, message = REGISTRY.parse_body(body)
        contract.key(message)
    except InvalidInputError as error:
        return str(error)
    return contract, message


@given(body=st.binary(max_size=200))
def test_any_bytes_are_rejected_with_printable_reason(body: bytes) -> None:
    for text in (body.decode(errors="surrogateescape"), body.decode("latin-1")):
        reason = parse_body(text)
        assert isinstance(reason, str)
        assert reason.isprintable()


@pytest.mark.parametrize(
    ("contract", "name"),
    [(kind, name) for kind in CONTRACTS for name in sorted(kind.message.model_fields)],
)
def test_reject_reason_never_repeats_invalid_value(contract: type[AnyContract], name: str) -> None:
    secret = "4242-s3cr3t"
    wrong = (secret * 20, [secret], {"card": secret}, {"id": "4419", "updatedAt": secret})

    for value in wrong:
        reason = parse_body(json.dumps({**contract.example.to_dict(), name: value}))
        assert isinstance(reason, str)
        # Which job it would be must be said; it is cut short.
        assert secret not in reason or name == "job"


@given(message=messages())
def test_accepted_message_has_valid_job_key(message: dict[str, Any]) -> None:
    found = parse_body(json.dumps(message))

    if isinstance(found, str):
        assert found.isprintable()
    else:
        contract, taken = found
        key = contract.key(taken)
        assert key.isascii()
        assert key.isprintable()
        assert len(key) <= MAX_KEY_LENGTH
        assert key.startswith(f"{contract.job_type}:")


@given(message=messages())
def test_accepted_message_is_unchanged_when_resent_from_row(message: dict[str, Any]) -> None:
    found = parse_body(json.dumps(message))

    if not isinstance(found, str):
        assert parse_body(encode_message(found[1].to_dict())) == found


@given(message=messages(), ascii_only=st.booleans(), spaces=st.booleans())
def test_json_spelling_does_not_change_job(
    message: dict[str, Any], *, ascii_only: bool, spaces: bool
) -> None:
    spelled = json.dumps(
        dict(reversed(message.items())), ensure_ascii=ascii_only, indent=3 if spaces else None
    )

    one, other = parse_body(spelled), parse_body(json.dumps(message))
    assert one == other or (isinstance(one, str) and isinstance(other, str))
