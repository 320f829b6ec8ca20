"""Where a list goes on: a time, and what was shown of that very moment."""

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
    """The order of equal times is an index's own affair, so what was shown of one is named."""

    at: datetime | None = None
    shown: frozenset[JobKey] = frozenset()

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """Read what a page gave; anything else is a mistake of the sender's."""
        if not text:
            return cls()
        try:
            at, shown = json.loads(base64.urlsafe_b64decode(text.encode()))
            return cls(parse_time(at), frozenset(JobKey(str(key)) for key in shown))
        except (ValueError, TypeError, RecursionError, binascii.Error):
            raise InvalidRequestError("this page is not known; begin with the first") from None

    def __str__(self) -> str:
        at = None if self.at is None else format_time(self.at)
        plain = json.dumps([at, sorted(self.shown)], separators=(",", ":"))
        return base64.urlsafe_b64encode(plain.encode()).decode()

    def already_shown(self, entry: JobListEntry) -> bool:
        """Whether an earlier page held it."""
        return entry.at == self.at and entry.job_key in self.shown

    def after(self, entry: JobListEntry) -> "ListCursor":
        """Behind this one."""
        same = self.shown if entry.at == self.at else frozenset()
        return ListCursor(entry.at, same | {entry.job_key})
