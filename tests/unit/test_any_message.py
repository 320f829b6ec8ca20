"""Any bytes from a queue: accepted with a stable meaning, or rejected once with a reason."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncely.contracts.job import AnyJob
from oncely.contracts.message import encode_message
from oncely.contracts.registry import JobRegistry
from oncely.core.errors import InvalidInputError, InvalidMessageError
from oncely.core.keys import MAX_KEY_LENGTH, JobKey
from oncely.core.row_items import serialize
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.jobs.sync_contact import SyncContact
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_invalid
from tests.support.worker import BatchHarness, make_delivery

REGISTRY = JobRegistry(SHIPPED_JOBS)
FIELDS = ("v", "order_id", "amount", "currency", "customer_id", "attempt", "something_else")
# What a log or a reason must never contain.
SECRET = "4242-s3cr3t"

ANY_TEXT = st.text(st.characters(exclude_categories=()))
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner),
    max_leaves=10,
)
SHORT_TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
ANYTHING = st.one_of(
    st.none() | st.booleans() | st.integers() | st.floats() | SHORT_TEXT,
    st.lists(SHORT_TEXT, max_size=2),
    st.dictionaries(SHORT_TEXT, SHORT_TEXT, max_size=2),
)
IDS = st.text("aZ1:%~#/. é", min_size=1, max_size=8).filter(str.strip)
# Likely values by field; every other field is an id.
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


def error_text(body: str) -> str:
    """The reason for a reject; empty if the message is accepted."""
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
    reason = error_text(json.dumps({**charge_message(), **more}, ensure_ascii=ascii_only))
    assert reason.isprintable()
    assert bool(reason) is bool(more)


@given(name=st.sampled_from(FIELDS), value=ANY_JSON)
def test_any_field_value_is_accepted_or_rejected_by_field_name(name: str, value: object) -> None:
    reason = error_text(json.dumps({**charge_message(), name: value}))

    assert reason.isprintable()
    # The reason for a document that cannot be read or stored names no field.
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


@st.composite
def messages(draw: st.DrawFn) -> dict[str, Any]:
    contract = draw(st.sampled_from(SHIPPED_JOBS))
    fields = sorted(contract.model_fields.keys() - {"job"})
    likely = {name: draw(LIKELY.get(name, IDS)) for name in fields if draw(st.booleans())}
    odd = draw(st.dictionaries(st.sampled_from(fields), ANYTHING, max_size=1))
    return {**contract.example_message(), **likely, **(odd if draw(st.booleans()) else {})}


def parse_body(body: str) -> AnyJob | str:
    """Parse as a worker does. Returns the reason if it is rejected."""
    try:
        job = REGISTRY.parse_body(body)
        job.job_key()
    except InvalidInputError as error:
        return str(error)
    return job


@given(body=st.binary(max_size=200))
def test_any_bytes_are_rejected_with_printable_reason(body: bytes) -> None:
    for text in (body.decode(errors="surrogateescape"), body.decode("latin-1")):
        reason = parse_body(text)
        assert isinstance(reason, str)
        assert reason.isprintable()


@pytest.mark.parametrize(
    ("contract", "name"),
    [(one, name) for one in SHIPPED_JOBS for name in sorted(one.model_fields)],
)
def test_reject_reason_of_no_contract_repeats_value(contract: type[AnyJob], name: str) -> None:
    for value in (SECRET * 20, [SECRET], {"card": SECRET}):
        reason = parse_body(json.dumps({**contract.example_message(), name: value}))
        if name == "record" and isinstance(value, dict):
            continue  # ignored, and so accepted
        assert isinstance(reason, str)
        # The reason names the job type, cut short.
        assert SECRET not in reason or name == "job"


@given(message=messages())
def test_accepted_message_has_valid_job_key(message: dict[str, Any]) -> None:
    found = parse_body(json.dumps(message))

    if isinstance(found, str):
        assert found.isprintable()
    else:
        key = found.job_key()
        assert key.isascii()
        assert key.isprintable()
        assert len(key) <= MAX_KEY_LENGTH
        assert key.startswith(f"{found.job_type}:")


@given(message=messages())
def test_accepted_message_is_unchanged_when_resent_from_row(message: dict[str, Any]) -> None:
    found = parse_body(json.dumps(message))
    if not isinstance(found, str):
        sent = found.to_sent_dict()
        resent = REGISTRY.parse_body(encode_message(sent))
        assert (resent.to_sent_dict(), resent.job_key()) == (sent, found.job_key())


@given(message=messages(), ascii_only=st.booleans(), spaces=st.booleans())
def test_json_spelling_does_not_change_job(
    message: dict[str, Any], *, ascii_only: bool, spaces: bool
) -> None:
    spelled = json.dumps(
        dict(reversed(message.items())), ensure_ascii=ascii_only, indent=3 if spaces else None
    )

    one, other = parse_body(spelled), parse_body(json.dumps(message))
    assert one == other or (isinstance(one, str) and isinstance(other, str))


KEY = JobKey("sync.contact:hubspot:4419:evt-1")
VALUE = "<value>"
MAX_DEPTH = 32
RECORD_DEPTH = 3  # the message, its record, and the record's properties


def contact_body(value: str) -> str:
    record = {"id": "4419", "updatedAt": "2026-11-16T03:00:00Z", "properties": {"score": VALUE}}
    source = {"source": "hubspot", "source_id": "4419", "event_id": "evt-1"}
    message = {"job": "sync.contact", "v": 1, **source, "record": record}
    return json.dumps(message).replace(f'"{VALUE}"', value)


def nest_value(levels: int, *, opening: str = "[", closing: str = "]") -> str:
    return opening * levels + "1" + closing * levels


def abbreviate(value: object) -> str:
    text = str(value)
    return text if len(text) <= 12 else f"{text[:12]}…{len(text)}"


AS_FLOAT_1E126 = "9.99999999999999999999e125"
TOO_LARGE = ["1e300", "-1e300", "1e126", "1" + "0" * 126, "1" * 5000, "1e999", AS_FLOAT_1E126]
TOO_LARGE += ["1e999999999999999999999"]
TOO_SMALL = ["1e-200", "-1e-131", "9.9e-131", "0." + "0" * 130 + "1", "1e-999999999999999999999"]
TOO_LONG = ["1" * 39, "-0." + "1" * 39, "1." + "0" * 37 + "1", "1" + "0" * 38]
TOO_DEEP = [
    nest_value(MAX_DEPTH - RECORD_DEPTH + 1),
    nest_value(MAX_DEPTH - RECORD_DEPTH + 1, opening='{"a":', closing="}"),
    nest_value(300),
]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        *((value, "is too large") for value in TOO_LARGE),
        *((value, "is too close to zero") for value in TOO_SMALL),
        *((value, "has more than 38 digits") for value in TOO_LONG),
        *((value, "is nested more than 32 levels deep") for value in TOO_DEEP),
    ],
    ids=abbreviate,
)
def test_unstorable_value_is_invalid(value: str, reason: str) -> None:
    with pytest.raises(InvalidMessageError, match=reason):
        REGISTRY.parse_body(contact_body(value))


@pytest.mark.parametrize("value", ['{"": 1}', '[{"a": {"": null}}]'])
def test_empty_name_is_invalid(value: str) -> None:
    with pytest.raises(InvalidMessageError, match="an object has an empty name"):
        REGISTRY.parse_body(contact_body(value))


@pytest.mark.parametrize(
    "value",
    [
        *("0", "-0", "0.0", "0e9", "1e125", "-9.99e125", "1e-130", "9.9e-130"),
        *("1" * 38, "0." + "1" * 38, "1" + "0" * 37),
        nest_value(MAX_DEPTH - RECORD_DEPTH),
        nest_value(MAX_DEPTH - RECORD_DEPTH, opening='{"a":', closing="}"),
    ],
    ids=abbreviate,
)
def test_value_within_bounds_is_accepted_and_can_be_stored(value: str) -> None:
    job = REGISTRY.parse_body(contact_body(value))
    assert isinstance(job, SyncContact)
    assert job.record is not None
    serialize(job.record)


@pytest.mark.parametrize(
    "value", [TOO_LARGE[0], TOO_SMALL[0], TOO_LONG[0], TOO_DEEP[0]], ids=abbreviate
)
def test_poison_message_is_rejected_once_without_run_or_alert(value: str) -> None:
    rig = BatchHarness(world=InMemoryStack())

    (worked,) = rig.process(make_delivery(contact_body(value)))

    assert is_invalid(worked.outcome)
    assert len(rig.inbox.rejected) == 1
    assert rig.world.store.get(KEY) is None
    assert rig.world.alerts.sent == []


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (1e300, "too large"),
        (1e-200, "too close to zero"),
        (10**38 + 1, "more than 38 digits"),
        (json.loads(TOO_DEEP[0]), "nested more than 32 levels"),
    ],
    ids=abbreviate,
)
def test_enqueue_writes_nothing_when_message_is_poison(value: object, reason: str) -> None:
    world = InMemoryStack()
    message = json.loads(contact_body("1"))
    message["record"]["properties"]["score"] = value

    with pytest.raises(InvalidMessageError, match=reason):
        world.enqueuer().enqueue(message)

    assert (world.store.get(KEY), world.outbox.sent) == (None, [])
