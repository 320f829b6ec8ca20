"""A mailer in memory, with faults as its arguments, and a client for an SES on this machine."""

import threading
from collections import deque
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final

import boto3
from botocore.config import Config

from oncely.domain.effect_outcomes import Ambiguous, Declined, EffectOutcome, NotSent, Succeeded
from oncely.domain.keys import IdempotencyKey
from oncely.providers.interfaces import Email
from oncely.providers.ses.mailer import NO_RETRIES, SesMailer
from tests.support.payments import PaymentFault

if TYPE_CHECKING:
    from mypy_boto3_sesv2 import SESV2Client

SENDER: Final = "receipts@oncely.example"

# What goes wrong with one call; an answer, such as a limited rate, is given as it is.
MailFault = PaymentFault | NotSent | Declined


@dataclass
class FakeMailer:
    """`sent` is the truth that tests compare with: what reached somebody's mailbox."""

    sent: list[Email] = field(default_factory=list)
    calls: list[IdempotencyKey] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    faults: deque[MailFault] = field(default_factory=deque)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def fail_next(self, *faults: MailFault) -> None:
        self.faults.extend(faults)

    def send(self, email: Email, *, idempotency_key: IdempotencyKey, tag: str) -> EffectOutcome:
        with self.lock:
            self.calls.append(idempotency_key)
            self.tags.append(tag)
            match self.faults.popleft() if self.faults else None:
                case None:
                    return self._sent(email)
                case PaymentFault.TIMEOUT_BEFORE:
                    return Ambiguous("timeout")
                case PaymentFault.TIMEOUT_AFTER:
                    self._sent(email)
                    return Ambiguous("timeout")
                case PaymentFault.REFUSED_CONNECTION:
                    return NotSent("connection refused")
                case PaymentFault.DECLINED:
                    return Declined("the mail is refused", code="MessageRejected")
                case PaymentFault.UNAUTHORIZED:
                    return NotSent("our credentials are refused", credentials_rejected=True)
                case answer:
                    return answer

    def _sent(self, email: Email) -> Succeeded:
        self.sent.append(email)
        ref = f"mail_{len(self.sent)}"
        return Succeeded(f"sent to {email.to} as {ref}", ref, {"message_id": ref})


def ses_mailer(url: str, *, sender: str = SENDER, config: Config = NO_RETRIES) -> SesMailer:
    return SesMailer(new_client=lambda: ses_client(url, config=config), sender=sender)


def ses_client(url: str, *, config: Config | None) -> "SESV2Client":
    """A client for another address. Pass None for boto3's own settings."""
    return _session().client("sesv2", endpoint_url=url, config=config)


@cache
def _session() -> boto3.Session:
    # Reading the description of a service takes longer than most tests.
    return boto3.Session(
        aws_access_key_id="test", aws_secret_access_key="test", region_name="eu-west-1"
    )
