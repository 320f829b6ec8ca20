"""A message that DynamoDB could never store is rejected once, before a row or a run."""

import json

import pytest

from oncely.aws.job_rows import serialize
from oncely.domain.errors import InvalidMessageError
from oncely.domain.keys import JobKey
from oncely.jobs import CONTRACTS
from oncely.jobs.sync_contact import ContactMessage
from oncely.registry import ContractRegistry
from oncely.run.outcomes import InvalidMessage
from tests.support.in_memory_stack import InMemoryStack
from tests.support.worker import BatchHarness, make_delivery

REGISTRY = ContractRegistry(CONTRACTS)
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
NO_PROPERTIES = ["[]", '"ada"', "1", "null", "true"]


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


@pytest.mark.parametrize("properties", NO_PROPERTIES)
def test_record_is_invalid_when_properties_is_no_object(properties: str) -> None:
    body = contact_body(VALUE).replace(f'{{"score": {VALUE}}}', properties)
    with pytest.raises(InvalidMessageError, match=r"record is invalid: .*properties"):
        REGISTRY.parse_body(body)


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
    _, message = REGISTRY.parse_body(contact_body(value))
    assert isinstance(message, ContactMessage)
    assert message.record is not None
    serialize(message.record)


@pytest.mark.parametrize(
    "value", [TOO_LARGE[0], TOO_SMALL[0], TOO_LONG[0], TOO_DEEP[0]], ids=abbreviate
)
def test_poison_message_is_rejected_once_without_run_or_alert(value: str) -> None:
    rig = BatchHarness(world=InMemoryStack())

    (worked,) = rig.process(make_delivery(contact_body(value)))

    assert isinstance(worked.outcome, InvalidMessage)
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
