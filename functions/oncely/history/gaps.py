"""Gaps in the history: stream records that were never written to the archive."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Final, Self

from oncely.core.text import format_time, parse_time, single_line
from oncely.history.lines import MAX_HISTORY_ID_LENGTH

_TIME_FIELDS: Final = frozenset({"first_at", "last_at", "recorded_at", "started_at", "rows_from"})
# A row holds when its change was decided, the stream when it was written. The first may be
# earlier, by a slow write and by clock skew.
_MAX_WRITE_DELAY: Final = timedelta(minutes=15)
_NAME_LENGTH: Final = 32


@dataclass(frozen=True, kw_only=True)
class _Document:
    """A small record that is stored as JSON."""

    def to_dict(self) -> dict[str, object]:
        """The fields that have a value."""
        held = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: format_time(value) if isinstance(value, datetime) else value
            for name, value in held.items()
            if value is not None
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """Parse it. Fields that this version does not know are ignored."""
        names = [field.name for field in fields(cls) if field.name in stored]
        held: dict[str, Any] = {
            name: datetime.fromisoformat(stored[name]) if name in _TIME_FIELDS else stored[name]
            for name in names
        }
        return cls(**held)


@dataclass(frozen=True, kw_only=True)
class HistoryGap(_Document):
    """A range of one stream shard that is missing in the history."""

    name: str  # the same for the same part
    recorded_at: datetime
    reason: str = ""
    stream_arn: str = ""
    shard: str = ""
    first_sequence: str = ""
    last_sequence: str = ""
    records: int = 0
    first_at: datetime | None = None  # None if unknown: it may have begun at any time
    last_at: datetime | None = None

    def is_closed_by(self, *, scanned_since: datetime, rows_from: datetime | None) -> bool:
        """Whether a scan that began then covers everything that this gap lost.

        `rows_from` is the oldest change that the scan recorded. None if it recorded every row.
        """
        if self.recorded_at > scanned_since:
            return False
        if rows_from is None or self.first_at is None:
            return rows_from is None
        return rows_from <= self.first_at - _MAX_WRITE_DELAY


@dataclass(frozen=True, kw_only=True)
class BackfillProgress(_Document):
    """How far a scan of the job table got. An interrupted scan resumes there."""

    generation: str
    started_at: datetime
    rows_from: datetime | None = None  # rows that changed before are left out
    after: str | None = None  # the last job key whose line is written
    batches: int = 0
    rows: int = 0
    lines: int = 0
    done: bool = False

    def can_continue_as(self, wanted: "BackfillProgress") -> bool:
        """Whether an interrupted scan can be resumed as the requested one."""
        return not self.done and (self.generation, self.rows_from) == (
            wanted.generation,
            wanted.rows_from,
        )


def gap_from_failure(body: str, *, recorded_at: datetime) -> HistoryGap:
    """The gap of a failure message. An unreadable message becomes a gap without details."""
    try:
        failure: Any = json.loads(body)
        batch = failure["DDBStreamBatchInfo"]
        batch_start = [str(batch[name]) for name in ("streamArn", "shardId", "startSequenceNumber")]
        return HistoryGap(
            name=_gap_name("|".join(batch_start)),
            recorded_at=recorded_at,
            reason=single_line(
                str(failure.get("requestContext", {}).get("condition", "")), MAX_HISTORY_ID_LENGTH
            ),
            stream_arn=batch_start[0],
            shard=batch_start[1],
            first_sequence=batch_start[2],
            last_sequence=str(batch["endSequenceNumber"]),
            records=int(batch["batchSize"]),
            first_at=parse_time(batch["approximateArrivalOfFirstRecord"]),
            last_at=parse_time(batch["approximateArrivalOfLastRecord"]),
        )
    except (AttributeError, LookupError, TypeError, ValueError):
        return HistoryGap(
            name=_gap_name(body), recorded_at=recorded_at, reason="unreadable failure message"
        )


def _gap_name(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_NAME_LENGTH]
