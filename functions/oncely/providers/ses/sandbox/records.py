"""SES's emails in the ledger."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from oncely.testing.sandbox.ledger import RequestLedger


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


class SesLedger(RequestLedger):
    """What happened at SES."""

    def __init__(self) -> None:
        super().__init__()
        self._mails: list[SentEmail] = []

    @property
    def mails(self) -> tuple[SentEmail, ...]:
        with self.lock:
            return tuple(self._mails)

    def _save_entry(self, entry: object, at: datetime) -> None:
        if isinstance(entry, SentEmail):
            self._mails.append(entry)
        else:
            super()._save_entry(entry, at)

    def to_dict(self) -> dict[str, Any]:
        with self.lock:
            return {**super().to_dict(), "mails": [asdict(one) for one in self.mails]}
