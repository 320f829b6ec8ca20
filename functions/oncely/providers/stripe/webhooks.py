"""Verifies the signature of events at the HTTPS endpoint, with Stripe's own SDK."""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Final

from stripe import SignatureVerificationError, WebhookSignature

from oncely.core.effect_outcomes import Json

# As old as Stripe's own default allows, and as far ahead: the SDK accepts any time in the future,
# so that one request could be replayed for years. A replay is a duplicate, which changes nothing.
TOLERANCE_SECONDS: Final = 300


def verify_webhook(body: str, header: str, *, secrets: Sequence[str]) -> Mapping[str, Json] | None:
    """Return the event, if one of the secrets signed it. While one is rotated, there are two."""
    if not any(_is_signed(body, header, secret) for secret in secrets):
        return None
    try:
        event = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def _is_signed(body: str, header: str, secret: str) -> bool:
    try:
        WebhookSignature.verify_header(body, header, secret, TOLERANCE_SECONDS)
    except (SignatureVerificationError, TypeError, ValueError):
        return False  # or the body is not text, so Stripe cannot have signed it
    named = (part.partition("=") for part in header.split(","))
    signed_at = next(int(value) for name, _, value in named if name == "t")
    return signed_at <= time.time() + TOLERANCE_SECONDS
