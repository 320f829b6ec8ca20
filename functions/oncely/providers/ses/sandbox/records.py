"""What the ledger keeps of SES: mail that left."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, kw_only=True)
class SentEmail:
    """One e-mail that left for its recipients."""

    message_id: str
    sender: str
    to: tuple[str, ...]
    subject: str
    text: str
    headers: Mapping[str, str]
    tags: Mapping[str, str]
    at: datetime
