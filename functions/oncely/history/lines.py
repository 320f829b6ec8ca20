"""History lines: what the archive keeps of every change of a job, with listed fields only.

A line holds ids, codes, numbers and times. It never holds free text, such as a reason or an error,
and never a nested record of a message: those may name people.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from enum import StrEnum
from math import isfinite
from typing import Any, Final

from oncely.core.ended_jobs import PROOF_FIELDS
from oncely.core.job_row import (
    CLOCK_SKEW,
    FIRST_ENGINE,
    NOT_CONFIRMED,
    EvidenceEntry,
    JobRow,
    is_operator,
)
from oncely.core.keys import JobKey, is_job_type
from oncely.core.lifecycle import Event, Status
from oncely.core.row_items import TIME_ATTRIBUTES
from oncely.core.text import format_time, single_line

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
_ERASED: Final = ["message", "result"]


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
    """One write of one job: what happened, and an image of the row that holds listed attributes.

    `status` is None after a removal, and `old_status` before the row existed.
    """

    record: HistoryRecordType
    generation: str  # the `TableId` of the job table
    job_key: str
    job_type: str
    at: datetime
    version: int | None = None
    status: str | None = None
    old_status: str | None = None
    event: str | None = None
    actor: str | None = None
    left_out: tuple[str, ...] = ()  # of "message" and "result": the line holds a part of it
    created_at: datetime | None = None
    image: Mapping[str, Any] = field(default_factory=dict)  # of the row, see `IMAGE`

    @property
    def identity(self) -> tuple[str, str, datetime | None, int | None]:
        """Equal for duplicate lines. A new row after an expired one restarts its versions."""
        return (self.generation, self.job_key, self.created_at, self.version)

    @property
    def as_proof(self) -> "HistoryLine":
        """The line without personal data."""
        return HistoryLine.from_dict(proof_of_line(self.to_dict()))

    def row(self, status: Status) -> JobRow:
        """The row in this status, as far as the line tells."""
        known: dict[str, Any] = {"updated_at": self.at, "message": {}, **self.image}
        if code := self.image.get("closing"):
            known["closing"] = {"reason": "decided before a restore", "code": code, "result": {}}
        return JobRow(
            job_key=JobKey(self.job_key),
            job_type=self.job_type,
            status=status,
            version=self.version or 1,
            created_at=self.created_at or self.at,
            **known,
        )

    def to_dict(self) -> dict[str, object]:
        """The line as JSON, without empty fields."""
        held = {name: getattr(self, name) for name in _OWN_FIELDS} | dict(self.image)
        return {name: _to_json(value) for name, value in held.items() if value not in (None, ())}

    @classmethod
    def from_dict(cls, line: Mapping[str, Any]) -> "HistoryLine":
        """Parse a line. Fields that this version does not know are ignored."""
        names = (name for name in LINE_FIELDS if line.get(name) is not None)
        held: dict[str, Any] = {name: _from_json(name, line[name]) for name in names}
        image = {name: held.pop(name) for name in IMAGE if name in held}
        return cls(**held, image=image)


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
    """The line of a write, whether or not the history records it.

    A claim adds no entry, since it must cost one write. A restored row has the fence of its claims,
    but is not the write of one.
    """
    is_claim = new.fence > (old.fence if old else 0) and new.claimed_at == new.updated_at
    claim = {"event": str(Event.CLAIM), "actor": "worker"}
    return replace(
        _line(new, generation),
        old_status=None if old is None else str(old.status),
        **(claim if is_claim else _cause(_new_entry(old, new))),
    )


def backfill_line(job: JobRow, *, generation: str) -> HistoryLine:
    """The line of a row as a scan found it."""
    last = job.evidence[-1] if job.evidence else None
    entry = last if last is not None and last.at == job.updated_at else None
    line = _line(job, generation)
    return replace(line, record=HistoryRecordType.BACKFILL, **_cause(entry))


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
    named = (line.image.get(name) for name in ("subject", "customer_id", "provider_ref"))
    return (line.job_key, *named, *line.image.get("message", {}).values())


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


def scalar_fields(document: Mapping[str, object]) -> dict[str, object]:
    """The ids, codes and numbers of a document."""
    return {
        name: value
        for name, value in list(document.items())[:MAX_FIELDS]
        if len(name) <= MAX_NAME_LENGTH and code_or_none(name) and _is_scalar(value)
    }


def _removal_line(old: JobRow, *, generation: str, at: datetime, expired: bool) -> HistoryLine:
    return replace(
        _line(old, generation),
        record=HistoryRecordType.EXPIRED if expired else HistoryRecordType.DELETED,
        at=at,
        # Its own version, so that it is not a duplicate of the last change.
        version=old.version + 1,
        status=None,
        old_status=str(old.status),
    )


def _new_entry(old: JobRow | None, new: JobRow) -> EvidenceEntry | None:
    """The entry that this write added or counted."""
    last = new.evidence[-1] if new.evidence else None
    before = old.evidence[-1] if old is not None and old.evidence else None
    return None if last == before else last


def _cause(entry: EvidenceEntry | None) -> dict[str, Any]:
    if entry is None:
        return {}
    actor = single_line(entry.actor, MAX_HISTORY_ID_LENGTH)
    return {"event": code_or_none(str(entry.event)), "actor": actor}


def _line(row: JobRow, generation: str) -> HistoryLine:
    """The line of a row's last write, without its cause."""
    since = None if row.status_since == row.updated_at else row.status_since
    held = replace(row, since=since)
    values = ((name, form, getattr(held, name)) for name, form in IMAGE.items())
    forms = ((name, form(value)) for name, form, value in values if value is not None)
    image: dict[str, Any] = {name: value for name, value in forms if value is not None}
    line = HistoryLine(
        record=HistoryRecordType.CHANGE,
        generation=generation,
        job_key=row.job_key,
        job_type=_job_type(row.job_type),
        at=row.updated_at,
        version=row.version,
        status=str(row.status),
        left_out=tuple(
            name
            for name in ("message", "result")
            if len(image.get(name, ())) < len(getattr(row, name) or ())
        ),
        created_at=row.created_at,
        image=image,
    )
    return line if row.erasure_requested_at is None else line.as_proof


