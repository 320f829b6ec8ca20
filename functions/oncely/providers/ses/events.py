"""SES's events: which ones Oncely receives, and what each means. No address leaves EventBridge.

Each identifies the email by the tags of the request that sent it.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final

from oncely.core.effect_outcomes import Json
from oncely.core.hints import DropReason
from oncely.core.job_row import EventMark
from oncely.core.keys import JobKey, is_job_key
from oncely.plugins.events import ClaimReport, EventEnvelope, EventRule, ProviderEvent

SOURCE: Final = "aws.ses"
KEY_TAG: Final = "oncely_key"
JOB_TAG: Final = "oncely_job"
# SES's limit for the value of a tag.
MAX_TAG_LENGTH: Final = 256
SET_TAG: Final = "ses:configuration-set"  # added by SES

# By detail type: the name of the event, its meaning, and the path of its code.
_EVENTS: Final[Mapping[str, tuple[str, EventMark, tuple[str, ...]]]] = MappingProxyType(
    {
        "Email Sent": ("Send", EventMark.PROOF, ()),
        "Email Bounced": ("Bounce", EventMark.REPORT, ("bounce", "bounceType")),
        "Email Complaint Received": ("Complaint", EventMark.REPORT, ()),
    }
)
# As SES names them in an event destination.
EVENT_TYPES: Final = tuple(name.upper() for name, _, _ in _EVENTS.values())
_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,255}")
_COMMON: Final = ("eventType", "mail.timestamp", "mail.messageId")
_TAGS: Final = (f"mail.tags.{KEY_TAG}", f"mail.tags.{JOB_TAG}")


def job_tag(key: JobKey) -> str | None:
    """The job key as a tag, which allows no colon. Returns None if it is too long for one."""
    tag = base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")
    return tag if len(tag) <= MAX_TAG_LENGTH else None


def event_rules(configuration_set: str) -> tuple[EventRule, ...]:
    """Return the rules of events about emails of this configuration set."""
    exists: dict[str, Json] = {name: [{"exists": True}] for name in (KEY_TAG, JOB_TAG)}
    tags: dict[str, Json] = {SET_TAG: [configuration_set], **exists}
    bounced = "Email Bounced"
    by_name: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
        "Emails": (tuple(one for one in _EVENTS if one != bounced), ()),
        "Bounces": ((bounced,), ("bounce.bounceType",)),
    }
    return tuple(
        EventRule(
            name=name,
            source=SOURCE,
            detail_types=types,
            fields=(*_COMMON, *_TAGS, *more),
            detail={"mail": {"tags": tags}},
        )
        for name, (types, more) in by_name.items()
    )


def read_event(envelope: EventEnvelope) -> ProviderEvent | DropReason:
    """Read one event, or return why it is dropped."""
    if envelope.detail_type not in _EVENTS:
        return DropReason.UNKNOWN_TYPE
    name, mark, path = _EVENTS[envelope.detail_type]
    match envelope.detail:
        case {
            "eventType": str(named),
            "mail": {
                "timestamp": str(sent_at),
                "messageId": str(message_id),
                "tags": {"oncely_key": [str(tag)], "oncely_job": [str(job)]},
            },
        } if named == name and _ID.fullmatch(message_id):
            key, created = _job_key(job), _time(sent_at)
            if key is None:
                return DropReason.NO_JOB
            if created is None:
                return DropReason.UNREADABLE
            return ProviderEvent(
                event_id=f"{name}/{message_id}",
                type=name,
                created=created,
                object_id=message_id,
                content=ClaimReport(
                    job_key=key, tag=tag, mark=mark, code=_code(envelope.detail, path)
                ),
            )
    return DropReason.UNREADABLE


def _job_key(tag: str) -> JobKey | None:
    try:
        key = base64.b64decode(tag + "=" * (-len(tag) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    return JobKey(key) if is_job_key(key) else None


def _time(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo is not None else None


def _code(detail: Mapping[str, Json], path: tuple[str, ...]) -> str | None:
    value: Json = dict(detail)
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if path and isinstance(value, str) and _ID.fullmatch(value) else None
