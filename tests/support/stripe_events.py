"""Stripe's events as EventBridge delivers them, with all that Stripe puts into them."""

import json
from collections.abc import Mapping
from typing import Any

from oncely.core.effect_outcomes import Json

SOURCE = "aws.partner/stripe.com/ed_test_61RfW"
ACCOUNT = "123456789012"
EMAIL = "ada@example.com"


def stripe_event(
    type_: str,
    object_id: str,
    *,
    deployment: str | None = "dev",
    job_key: str | None = "payment.charge:order_18452",
    event_id: str = "evt_1",
    created: int = 1_790_000_000,
    **more: Json,
) -> dict[str, Any]:
    """An event as Stripe makes it. Without a deployment, its object has no metadata."""
    named = {"deployment": deployment, "job_key": job_key, "order_id": "18452"}
    metadata = {name: value for name, value in named.items() if deployment and value}
    about = {"id": object_id, "metadata": metadata, "receipt_email": EMAIL, "amount": 1000}
    return {
        "id": event_id,
        "object": "event",
        "type": type_,
        "created": created,
        "livemode": False,
        "data": {"object": about},
        **more,
    }


def envelope(
    event: Mapping[str, Json], *, source: str = SOURCE, account: str = ACCOUNT, **more: Json
) -> str:
    """An envelope around an event, as EventBridge passes it to a rule."""
    return json.dumps(
        {
            "version": "0",
            "id": "7bf73129-1428-4cd3-a780-95db273d1602",
            "detail-type": event["type"],
            "source": source,
            "account": account,
            "time": "2026-11-17T18:00:00Z",
            "region": "eu-central-1",
            "resources": [],
            "detail": dict(event),
            **more,
        }
    )
