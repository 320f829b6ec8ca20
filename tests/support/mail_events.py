"""SES's events about an email, as they reach the intake queue."""

from collections.abc import Mapping
from typing import Any

from oncely.core.keys import JobKey, claim_tag
from oncely.plugins.events import EventEnvelope
from oncely.providers.ses.events import event_rules, job_tag
from oncely.testing.world import TAG_KEY

ACCOUNT = "123456789012"
SET = "receipts"
TYPES = {
    "Send": "Email Sent",
    "Bounce": "Email Bounced",
    "Complaint": "Email Complaint Received",
    "Delivery": "Email Delivered",
}


def mail_event(
    name: str,
    *,
    key: JobKey,
    fence: int = 1,
    deployment: str | None = None,
    message_id: str = "mail_1",
    tag_key: str = TAG_KEY,
    **changes: Any,  # noqa: ANN401  # tags of the email
) -> dict[str, Any]:
    """The event as SES publishes it, with addresses and subject."""
    tags = {
        "ses:configuration-set": [SET],
        "oncely_key": [claim_tag(key, deployment=deployment, fence=fence, key=tag_key)],
        "oncely_job": [job_tag(key)],
        **changes,
    }
    details = {
        "Bounce": {
            "bounceType": "Permanent",
            "bouncedRecipients": [{"emailAddress": "seven@example.com"}],
        }
    }
    return {
        "version": "0",
        "id": "12345678-1234-1234-1234-123456789012",
        "source": "aws.ses",
        "account": ACCOUNT,
        "detail-type": TYPES[name],
        "detail": {
            "eventType": name,
            "mail": {
                "timestamp": "2026-11-16T09:00:00.000Z",
                "source": "receipts@example.com",
                "sendingAccountId": ACCOUNT,
                "messageId": message_id,
                "destination": ["seven@example.com"],
                "tags": tags,
            },
            name.lower(): details.get(name, {}),
        },
    }


def as_delivered(event: Mapping[str, Any]) -> str:
    """The message of the intake queue: only the fields that the rule of the event passes on."""
    for rule in event_rules(SET):
        if event["detail-type"] in rule.detail_types:
            detail = rule.reduce(event["detail"])
            assert detail is not None
            return EventEnvelope(
                source=event["source"],
                account=event["account"],
                detail_type=event["detail-type"],
                detail=detail,
            ).to_body()
    raise AssertionError(f"no rule passes on {event['detail-type']}")
