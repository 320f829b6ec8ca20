"""Provider events as the row stores them: bounded, and separate from the evidence."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

# One email has a few. A provider that reports more must not fill the row.
MAX_EVENT_RECORDS: Final = 10


class EventMark(StrEnum):
    """What an event means for its job. The values are stored, so never rename them."""

    HINT = "hint"  # a reason to look up now; never the outcome itself
    PROOF = "proof"  # the effect happened, under the claim in its tag
    REPORT = "report"  # a later result, such as a bounce


@dataclass(frozen=True, kw_only=True)
class EventRecord:
    """A provider event. It has only ids and codes, no personal data."""

    at: datetime  # when we received it
    provider: str
    name: str  # the provider's name for it
    mark: EventMark
    fence: int | None = None  # the claim in its tag
    ref: str | None = None  # the provider reference
    code: str | None = None  # such as the type of a bounce

    @property
    def proves(self) -> bool:
        """Whether it proves that the effect happened."""
        return self.mark is EventMark.PROOF

    def equals_except_time(self, other: "EventRecord") -> bool:
        """Whether both are deliveries of one event."""
        return replace(self, at=other.at) == other


def add_record(events: tuple[EventRecord, ...], event: EventRecord) -> tuple[EventRecord, ...]:
    """Add an event, unless it exists. In a full list, a proof replaces another."""
    if any(event.equals_except_time(one) for one in events):
        return events
    if len(events) < MAX_EVENT_RECORDS:
        return (*events, event)
    others = [one for one in events if not one.proves]
    if not event.proves or not others:
        return events
    return (*(one for one in events if one is not others[-1]), event)
