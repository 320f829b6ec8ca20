"""Jobs as DynamoDB rows. External tools rely on these attribute names and formats."""

import json
import zlib
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from oncely.core import lifecycle
from oncely.core.due import DUE_SHARDS, DueAction, due_action, due_shard
from oncely.core.errors import UnreadableRowError
from oncely.core.job_row import FIRST_ENGINE, EventMark, EventRecord, EvidenceEntry, JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status, WaitKind
from oncely.core.text import format_time, parse_time

Attributes: TypeAlias = dict[str, Any]  # the SDK's own form: {"status": {"S": "ready"}}

# The partition of the sparse index of due rows, `<action>#<shard>`; a row has it exactly when it
# has `due_at`. One partition of an index takes a thousand writes a second.
DUE: Final = "due"
# The partition of the sparse index of what operators act on, `<status>#<shard>`: sharded for the
# same reason, and less, since an operator waits for every shard of a list.
ATTENTION: Final = "attention"
ATTENTION_SHARDS: Final = 4

# An integer that the SDK need not check for more digits than DynamoDB keeps.
_MAX_SAFE_INTEGER: Final = 10**18

# TTL wants seconds since the epoch; every other time is text that sorts and that people can read.
_EPOCH_FIELDS: Final = frozenset({"expires_at"})
_TIME_FIELDS: Final = frozenset(
    {"age_from", "claimed_at", "created_at", "due_at", "erasure_requested_at", "first_sent_at"}
    | {"lease_until", "run_at", "since", "updated_at"}
)
# Text, so that what a producer sent survives as it was: DynamoDB knows no floats, rounds long
# numbers and nests 32 levels only.
_JSON_FIELDS: Final = frozenset({"closing", "message", "pending_repair", "progress", "result"})
_TIME_LIST_FIELDS: Final = frozenset({"resubmissions"})
_NUMBER_FIELDS: Final = frozenset(
    {"amount", "attempts", "ended_version", "fence", "key_number", "min_engine"}
    | {"timeouts", "unreachable", "version"}
)
_FLAG_FIELDS: Final = frozenset({"key_answered"})
TIME_ATTRIBUTES: Final = _EPOCH_FIELDS | _TIME_FIELDS
_ENUM_FIELDS: Final[Mapping[str, type[Status | WaitKind]]] = {
    "status": Status,
    "waits_for": WaitKind,
}
# What parsing a manually edited row may raise.
MALFORMED_ROW_ERRORS: Final = (
    *(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError),
)
_EVENTS: Final = {str(event): event for event in Event}
_STATUSES: Final = {str(status): status for status in Status}
_TRANSITIONS: Final[Mapping[tuple[str | None, str], str]] = {
    (old, event): new for (old, event), new in lifecycle.TRANSITIONS.items()
}
_UNKNOWN_STATUS: Final = ""  # where a move leads that only a newer version makes
_FIELD_NAMES: Final = tuple(field.name for field in fields(JobRow))
# A field at its default has no attribute, except the version, which a claim counts up.
_DEFAULTS: Final = {
    **{one.name: one.default for one in fields(JobRow) if one.name != "version"},
    "min_engine": FIRST_ENGINE,
}


def due_partition(status: Status, key: JobKey, shards: int = DUE_SHARDS) -> str:
    """The partition of a row in the due index."""
    return due_partition_name(due_action(status), due_shard(key, shards))


def due_partition_name(action: DueAction, shard: int) -> str:
    """The name of one partition of the due index."""
    return f"{action}#{shard}"


def attention_partition(status: Status, key: JobKey) -> str | None:
    """The partition of a job in the attention index. Returns None if it is not in it."""
    if status not in lifecycle.LISTED:
        return None
    return f"{status}#{zlib.crc32(key.encode()) % ATTENTION_SHARDS}"