def _job_type(name: str) -> str:
    """The job type, which also names a folder of the archive."""
    return name if len(name) <= MAX_HISTORY_ID_LENGTH and is_job_type(name) else UNKNOWN_JOB_TYPE


def _id_or_none(text: str) -> str | None:
    """An external id, on one line."""
    is_id = len(text) <= MAX_HISTORY_ID_LENGTH
    return single_line(text, MAX_HISTORY_ID_LENGTH) if is_id else None


def _closing_code(closing: Mapping[str, object]) -> str:
    return code_or_none(str(closing.get("code"))) or "closing"


def _engine_or_none(number: int) -> int | None:
    return None if number == FIRST_ENGINE else number


def _number_or_none(number: int) -> int | None:
    return number if abs(number) <= MAX_INTEGER else None


def _time(at: datetime) -> datetime:
    return at


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
    return format_time(value) if isinstance(value, datetime) else value


def _from_json(name: str, value: Any) -> object:  # noqa: ANN401  # JSON
    if name == "at" or name in TIME_ATTRIBUTES:
        return datetime.fromisoformat(value)
    if name == "record":
        return HistoryRecordType(value)
    return tuple(value) if name == "left_out" else value


# What a line may hold of a row, and in which form. A value that does not fit the form is left out.
IMAGE: Final[Mapping[str, Callable[[Any], object]]] = {
    **dict.fromkeys(("fence", "attempts", "key_number", "amount"), _number_or_none),
    "ended_version": _number_or_none,  # it identifies the event of the end
    "min_engine": _engine_or_none,  # the lowest that may restore it
    **dict.fromkeys(("key_scope", "deployment", "provider", "fingerprint"), _id_or_none),
    **dict.fromkeys(("provider_ref", "currency", "customer_id", "subject"), _id_or_none),
    **dict.fromkeys(("first_sent_at", "run_at", "updated_at", "expires_at"), _time),
    "since": _time,  # of its status, if an earlier write set it
    "closing": _closing_code,  # of a job that fails once nothing is open
    **dict.fromkeys(("message", "result"), scalar_fields),
}
_OWN_FIELDS: Final = tuple(one.name for one in fields(HistoryLine) if one.name != "image")
LINE_FIELDS: Final = (*_OWN_FIELDS, *IMAGE)
# What an erasure leaves of a line. A field that is not listed may name a person.
_PROOF_FIELDS: Final = {
    *(*_OWN_FIELDS, *PROOF_FIELDS),
    *("min_engine", "first_sent_at", "closing", "ended_version"),
}
