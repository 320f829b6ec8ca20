"""Stripe's events: which ones Oncely receives, and what each means. A lookup at Stripe decides.

Only ids leave EventBridge and the endpoint. Names, addresses and card data do not.
"""

from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from oncely.core.effect_outcomes import Json
from oncely.core.hints import DropReason, ReportedState
from oncely.core.keys import JobKey, is_job_key
from oncely.plugins.events import (
    ChangedLater,
    EventEnvelope,
    EventRule,
    JobHint,
    ProviderEvent,
)

# Events about the object that a job made, with our metadata.
HINTS: Final = MappingProxyType(
    {
        "payment_intent.succeeded": ReportedState.SUCCEEDED,
        "payment_intent.payment_failed": ReportedState.FAILED,
        "payment_intent.canceled": ReportedState.FAILED,
        "payment_intent.processing": ReportedState.PROCESSING,
        "refund.failed": ReportedState.FAILED,
    }
)
# Events about what happened to a charge afterwards. A dispute has no metadata of ours.
LATER_CHANGES: Final = ("charge.dispute.closed", "charge.dispute.created", "charge.refunded")
_MAX_SECONDS: Final = 4_102_444_800  # the year 2100
_IDS: Final = ("id", "type", "created", "data.object.id")
_OWNER: Final = ("data.object.metadata.deployment", "data.object.metadata.job_key")
# Events of a connected account contain its id. Oncely charges only on its own account.
_OTHER_ACCOUNT: Final = ("account",)


def event_rules(source: str, *, bus: str | None = None) -> tuple[EventRule, ...]:
    """Return the rules of events from one source: an event bus of Stripe, or our endpoint."""
    exists: dict[str, Json] = {"deployment": [{"exists": True}], "job_key": [{"exists": True}]}
    return (
        EventRule(
            name="Effects",
            source=source,
            bus=bus,
            detail_types=tuple(sorted(HINTS)),
            fields=(*_IDS, *_OWNER),
            detail={"data": {"object": {"metadata": exists}}},
            absent=_OTHER_ACCOUNT,
        ),
        EventRule(
            name="LaterChanges",
            source=source,
            bus=bus,
            detail_types=LATER_CHANGES,
            fields=_IDS,
            absent=_OTHER_ACCOUNT,
        ),
    )


def read_event(envelope: EventEnvelope) -> ProviderEvent | DropReason:
    """Read one event, or return why it is dropped."""
    type_, detail = envelope.detail_type, envelope.detail
    if type_ not in HINTS and type_ not in LATER_CHANGES:
        return DropReason.UNKNOWN_TYPE
    if detail.get("account") is not None:
        return DropReason.OTHER_ACCOUNT
    match detail:
        case {
            "id": str(event_id),
            "type": str(named),
            "created": int(seconds),
            "data": {"object": {"id": str(object_id)} as about},
        } if named == type_ and 0 <= seconds < _MAX_SECONDS:
            content = _read_content(type_, about)
            if isinstance(content, DropReason):
                return content
            created = datetime.fromtimestamp(seconds, UTC)
            return ProviderEvent(
                event_id=event_id, type=type_, created=created, object_id=object_id, content=content
            )
    return DropReason.UNREADABLE


def _read_content(type_: str, about: object) -> JobHint | ChangedLater | DropReason:
    if type_ not in HINTS:
        return ChangedLater()
    match about:
        case {"metadata": {"deployment": str(deployment), "job_key": str(key)}} if is_job_key(key):
            return JobHint(deployment=deployment, job_key=JobKey(key), reported=HINTS[type_])
    return DropReason.NO_JOB  # not made by Oncely
