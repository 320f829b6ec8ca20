"""Whatever a queue delivers is taken or refused with a sentence that is safe to print."""

import json

from hypothesis import given
from hypothesis import strategies as st

from oncely.domain.errors import InvalidMessageError
from oncely.jobs.payment_charge import PaymentCharge
from oncely.registry import ContractRegistry
from tests.support.in_memory_stack import charge_message

REGISTRY = ContractRegistry([PaymentCharge])
FIELDS = ("v", "order_id", "amount", "currency", "customer_id", "attempt", "something_else")
# What a log or a reason must never repeat.
SECRET = "4242-s3cr3t"

ANY_TEXT = st.text(st.characters(exclude_categories=()))
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner),
    max_leaves=10,
)


def error_text(body: str) -> str:
    """The reason that a message is refused with; empty when it is taken."""
    try:
        REGISTRY.parse_body(body)
    except InvalidMessageError as error:
        return str(error)
    return ""


@given(body=ANY_TEXT)
def test_any_text_gets_printable_reject_reason(body: str) -> None:
    assert error_text(body).isprintable()


@given(value=ANY_JSON, ascii_only=st.booleans())
def test_any_json_gets_printable_reject_reason(value: object, *, ascii_only: bool) -> None:
    assert error_text(json.dumps(value, ensure_ascii=ascii_only)).isprintable()


@given(
    more=st.dictionaries(ANY_TEXT.filter(lambda name: name not in FIELDS), ANY_JSON, max_size=2),
    ascii_only=st.booleans(),
)
def test_any_extra_field_is_rejected_with_printable_reason(
    more: dict[str, object], *, ascii_only: bool
) -> None:
    body = json.dumps({**charge_message(), **more}, ensure_ascii=ascii_only)

    reason = error_text(body)

    assert reason.isprintable()
    assert bool(reason) is bool(more)


@given(name=st.sampled_from(FIELDS), value=ANY_JSON)
def test_any_field_value_is_accepted_or_rejected_by_field_name(name: str, value: object) -> None:
    reason = error_text(json.dumps({**charge_message(), name: value}))

    assert reason.isprintable()
    # Of a document that cannot be read or stored, only that is said.
    unusable = ("Invalid JSON", "is not JSON", "be stored")
    assert not reason or name in reason or any(words in reason for words in unusable)


@given(name=st.sampled_from(FIELDS), before=ANY_TEXT, after=ANY_TEXT)
def test_reject_reason_never_repeats_invalid_value(name: str, before: str, after: str) -> None:
    too_long = f"{before}{SECRET}{after}".ljust(200, "x")
    wrong: tuple[object, ...] = (too_long, [SECRET], {"card": SECRET})

    for value in wrong:
        reason = error_text(json.dumps({**charge_message(), name: value}))

        assert reason
        assert SECRET not in reason


@given(depth=st.integers(1, 30_000), opening=st.sampled_from(["[", '{"a":']))
def test_any_nesting_depth_gets_printable_reject_reason(depth: int, opening: str) -> None:
    closing = "]" if opening == "[" else "}"
    nested = opening * depth + "1" + closing * depth

    assert error_text(nested).isprintable()
    assert error_text(f'{{"job":"payment.charge","v":1,"order_id":"1","x":{nested}}}')


@given(digits=st.integers(1, 60_000))
def test_any_number_of_digits_gets_printable_reject_reason(digits: int) -> None:
    body = f'{{"job":"payment.charge","v":1,"order_id":"1","amount":{"9" * digits}}}'

    assert error_text(body).isprintable()


def test_lone_surrogate_is_rejected_in_any_spelling() -> None:
    for half in ("\ud800", "\\ud800", "\udfff\ud800"):
        assert error_text(f'{{"job":"payment.charge","v":1,"order_id":"{half}"}}')
        assert error_text(f'{{"job":"{half}"}}').isprintable()


def test_oversized_message_is_rejected_with_its_size() -> None:
    assert error_text("x" * 200_000) == "the message has 200000 bytes, 65536 are allowed"
