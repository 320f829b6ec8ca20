"""How a job stands in its DynamoDB row: the names and spellings that outside tools rely on."""

import json
import zlib
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from oncely.domain import lifecycle
from oncely.domain.due import DUE_SHARDS, Action, due_action, due_shard
from oncely.domain.errors import UnreadableRowError
from oncely.domain.jobs import Evidence, Job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Event, Status
from oncely.domain.times import instant, time_text

Attributes: TypeAlias = dict[str, Any]  # the SDK's own form: {"status": {"S": "ready"}}

# The partition of the sparse index of due rows, `<action>#<shard>`; a row has it exactly when it
# has `due_at`. One partition of an index takes a thousand writes a second.
DUE: Final = "due"
# The partition of the sparse index of what operators act on, `<status>#<shard>`: sharded for the
# same reason, and less, since an operator waits for every shard of a list.
ATTENTION: Final = "attention"
ATTENTION_SHARDS: Final = 4

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
_NUMBERS: Final = frozenset(
    {
        "amount",
        "attempts",
        "fence",
        "key_number",
        "paused_seconds",
        "stranded_fence",
        "timeouts",
        "unreachable",
        "version",
    }
)
# Whatever a row that was edited by hand may raise.
_SPOILED: Final = (
    *(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError),
)
_EVENTS: Final = {str(event): event for event in Event}
_STATUSES: Final = {str(status): status for status in Status}
_MOVES: Final[Mapping[tuple[str | None, str], str]] = {
    (old, event): new for (old, event), new in lifecycle.TRANSITIONS.items()
}
_NOT_KNOWN_HERE: Final = ""  # where a move leads that only a newer version makes
_NAMES: Final = tuple(field.name for field in fields(Job))
# A field at its default has no attribute; but for the version, which a claim counts up.
_DEFAULTS: Final = {one.name: one.default for one in fields(Job) if one.name != "version"}


def due_partition(status: Status, key: JobKey, shards: int = DUE_SHARDS) -> str:
    """Where a row of this status stands in the index of due rows."""
    return due_name(due_action(status), due_shard(key, shards))


def due_name(action: Action, shard: int) -> str:
    """The name of one partition of that index."""
    return f"{action}#{shard}"


def attention(status: Status, key: JobKey) -> str | None:
    """Where a job stands in the index of what operators act on. Returns None if it does not."""
    if status not in lifecycle.ATTENTION:
        return None
    return f"{status}#{_spread(key) % ATTENTION_SHARDS}"


def _spread(key: JobKey) -> int:
    return zlib.crc32(key.encode())


def to_attributes(job: Job, *, due_shards: int = DUE_SHARDS) -> Attributes:
    """The row of a job; a field at its default has no attribute."""
    held = {name: getattr(job, name) for name in _NAMES}
    row = {name: attribute(name, one) for name, one in held.items() if not is_left_out(name, one)}
    if where := attention(job.status, job.job_key):
        row[ATTENTION] = serialized(where)
    if job.due_at is not None:
        row[DUE] = serialized(due_partition(job.status, job.job_key, due_shards))
    return row


def from_attributes(row: Mapping[str, Any]) -> Job:
    """The job of a row; attributes that this version does not know are left alone."""
    try:
        known: dict[str, Any] = {name: _value(name, row[name]) for name in _NAMES if name in row}
        return Job(**known)
    except _SPOILED as error:
        key = row.get("job_key", {}).get("S")
        raise UnreadableRowError(
            f"the row of {key} cannot be read by this deployment ({error}): it was changed by "
            "hand, or by a newer version that was rolled back; mend the row, or deploy that "
            "version again"
        ) from error


def is_left_out(name: str, value: object) -> bool:
    """Whether a field has no attribute."""
    return value is None or value == _DEFAULTS.get(name)


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
            return json.dumps(
                [_entry(entry) for entry in value], ensure_ascii=False, separators=(",", ":")
            )
        case _:
            return value


def _value(name: str, found: Any) -> object:  # noqa: ANN401  # the SDK's own form
    value = _plain(found)
    if name in _JSON:
        return _typed(name, json.loads(str(value)), dict)
    if name in _EPOCH_SECONDS:
        return datetime.fromtimestamp(float(str(value)), UTC)
    if name in _TIMES:
        return instant(value)
    if name == "status":
        return Status(str(value))
    if name == "evidence":
        return tuple(_evidence(*entry) for entry in json.loads(str(value)))
    return _typed(name, value, int if name in _NUMBERS else str)


def _typed(name: str, value: object, kind: type) -> object:
    """A value of another type would fail far from here, and take its neighbours along."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {type(value).__name__}")
    return value


def _entry(entry: Evidence) -> list[object]:
    """One line of evidence: when, what, from which status, by whom, why; and what is not usual."""
    line: list[object] = [time_text(entry.at), entry.event, entry.old, entry.actor, entry.reason]
    more: dict[str, object] = {}
    if _MOVES.get((entry.old, entry.event), _NOT_KNOWN_HERE) != entry.new:
        more["new"] = entry.new
    if entry.last_at is not None:
        more |= {"count": entry.count, "last_at": time_text(entry.last_at)}
    return [*line, more] if more else line


def _evidence(  # noqa: PLR0917  # the parts of a line, in their order
    at: str,
    event: str,
    old: str | None,
    actor: str,
    reason: str,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> Evidence:
    last_at = more.get("last_at")
    new = more["new"] if "new" in more else _MOVES.get((old, event), _NOT_KNOWN_HERE)
    return Evidence(
        at=instant(at),
        event=_EVENTS.get(event, event),
        old=None if old is None else _STATUSES.get(old, old),
        new=_STATUSES.get(new, new),
        reason=reason,
        actor=actor,
        count=int(more.get("count", 1)),
        last_at=None if last_at is None else instant(last_at),
    )
