"""SES's emails in the ledger."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from oncely.providers.ses.mailer import KEY_HEADER
from oncely.testing.sandbox.ledger import ProviderLedger, RecordedEffect, job_key_in


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
    configuration_set: str | None
    at: datetime


class SesLedger(ProviderLedger):
    """What happened at SES."""

    def __init__(self) -> None:
        super().__init__()
        self._mails: list[SentEmail] = []

    @property
    def mails(self) -> tuple[SentEmail, ...]:
        with self.lock:
            return tuple(self._mails)

    def save(self, mail: SentEmail) -> None:
        with self.lock:
            self._mails.append(mail)

    def effects(self) -> Iterator[RecordedEffect]:
        for one in self.mails:
            key = job_key_in(one.headers.get(KEY_HEADER, ""))
            yield RecordedEffect(kind="emails", key=key, reference=one.message_id)
