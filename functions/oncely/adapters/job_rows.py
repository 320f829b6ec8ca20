"""How a job stands in its DynamoDB row: the names and spellings that outside tools rely on."""

import json
import zlib
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, TypeAlias

from oncely.domain.due import DUE_SHARDS, Action, due_action, due_shard
from oncely.domain.errors import UnreadableRowError
from oncely.domain.jobs import Evidence, Job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Event, Status
from oncely.domain.times import time_text

Attributes: TypeAlias = dict[str, Any]  # the SDK's own form: {"status": {"S": "ready"}}

# The partition of the sparse index of due rows, `<action>#<shard>`; a row has it exactly when it
# has `due_at`. One partition of an index takes a thousand writes a second.
DUE: Final = "due"
# The partition of the index by status, `<status>#<shard>`: sharded for the same reason, and less,
# since a person waits for every shard of a list. Four take two thousand jobs a second.
LISTED: Final = "listed"
LISTED_SHARDS: Final = 4

# An integer that the SDK need not check for more digits than DynamoDB keeps.
_LARGE: Final = 10**18

# TTL wants seconds since the epoch; every other time is text that sorts and that people can read.
_EPOCH_SECONDS: Final = frozenset({"expires_at"})
_TIMES: Final = frozenset(
    {
        "claimed_at",
        "created_at",
        "due_at",
        "first_sent_at",
        "lease_until",
        "reopened_at",
        "since",
        "stranded_since",
        "updated_at",
    }
)
# Text, so that what a producer sent survives as it was: DynamoDB knows no floats, rounds long
# numbers and nests 32 levels only.
_JSON: Final = frozenset({"closing", "message", "progress", "result"})
_EVENTS: Final = {str(event): event for event in Event}
_STATUSES: Final = {str(status): status for status in Status}
_NAMES: Final = tuple(field.name for field in fields(Job))


def due_partition(status: Status, key: JobKey, shards: int = DUE_SHARDS) -> str:
    """Where a row of this status stands in the index of due rows."""
    return due_name(due_action(status), due_shard(key, shards))


def due_name(action: Action, shard: int) -> str:
    """The name of one partition of that index."""
    return f"{action}#{shard}"


def listed(status: Status, key: JobKey) -> str:
    """Where a job stands in the index by status."""
    return f"{status}#{_spread(key) % LISTED_SHARDS}"


def _spread(key: JobKey) -> int:
    return zlib.crc32(key.encode())


def to_attributes(job: Job, *, due_shards: int = DUE_SHARDS) -> Attributes:
    """The row of a job; a field without a value has no attribute."""
    held = {name: getattr(job, name) for name in _NAMES}
    row = {name: attribute(name, value) for name, value in held.items() if value is not None}
    if job.due_at is not None:
        row[DUE] = serialized(due_partition(job.status, job.job_key, due_shards))
    return {**row, LISTED: serialized(listed(job.status, job.job_key))}


def from_attributes(row: Mapping[str, Any]) -> Job:
    """The job of a row; attributes that this version does not know are left alone."""
    try:
        known: dict[str, Any] = {name: _value(name, row[name]) for name in _NAMES if name in row}
        return Job(**known)
    except (LookupError, TypeError, ValueError) as error:
        key = row.get("job_key", {}).get("S")
        raise UnreadableRowError(
            f"the row of {key} cannot be read by this deployment ({error}): it was changed by "
            "hand, or by a newer version that was rolled back; mend the row, or deploy that "
            "version again"
        ) from error


def attribute(name: str, value: object) -> Attributes:
    """One field in the SDK's form."""
    return serialized(_spelled(name, value))


def serialized(value: object) -> Attributes:
    """Any plain value in the SDK's form; rows are made of these, and the SDK takes its time."""
    match value:
        case str():
            return {"S": value}
        case bool():
            return {"BOOL": value}
        case int() if abs(value) < _LARGE:
            return {"N": str(value)}
        case None:
            return {"NULL": True}
        case list():
            return {"L": [serialized(inner) for inner in value]}
        case dict() | Mapping():  # a dict is told from others at once, a mapping is not
            return {"M": {name: serialized(inner) for name, inner in value.items()}}
        case _:
            # boto3 takes a while to import, and rows hardly ever hold any other type.
            from boto3.dynamodb.types import TypeSerializer  # noqa: PLC0415  # as said

            number = Decimal(str(value)) if isinstance(value, float) else value
            return dict(TypeSerializer().serialize(number))


def plain(row: Mapping[str, Any]) -> dict[str, object]:
    """A whole row of some table as plain values; whole numbers become int."""
    return {name: _plain(value) for name, value in row.items()}


def _plain(found: Any) -> object:  # noqa: ANN401  # the SDK's own form
    [(kind, held)] = found.items()
    match kind:
        case "S" | "BOOL":
            return held
        case "N":
            number = Decimal(held)
            return int(number) if number == number.to_integral_value() else float(number)
        case "L":
            return [_plain(inner) for inner in held]
        case "M":
            return plain(held)
        case _:
            from boto3.dynamodb.types import TypeDeserializer  # noqa: PLC0415  # as above

            return TypeDeserializer().deserialize(found)


def _spelled(name: str, value: object) -> object:
    if name in _JSON:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    match value:
        case datetime() if name in _EPOCH_SECONDS:
            return int(value.timestamp())
        case datetime():
            return time_text(value)
        case tuple():
            return [_entry(entry) for entry in value]
        case _:
            return value


def _value(name: str, found: Any) -> object:  # noqa: ANN401  # the SDK's own form
    value = _plain(found)
    if name in _JSON:
        return json.loads(str(value))
    if name in _EPOCH_SECONDS:
        return datetime.fromtimestamp(float(str(value)), UTC)
    if name in _TIMES:
        return datetime.fromisoformat(str(value))
    if name == "status":
        return Status(str(value))
    if name == "evidence" and isinstance(value, list):
        return tuple(_evidence(entry) for entry in value)
    return value


def _entry(entry: Evidence) -> dict[str, object]:
    row: dict[str, object] = {
        "at": time_text(entry.at),
        "event": str(entry.event),
        "old": None if entry.old is None else str(entry.old),
        "new": str(entry.new),
        "reason": entry.reason,
        "actor": entry.actor,
    }
    if entry.last_at is None:
        return row
    return {**row, "count": entry.count, "last_at": time_text(entry.last_at)}


def _evidence(entry: Mapping[str, Any]) -> Evidence:
    last_at = entry.get("last_at")
    return Evidence(
        at=datetime.fromisoformat(entry["at"]),
        event=_EVENTS.get(entry["event"], entry["event"]),
        old=_STATUSES.get(entry["old"], entry["old"]),
        new=_STATUSES.get(entry["new"], entry["new"]),
        reason=entry["reason"],
        actor=entry["actor"],
        count=int(entry.get("count", 1)),
        last_at=None if last_at is None else datetime.fromisoformat(last_at),
    )
