"""Provider events in EventBridge's envelope, and what a plug-in reads from them.

An event may be late, repeated, out of order or forged. It only says where to look.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Self, TypeAlias

from oncely.core.effect_outcomes import Json
from oncely.core.errors import InvalidInputError
from oncely.core.hints import DropReason, HintAction, ReportedState
from oncely.core.job_row import EventMark, JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event
from oncely.core.text import format_minute, reason_line

# More than EventBridge sends. Anything longer is not an event.
MAX_ENVELOPE_LENGTH: Final = 262_144


def webhook_source(provider: str) -> str:
    """The source of events that arrived at the HTTPS endpoint of a provider."""
    return f"oncely.webhook.{provider}"


@dataclass(frozen=True, kw_only=True)
class EventEnvelope:
    """An envelope of EventBridge. Events of an HTTPS endpoint are wrapped in one as well."""

    source: str
    account: str  # of AWS
    detail_type: str
    detail: Mapping[str, Json]

    @classmethod
    def parse(cls, body: str) -> Self:
        """Parse a message of the intake queue. Raises InvalidInputError if it is malformed."""
        if len(body) > MAX_ENVELOPE_LENGTH:
            raise InvalidInputError(f"an event has at most {MAX_ENVELOPE_LENGTH} characters")
        try:
            read: dict[str, Any] = json.loads(body)
        except (ValueError, RecursionError):
            raise InvalidInputError("an event is a JSON object") from None
        match read:
            case {
                "source": str(source),
                "account": str(account),
                "detail-type": str(type_),
                "detail": dict(detail),
            }:
                return cls(source=source, account=account, detail_type=type_, detail=detail)
            case _:
                raise InvalidInputError(
                    "an event has a source, an account, a detail-type and a detail"
                )

    def to_body(self) -> str:
        """The envelope as a message of the intake queue."""
        named = {"source": self.source, "account": self.account, "detail-type": self.detail_type}
        return json.dumps({**named, "detail": self.detail})


@dataclass(frozen=True, kw_only=True)
class EventRule:
    """Events that reach the intake: those that match, with only these fields of their detail.

    A field is a path, such as `data.object.id`. Each must be in every event that matches.
    """

    name: str  # unique in its plug-in, such as `Effects`
    source: str
    detail_types: tuple[str, ...]
    fields: tuple[str, ...]
    bus: str | None = None  # None for the account's default bus
    detail: Mapping[str, Json] = field(default_factory=dict)  # the rest of the pattern
    absent: tuple[str, ...] = ()  # fields that our own events do not have

    @property
    def pattern(self) -> dict[str, Json]:
        """The pattern in EventBridge's language."""
        absent: dict[str, Json] = {name: [{"exists": False}] for name in self.absent}
        detail = {**self.detail, **absent}
        types = list[Json](self.detail_types)
        pattern: dict[str, Json] = {"source": [self.source], "detail-type": types}
        return {**pattern, "detail": detail} if detail else pattern

    def reduce(self, detail: Mapping[str, Json]) -> dict[str, Json] | None:
        """Keep only the fields. Returns None if the event is not ours."""
        if any(detail.get(name) is not None for name in self.absent):
            return None
        kept: dict[str, Json] = {}
        for path in self.fields:
            names = path.split(".")
            value: Json = dict(detail)
            for name in names:
                if not isinstance(value, Mapping) or name not in value:
                    return None
                value = value[name]
            _put(kept, names, value)
        return kept


def _put(into: dict[str, Json], names: Sequence[str], value: Json) -> None:
    for name in names[:-1]:
        inner = into.setdefault(name, {})
        if not isinstance(inner, dict):
            return
        into = inner
    into[names[-1]] = value


@dataclass(frozen=True, kw_only=True)
class JobHint:
    """An event about the effect of one job: it may bring the job's lookup forward."""

    deployment: str | None
    job_key: JobKey
    reported: ReportedState


@dataclass(frozen=True)
class ChangedLater:
    """An event about a change after an effect. Only a lookup tells what changed."""


@dataclass(frozen=True, kw_only=True)
class ClaimReport:
    """An event about the effect of one claim, which its tag names: see `Call.claim_tag`."""

    job_key: JobKey
    tag: str
    mark: EventMark  # whether it proves the effect
    code: str | None = None  # never free text, which may contain personal data


# What a plug-in reads from an event. A new kind needs a case in `EventIntake`.
EventContent: TypeAlias = JobHint | ChangedLater | ClaimReport


@dataclass(frozen=True, kw_only=True)
class ProviderEvent:
    """An event as its plug-in has read it. None of it is trusted."""

    event_id: str
    type: str  # the provider's name for it
    created: datetime
    object_id: str  # of what it is about, at the provider
    content: EventContent


class ChangeKind(StrEnum):
    """What happened to an effect after it succeeded. Subscribers of our event read these."""

    REFUNDED = "refunded"
    DISPUTED = "disputed"
    DISPUTE_CLOSED = "dispute closed"


@dataclass(frozen=True, kw_only=True)
class EffectChange:
    """A change of an effect as the provider has it now, without personal data."""

    kind: ChangeKind
    deployment: str | None  # of the effect, as its metadata has it
    job_key: JobKey
    ref: str  # of the effect, as in the job's row
    summary: str
    by_us: bool = False  # another job of this deployment caused all of it
    respond_by: datetime | None = None
    details: Mapping[str, Json] = field(default_factory=dict)  # for our own event

    @property
    def reason(self) -> str:
        """The line in the job's evidence. Equal for the same state, so it is added once."""
        deadline = f"; respond by {format_minute(self.respond_by)}" if self.respond_by else ""
        return reason_line(f"the provider reports: {self.summary}{deadline}")


def is_recorded(row: JobRow, change: EffectChange) -> bool:
    """Whether the row already has this change: a duplicate or a late event."""
    return any(entry.reason == change.reason for entry in row.evidence)


def action_for_change(
    row: JobRow | None, change: EffectChange, *, deployment: str | None
) -> HintAction | DropReason | None:
    """Why a change is not recorded now. Returns None if it is."""
    if row is None:
        return DropReason.NO_JOB
    if not row.deployment == change.deployment == deployment:
        return DropReason.OTHER_DEPLOYMENT
    if row.provider_ref != change.ref:
        return DropReason.OTHER_OBJECT
    if row.allows(Event.MARK_UNKNOWN):
        return HintAction.WAIT
    return DropReason.NOT_NEEDED if is_recorded(row, change) else None
