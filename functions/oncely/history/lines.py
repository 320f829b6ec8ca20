"""History lines: what the archive keeps of every change of a job, with listed fields only.

A line holds ids, codes, numbers and times. It never holds free text, such as a reason or an error,
and never a nested record of a message: those may name people.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from enum import StrEnum
from math import isfinite
from typing import Any, Final, TypeAlias

from oncely.core.actors import is_operator
from oncely.core.evidence import EvidenceEntry
from oncely.core.job_row import CLOCK_SKEW, FIRST_ENGINE, NOT_CONFIRMED, JobRow
from oncely.core.keys import is_job_type
from oncely.core.lifecycle import Event
from oncely.core.text import format_time, single_line

Scalar: TypeAlias = str | int | float | bool | None

# Longer ids are left out: a truncated id finds nothing, or something else.
MAX_HISTORY_ID_LENGTH: Final = 255
MAX_FIELDS: Final = 32  # of a message or a result
MAX_NAME_LENGTH: Final = 64
# The job type of a row that was edited by hand and has none.
UNKNOWN_JOB_TYPE: Final = "unknown"
# The largest integer of readers such as DuckDB and Athena.
MAX_INTEGER: Final = 2**63 - 1

# An id, a code or a time as text: no space, so no sentence; no "@", so no email address.
_CODE: Final = re.compile(r"[A-Za-z0-9_.:#+/=%~-]*")
# Stream times are in whole seconds, and clocks differ.
_MAX_TIME_DIFFERENCE: Final = timedelta(seconds=1) + CLOCK_SKEW
# What an erasure leaves of a line. A field that is not listed may name a person.
_PROOF_FIELDS: Final = frozenset(
    {"record", "generation", "job_key", "job_type", "at", "version", "min_engine", "status"}
    | {"old_status", "event", "actor", "fence", "attempts", "key_number", "key_scope", "deployment"}
    | {"first_sent_at", "run_at", "provider", "provider_ref", "closing"}
    | {"created_at", "updated_at", "expires_at"}
)
_ERASED: Final = ["message", "result"]
_TIME_FIELDS: Final = frozenset(
    {"at", "created_at", "updated_at", "expires_at", "first_sent_at", "run_at"}
)


class HistoryRecordType(StrEnum):
    """Why a line was written. The values are stored, so never rename them."""

    CHANGE = "change"  # a new status, expiry or reference, or an operator's action
    BACKFILL = "backfill"  # the row as a scan found it, after a gap in the stream
    UNREADABLE = "unreadable"  # a change of a row that this version cannot read
    EXPIRED = "expired"  # TTL removed the row
    DELETED = "deleted"  # another process or person removed the row


# Of two lines of one version, the earlier type here is kept.
PREFERENCE: Final = tuple(HistoryRecordType)


@dataclass(frozen=True, kw_only=True)
class HistoryLine:
    """One change of one job. `status` is None after it, `old_status` before it existed."""

    record: HistoryRecordType
    generation: str  # the `TableId` of the job table
    job_key: str
    job_type: str
    at: datetime
    version: int | None = None
    min_engine: int | None = None  # the lowest that may restore it; None for the first
    status: str | None = None
    old_status: str | None = None
    event: str | None = None
    actor: str | None = None
    fence: int | None = None
    attempts: int | None = None
    key_number: int | None = None
    key_scope: str | None = None
    deployment: str | None = None
    provider: str | None = None
    fingerprint: str | None = None
    first_sent_at: datetime | None = None
    run_at: datetime | None = None
    provider_ref: str | None = None
    closing: str | None = None  # the code of a job whose next run only closes what is open
    amount: int | None = None
    currency: str | None = None
    customer_id: str | None = None
    subject: str | None = None
    message: Mapping[str, Scalar] | None = None
    result: Mapping[str, Scalar] | None = None
    left_out: tuple[str, ...] = ()  # of "message" and "result": the line holds a part of it
    created_at: datetime | None = None
    updated_at: datetime | None = None
    expires_at: datetime | None = None

    @property
    def identity(self) -> tuple[str, str, datetime | None, int | None]:
        """Equal for duplicate lines. A new row after an expired one restarts its versions."""
        return (self.generation, self.job_key, self.created_at, self.version)

    @property
    def as_proof(self) -> "HistoryLine":
        """The line without personal data."""
        return HistoryLine.from_dict(proof_of_line(self.to_dict()))

    def to_dict(self) -> dict[str, object]:
        """The line as JSON, without empty fields."""
        held = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: _to_json(value) for name, value in held.items() if value not in (None, ())}

    @classmethod
    def from_dict(cls, line: Mapping[str, Any]) -> "HistoryLine":
        """Parse a line. Fields that this version does not know are ignored."""
        names = (field.name for field in fields(cls))
        held: dict[str, Any] = {
            name: _from_json(name, line[name]) for name in names if name in line
        }
        return cls(**held)


def history_line(
    old: JobRow | None, new: JobRow | None, *, generation: str, at: datetime, expired: bool = False
) -> HistoryLine | None:
    """The line of one write. Returns None if it changed nothing that the history records.

    `at` is the time of a removal; a change has its own time. A forged row proves nothing, and its
    times and versions are its producer's choice: they must not hide those of the row after it.
    """
    old = None if old is not None and old.is_forged else old
    new = None if new is not None and new.is_forged else new
    if new is None:
        if old is None:
            return None
        return _removal_line(old, generation=generation, at=at, expired=expired)
    entry = _new_entry(old, new)
    status_changed = old is None or old.status is not new.status
    reference_changed = new.provider_ref != (old.provider_ref if old else None)
    # Publishing sets the expiry. Without this line, a restore would publish again.
    expiry_changed = old is not None and old.expires_at != new.expires_at
    if not (
        status_changed
        or reference_changed
        or expiry_changed
        or (entry is not None and is_operator(entry.actor))
    ):
        return None
    return change_line(old, new, generation=generation)


def change_line(old: JobRow | None, new: JobRow, *, generation: str) -> HistoryLine:
    """The line of a write, whether or not the history records it."""
    event, actor = _cause(old, new, _new_entry(old, new))
    return _line(
        new,
        record=HistoryRecordType.CHANGE,
        generation=generation,
        at=new.updated_at,
        version=new.version,
        status=str(new.status),
        old_status=None if old is None else str(old.status),
        event=event,
        actor=actor,
    )


def backfill_line(job: JobRow, *, generation: str) -> HistoryLine:
    """The line of a row as a scan found it."""
    last = job.evidence[-1] if job.evidence else None
    entry = last if last is not None and last.at == job.updated_at else None
    return _line(
        job,
        record=HistoryRecordType.BACKFILL,
        generation=generation,
        at=job.updated_at,
        version=job.version,
        status=str(job.status),
        event=None if entry is None else code_or_none(str(entry.event)),
        actor=None if entry is None else single_line(entry.actor, MAX_HISTORY_ID_LENGTH),
    )


def unreadable_line(
    job_key: str, *, generation: str, at: datetime, version: int | None
) -> HistoryLine:
    """The line of a row that a newer version wrote, or that was edited by hand."""
    return HistoryLine(
        record=HistoryRecordType.UNREADABLE,
        generation=generation,
        job_key=job_key,
        job_type=_job_type(job_key.partition(":")[0]),
        at=at,
        version=version,
    )


def proof_of_line(line: Mapping[str, Any]) -> dict[str, Any]:
    """What an erasure leaves of a line, including lines of a newer version."""
    proof = {name: line[name] for name in line if name in _PROOF_FIELDS} | {"left_out": _ERASED}
    code = (line.get("result") or {}).get("code")
    return {**proof, "result": {"code": code}} if code in NOT_CONFIRMED else proof


def deduplicate(lines: Iterable[HistoryLine]) -> list[HistoryLine]:
    """Drop duplicate lines: the archive is written at least once."""
    kept: dict[tuple[object, ...], HistoryLine] = {}
    for line in lines:
        other = kept.get(line.identity)
        if other is None or _rank(line) < _rank(other):
            kept[line.identity] = line
    return list(kept.values())


def lines_about(business_id: str, lines: Iterable[HistoryLine]) -> list[HistoryLine]:
    """Select the lines that contain an id, each once and oldest first."""
    wanted = (line for line in lines if business_id in _searchable_ids(line))
    return sorted(deduplicate(wanted), key=lambda line: (line.at, line.version or 0))


def _searchable_ids(line: HistoryLine) -> tuple[object, ...]:
    named = (line.job_key, line.subject, line.customer_id, line.provider_ref)
    return (*named, *(line.message or {}).values())


def is_newer(line: HistoryLine, other: HistoryLine | None) -> bool:
    """Whether a line of the same key has a later state, or more fields."""
    if other is None:
        return True
    # An unreadable row has only a key, a version and a time.
    if (
        other.record is HistoryRecordType.UNREADABLE
        and line.record is not HistoryRecordType.UNREADABLE
    ):
        return not _follows(other, line)
    if (
        line.record is HistoryRecordType.UNREADABLE
        and other.record is not HistoryRecordType.UNREADABLE
    ):
        return _follows(line, other)
    return _order_key(line) > _order_key(other)


def code_or_none(text: str) -> str | None:
    """The text if it can only be an id or a code. Returns None if not."""
    return text if len(text) <= MAX_HISTORY_ID_LENGTH and _CODE.fullmatch(text) else None


def scalar_fields(document: Mapping[str, object] | None) -> tuple[dict[str, Scalar], bool]:
    """The ids, codes and numbers of a document, and whether it has nothing else."""
    held = {} if document is None else dict(document)
    kept = {
        name: value
        for name, value in list(held.items())[:MAX_FIELDS]
        if len(name) <= MAX_NAME_LENGTH and code_or_none(name) and _is_scalar(value)
    }
    return kept, len(kept) == len(held)  # type: ignore[return-value]  # `_is_scalar` looked


def _removal_line(old: JobRow, *, generation: str, at: datetime, expired: bool) -> HistoryLine:
    return _line(
        old,
        record=HistoryRecordType.EXPIRED if expired else HistoryRecordType.DELETED,
        generation=generation,
        at=at,
        # Its own version, so that it is not a duplicate of the last change.
        version=old.version + 1,
        old_status=str(old.status),
    )


def _new_entry(old: JobRow | None, new: JobRow) -> EvidenceEntry | None:
    """The entry that this write added or counted."""
    last = new.evidence[-1] if new.evidence else None
    before = old.evidence[-1] if old is not None and old.evidence else None
    return None if last == before else last


def _cause(
    old: JobRow | None, new: JobRow, entry: EvidenceEntry | None
) -> tuple[str | None, str | None]:
    """The event and its actor. A claim adds no entry, since it must cost one write.

    A restored row has the fence of its claims, but is not the write of one.
    """
    if new.fence > (old.fence if old else 0) and new.claimed_at == new.updated_at:
        return str(Event.CLAIM), "worker"
    if entry is None:
        return None, None
    return code_or_none(str(entry.event)), single_line(entry.actor, MAX_HISTORY_ID_LENGTH)


def _line(  # the fields of the row are the same in every line
    job: JobRow,
    *,
    record: HistoryRecordType,
    generation: str,
    at: datetime,
    version: int,
    status: str | None = None,
    old_status: str | None = None,
    event: str | None = None,
    actor: str | None = None,
) -> HistoryLine:
    message, whole_message = scalar_fields(job.message)
    result, whole_result = scalar_fields(job.result)
    line = HistoryLine(
        record=record,
        generation=generation,
        job_key=job.job_key,
        job_type=_job_type(job.job_type),
        at=at,
        version=version,
        min_engine=None if job.min_engine == FIRST_ENGINE else job.min_engine,
        status=status,
        old_status=old_status,
        event=event,
        actor=actor,
        fence=job.fence,
        attempts=job.attempts,
        key_number=job.key_number,
        key_scope=_id_or_none(job.key_scope),
        deployment=_id_or_none(job.deployment),
        provider=_id_or_none(job.provider),
        fingerprint=_id_or_none(job.fingerprint),
        first_sent_at=job.first_sent_at,
        run_at=job.run_at,
        provider_ref=_id_or_none(job.provider_ref),
        closing=None
        if job.closing is None
        else code_or_none(str(job.closing.get("code"))) or "closing",
        amount=job.amount,
        currency=_id_or_none(job.currency),
        customer_id=_id_or_none(job.customer_id),
        subject=_id_or_none(job.subject),
        message=message,
        result=None if job.result is None else result,
        left_out=tuple(
            name
            for name, whole in (("message", whole_message), ("result", whole_result))
            if not whole
        ),
        created_at=job.created_at,
        updated_at=job.updated_at,
        expires_at=job.expires_at,
    )
    return line if job.erasure_requested_at is None else line.as_proof


def _job_type(name: str) -> str:
    """The job type, which also names a folder of the archive."""
    return name if len(name) <= MAX_HISTORY_ID_LENGTH and is_job_type(name) else UNKNOWN_JOB_TYPE


def _id_or_none(text: str | None) -> str | None:
    """An external id, on one line."""
    if text is None or len(text) > MAX_HISTORY_ID_LENGTH:
        return None
    return single_line(text, MAX_HISTORY_ID_LENGTH)


def _is_scalar(value: object) -> bool:
    match value:
        case str():
            return code_or_none(value) is not None
        case bool() | None:
            return True
        case float():
            return isfinite(value)
        case int():
            return abs(value) <= MAX_INTEGER
        case _:
            return False


def _follows(unreadable: HistoryLine, known: HistoryLine) -> bool:
    """Whether a newer version wrote the row after this line. A manual edit adds no version."""
    in_time = unreadable.at + _MAX_TIME_DIFFERENCE >= known.at
    return in_time and (unreadable.version or 0) > (known.version or 0)


def _rank(line: HistoryLine) -> int:
    return PREFERENCE.index(line.record)


def _order_key(line: HistoryLine) -> tuple[str, int, str, int]:
    created = "" if line.created_at is None else format_time(line.created_at)
    return (created, line.version or 0, format_time(line.at), -_rank(line))


def _to_json(value: object) -> object:
    match value:
        case datetime():
            return format_time(value)
        case tuple():
            return list(value)
        case Mapping():
            return dict(value)
        case StrEnum():
            return str(value)
        case _:
            return value


def _from_json(name: str, value: Any) -> object:  # noqa: ANN401  # JSON
    if name in _TIME_FIELDS:
        return datetime.fromisoformat(value)
    if name == "record":
        return HistoryRecordType(value)
    return tuple(value) if name == "left_out" else value
