"""Where a list goes on: a time, and what was shown of that very moment."""

import base64
import binascii
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from oncely.domain.errors import InvalidRequestError
from oncely.domain.keys import JobKey
from oncely.domain.times import instant, time_text
from oncely.ports import Listed


@dataclass(frozen=True)
class Cursor:
    """The order of equal times is an index's own affair, so what was shown of one is named."""

    at: datetime | None = None
    shown: frozenset[JobKey] = frozenset()

    @classmethod
    def of(cls, text: str | None) -> Self:
        """Read what a page gave; anything else is a mistake of the sender's."""
        if not text:
            return cls()
        try:
            at, shown = json.loads(base64.urlsafe_b64decode(text.encode()))
            return cls(instant(at), frozenset(JobKey(str(key)) for key in shown))
        except (ValueError, TypeError, RecursionError, binascii.Error):
            raise InvalidRequestError("this page is not known; begin with the first") from None

    def __str__(self) -> str:
        at = None if self.at is None else time_text(self.at)
        plain = json.dumps([at, sorted(self.shown)], separators=(",", ":"))
        return base64.urlsafe_b64encode(plain.encode()).decode()

    def has_shown(self, one: Listed) -> bool:
        """Whether an earlier page held it."""
        return one.at == self.at and one.job_key in self.shown

    def past(self, one: Listed) -> "Cursor":
        """Behind this one."""
        same = self.shown if one.at == self.at else frozenset()
        return Cursor(one.at, same | {one.job_key})
