"""SES's emails in the ledger."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, kw_only=True)
class SentEmail:
    """An email that was sent."""

    message_id: str
    sender: str
    to: tuple[str, ...]
    subject: str
    text: str
    headers: Mapping[str, str]
    tags: Mapping[str, str]
    at: datetime