def serialize_job(job: JobRow, *, due_shards: int = DUE_SHARDS) -> Attributes:
    """The row of a job. A field with its default value has no attribute."""
    held = {name: getattr(job, name) for name in _FIELD_NAMES}
    row = {name: serialize_field(name, v) for name, v in held.items() if not is_omitted(name, v)}
    if where := attention_partition(job.status, job.job_key):
        row[ATTENTION] = serialize(where)
    if job.due_at is not None:
        row[DUE] = serialize(due_partition(job.status, job.job_key, due_shards))
    return row


def deserialize_job(row: Mapping[str, Any]) -> JobRow:
    """Parse a row. Attributes that this version does not know are ignored.

    Raises UnreadableRowError if it is malformed, or a newer engine wrote what this one misreads.
    """
    try:
        names = [name for name in _FIELD_NAMES if name in row]
        held: dict[str, Any] = {name: _parse_field(name, row[name]) for name in names}
        job = JobRow(**{"min_engine": FIRST_ENGINE, **held})
    except MALFORMED_ROW_ERRORS as error:
        key = row.get("job_key", {}).get("S")
        raise UnreadableRowError(
            f"the row of {key} cannot be read by this deployment ({error}): it was changed by "
            "hand, or by a newer version that was rolled back; fix the row, or deploy that "
            "version again"
        ) from error
    if reason := job.needs_newer_engine:
        raise UnreadableRowError(reason)
    return job


def is_omitted(name: str, value: object) -> bool:
    """Whether a field has no attribute."""
    return value is None or value == _DEFAULTS.get(name)


def serialize_field(name: str, value: object) -> Attributes:
    """One field in the SDK's form."""
    return serialize(_to_storable(name, value))


def serialize(value: object) -> Attributes:
    """A plain value in the SDK's form. The SDK's own serializer is slow."""
    match value:
        case str():
            return {"S": value}
        case bool():
            return {"BOOL": value}
        case int() if abs(value) < _MAX_SAFE_INTEGER:
            return {"N": str(value)}
        case None:
            return {"NULL": True}
        case list():
            return {"L": [serialize(inner) for inner in value]}
        case dict() | Mapping():  # checking for a dict first is faster
            return {"M": {name: serialize(inner) for name, inner in value.items()}}
        case _:
            # boto3 takes a while to import, and rows hardly ever hold any other type.
            from boto3.dynamodb.types import TypeSerializer  # noqa: PLC0415  # as said

            number = Decimal(str(value)) if isinstance(value, float) else value
            return dict(TypeSerializer().serialize(number))


def deserialize_row(row: Mapping[str, Any]) -> dict[str, object]:
    """A row of any table as plain values; whole numbers become int."""
    return {name: _deserialize(value) for name, value in row.items()}


def _deserialize(attribute_value: Any) -> object:  # noqa: ANN401  # the SDK's own form
    [(kind, held)] = attribute_value.items()
    match kind:
        case "S" | "BOOL" | "B":  # boto3 would wrap bytes in a type whose str() fails
            return held
        case "N":
            number = Decimal(held)
            return int(number) if number == number.to_integral_value() else float(number)
        case "L":
            return [_deserialize(inner) for inner in held]
        case "M":
            return deserialize_row(held)
        case _:
            from boto3.dynamodb.types import TypeDeserializer  # noqa: PLC0415  # as above

            return TypeDeserializer().deserialize(attribute_value)


def _to_json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character of a provider's: DynamoDB stores its escape only
        return json.dumps(value, separators=(",", ":"))
    return text


def _to_storable(name: str, value: object) -> object:
    if name in _JSON_FIELDS:
        return _to_json(value)
    match value:
        case datetime() if name in _EPOCH_FIELDS:
            return int(value.timestamp())
        case datetime():
            return format_time(value)
        case tuple() if name in _TIME_LIST_FIELDS:
            return _to_json([format_time(at) for at in value])
        case tuple() if name == "provider_events":
            return _to_json([_event_to_list(event) for event in value])
        case tuple():
            return _to_json([_evidence_to_list(entry) for entry in value])
        case _:
            return value


