"""Where the next page of a list starts: a time, and the jobs of that time already shown."""

import base64
import binascii
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from oncely.domain.errors import InvalidRequestError
from oncely.domain.keys import JobKey
from oncely.domain.text import format_time, parse_time
from oncely.ports import JobListEntry


@dataclass(frozen=True)
class ListCursor:
    """An index may order equal times differently each time, so shown jobs are listed by key."""

    at: datetime | None = None
    shown: frozenset[JobKey] = frozenset()

    @classmethod
    def parse(cls, text: str | None) -> Self:
        if not text:
            return cls()
        try:
            at, shown = json.loads(base64.urlsafe_b64decode(text.encode()))
            return cls(parse_time(at), frozenset(JobKey(str(key)) for key in shown))
        except (ValueError, TypeError, RecursionError, binascii.Error):
            raise InvalidRequestError("invalid cursor: start from the first page") from None

    def __str__(self) -> str:
        at = None if self.at is None else format_time(self.at)
        plain = json.dumps([at, sorted(self.shown)], separators=(",", ":"))
        return base64.urlsafe_b64encode(plain.encode()).decode()

    def already_shown(self, entry: JobListEntry) -> bool:
        return entry.at == self.at and entry.job_key in self.shown

    def after(self, entry: JobListEntry) -> "ListCursor":
        same = self.shown if entry.at == self.at else frozenset()
        return ListCursor(entry.at, same | {entry.job_key})
