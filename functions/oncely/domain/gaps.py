"""Gaps of the history: changes that the stream's consumer gave up on before they were written."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Final, Self

from oncely.domain.text import format_time

_TIME_FIELDS: Final = frozenset({"first_at", "last_at", "recorded_at", "started_at", "rows_from"})
# A row says when its change was decided; the stream, when the table took it. The first may be
# earlier by a worker's slow write and by what two clocks differ.
_MAX_WRITE_DELAY: Final = timedelta(minutes=15)


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
        """Read it back; fields that this version does not know are left alone."""
        names = [field.name for field in fields(cls) if field.name in stored]
        held: dict[str, Any] = {
            name: datetime.fromisoformat(stored[name]) if name in _TIME_FIELDS else stored[name]
            for name in names
        }
        return cls(**held)


@dataclass(frozen=True, kw_only=True)
class HistoryGap(_Document):
    """A part of one shard of the stream. Its rows' changes are not in the history."""

    name: str  # the same for the same part
    recorded_at: datetime
    reason: str = ""
    stream_arn: str = ""
    shard: str = ""
    first_sequence: str = ""
    last_sequence: str = ""
    records: int = 0
    first_at: datetime | None = None  # None: not known, so it may have begun at any time
    last_at: datetime | None = None

    def is_closed_by(self, *, scanned_since: datetime, rows_from: datetime | None) -> bool:
        """Whether a scan that began then saw everything that this gap lost.

        `rows_from` is the oldest change that the scan recorded; None: it recorded every row.
        """
        if self.recorded_at > scanned_since:
            return False
        if rows_from is None or self.first_at is None:
            return rows_from is None
        return rows_from <= self.first_at - _MAX_WRITE_DELAY


@dataclass(frozen=True, kw_only=True)
class BackfillProgress(_Document):
    """How far a scan of the job table came; one that was interrupted goes on from there."""

    generation: str
    started_at: datetime
    rows_from: datetime | None = None  # rows that changed before are left out
    after: str | None = None  # the last job key whose line is written
    batches: int = 0
    rows: int = 0
    lines: int = 0
    done: bool = False

    def can_continue_as(self, wanted: "BackfillProgress") -> bool:
        """Whether it was interrupted, and doing the rest of it does what is wanted."""
        return not self.done and (self.generation, self.rows_from) == (
            wanted.generation,
            wanted.rows_from,
        )
