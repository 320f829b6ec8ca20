"""Gaps of the history: changes that the stream's consumer gave up on before they were written."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final

from oncely.domain.times import time_text

_TIMES: Final = frozenset({"first_at", "last_at", "recorded_at"})


@dataclass(frozen=True, kw_only=True)
class Gap:
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

    def closed_by(self, *, scanned_since: datetime, rows_from: datetime | None) -> bool:
        """Whether a scan that began then saw everything that this gap lost.

        `rows_from` is the oldest change that the scan recorded; None: it recorded every row.
        """
        if self.recorded_at > scanned_since:
            return False
        return rows_from is None or (self.first_at is not None and rows_from <= self.first_at)

    def to_dict(self) -> dict[str, object]:
        """The gap as JSON holds it."""
        held = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: time_text(value) if isinstance(value, datetime) else value
            for name, value in held.items()
            if value is not None
        }

    @classmethod
    def from_dict(cls, gap: Mapping[str, Any]) -> "Gap":
        """The gap that JSON holds; fields that this version does not know are left alone."""
        names = [field.name for field in fields(cls) if field.name in gap]
        held: dict[str, Any] = {
            name: datetime.fromisoformat(gap[name]) if name in _TIMES else gap[name]
            for name in names
        }
        return cls(**held)