def _parse_field(name: str, attribute_value: Any) -> object:  # noqa: ANN401  # the SDK's own form
    value = _deserialize(attribute_value)
    if name in _JSON_FIELDS:
        held = _check_type(name, json.loads(str(value)), dict)
        return _check_closing(held) if name == "closing" else held
    if name in _EPOCH_FIELDS:
        return datetime.fromtimestamp(float(str(value)), UTC)
    if name in _TIME_FIELDS:
        at = parse_time(value)
        # The claim's condition compares it as text, which orders only times of this form.
        if name == "run_at" and format_time(at) != value:
            raise ValueError(f"run_at is {value}")
        return at
    if name in _ENUM_FIELDS:
        return _ENUM_FIELDS[name](str(value))
    if name in _TIME_LIST_FIELDS:
        return tuple(parse_time(at) for at in json.loads(str(value)))
    if name in _FLAG_FIELDS:
        return _check_type(name, value, bool)
    if name == "provider_events":
        return tuple(_event_from_list(*event) for event in json.loads(str(value)))
    if name == "evidence":
        return tuple(_evidence_from_list(*entry) for entry in json.loads(str(value)))
    return _check_type(name, value, int if name in _NUMBER_FIELDS else str)


def _check_closing(closing: Any) -> object:  # noqa: ANN401  # a parsed JSON object
    """Fail here if a part is missing: the job would be closed, and never end."""
    for part, expected_type in (("reason", str), ("code", str), ("result", dict)):
        _check_type(f"closing.{part}", closing[part], expected_type)
    return closing


def _check_type(name: str, value: object, expected_type: type) -> object:
    """Fail here, before a value of a wrong type fails elsewhere."""
    if not isinstance(value, expected_type):
        raise TypeError(f"{name} is {type(value).__name__}")
    return value


def _evidence_to_list(entry: EvidenceEntry) -> list[object]:
    """An evidence entry as a compact list, with rare fields in a mapping at the end."""
    line = [format_time(entry.at), entry.event, entry.from_status, entry.actor, entry.reason]
    more: dict[str, object] = {}
    if _TRANSITIONS.get((entry.from_status, entry.event), _UNKNOWN_STATUS) != entry.to_status:
        more["new"] = entry.to_status
    if entry.last_at is not None:
        more |= {"count": entry.count, "last_at": format_time(entry.last_at)}
    return [*line, more] if more else [*line]


def _event_to_list(event: EventRecord) -> list[object]:
    """An event of a provider as a compact list."""
    named = [format_time(event.at), event.provider, event.name, event.mark]
    return [*named, event.fence, event.ref, event.code]


def _event_from_list(  # noqa: PLR0917  # the parts of a line, in their order
    at: str,
    provider: str,
    name: str,
    mark: str,
    fence: int | None,
    ref: str | None,
    code: str | None,
) -> EventRecord:
    for text in (provider, name, ref or "", code or ""):
        _check_type("provider_events", text, str)
    _check_type("provider_events", fence or 0, int)
    return EventRecord(
        at=parse_time(at),
        provider=provider,
        name=name,
        mark=EventMark(mark),
        fence=fence,
        ref=ref,
        code=code,
    )


def _evidence_from_list(  # noqa: PLR0917  # the parts of a line, in their order
    at: str,
    event: str,
    old: str | None,
    actor: str,
    reason: str,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> EvidenceEntry:
    last_at = more.get("last_at")
    new = more["new"] if "new" in more else _TRANSITIONS.get((old, event), _UNKNOWN_STATUS)
    for text in (event, actor, reason, new, old or ""):
        _check_type("evidence", text, str)
    return EvidenceEntry(
        at=parse_time(at),
        event=_EVENTS.get(event, event),
        from_status=None if old is None else _STATUSES.get(old, old),
        to_status=_STATUSES.get(new, new),
        reason=reason,
        actor=actor,
        count=int(more.get("count", 1)),
        last_at=None if last_at is None else parse_time(last_at),
    )
