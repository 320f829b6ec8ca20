"""A mailer in memory, with faults as its arguments, and a client for an SES on this machine."""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final

import boto3
from botocore.config import Config

from oncely.adapters.ses_mail import ONCE
from oncely.domain.answers import Answer, Done, NotSent, Refused, Unclear
from oncely.domain.keys import ProviderKey
from oncely.providers import Mail
from tests.support.payments import Fault

if TYPE_CHECKING:
    from mypy_boto3_sesv2 import SESV2Client

SENDER: Final = "receipts@oncely.example"

# What goes wrong with one call; an answer, such as a limited rate, is given as it is.
Trouble = Fault | NotSent | Refused


@dataclass
class FakeMailer:
    """`sent` is the truth that tests compare with: what reached somebody's mailbox."""

    sent: list[Mail] = field(default_factory=list)
    calls: list[ProviderKey] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    faults: deque[Trouble] = field(default_factory=deque)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def fails(self, *faults: Trouble) -> None:
        """The next mails go wrong like this, one after the other."""
        self.faults.extend(faults)

    def send(self, mail: Mail, *, key: ProviderKey, tag: str = "") -> Answer:
        with self.lock:
            self.calls.append(key)
            self.tags.append(tag)
            match self.faults.popleft() if self.faults else None:
                case None:
                    return self._sent(mail)
                case Fault.TIMEOUT_BEFORE:
                    return Unclear("timeout")
                case Fault.TIMEOUT_AFTER:
                    self._sent(mail)
                    return Unclear("timeout")
                case Fault.REFUSED_CONNECTION:
                    return NotSent("connection refused")
                case Fault.DECLINED:
                    return Refused("the mail is refused", code="MessageRejected")
                case Fault.UNAUTHORIZED:
                    return NotSent("our credentials are refused", alarm=True)
                case answer:
                    return answer

    def _sent(self, mail: Mail) -> Done:
        self.sent.append(mail)
        ref = f"mail_{len(self.sent)}"
        return Done(f"sent to {mail.to} as {ref}", ref, {"message_id": ref})


@contextmanager
def ses_client(url: str, *, config: Config | None = ONCE) -> Iterator["SESV2Client"]:
    """A client as ours is made, but for another address; None: as boto3 makes it."""
    client = _session().client("sesv2", endpoint_url=url, config=config)
    yield client
    client.close()


@cache
def _session() -> boto3.Session:
    # Reading the description of a service takes longer than most tests.
    return boto3.Session(
        aws_access_key_id="test", aws_secret_access_key="test", region_name="eu-west-1"
    )
