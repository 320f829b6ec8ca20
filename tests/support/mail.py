"""The shipped mailer: over SES in memory with faults to come, and over an SES on this machine."""

from collections import deque
from collections.abc import Callable
from datetime import timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import boto3
from botocore.config import Config
from botocore.exceptions import EndpointConnectionError

from oncely.core.effect_outcomes import EffectOutcome
from oncely.core.keys import IdempotencyKey
from oncely.providers.interfaces import Email
from oncely.providers.ses.events import KEY_TAG
from oncely.providers.ses.mailer import KEY_HEADER, NO_RETRIES, SesMailer
from oncely.providers.ses.sandbox.model import (
    OWN_ERRORS,
    REFUSED_RECIPIENTS,
    MemorySes,
    SesError,
    SesModel,
)
from oncely.testing.memory_aws.calls import AwsCall, no_response
from oncely.testing.sandbox.http_messages import counting_ids
from tests.support.fakes import START
from tests.support.provider_fault import ProviderFault

if TYPE_CHECKING:
    from mypy_boto3_sesv2 import SESV2Client

SENDER: Final = "receipts@oncely.example"
RATE_LIMITED: Final = SesError(*OWN_ERRORS[429])
_ERRORS: Final = {
    ProviderFault.DECLINED: SesError(*REFUSED_RECIPIENTS["rejected"]),
    ProviderFault.SERVER_ERROR: SesError(*OWN_ERRORS[500]),
    ProviderFault.UNAUTHORIZED: SesError(*OWN_ERRORS[401]),
}
T = TypeVar("T")


class MemoryMail:
    """The shipped mailer over SES in memory: what it sent, and the faults of its next calls."""

    def __init__(
        self,
        *,
        event_wait: timedelta | None = None,
        new_id: Callable[[], str] | None = None,
    ) -> None:
        new_id = new_id or partial(counting_ids(), "mail")
        self.model = SesModel(now=lambda: START, new_id=new_id)
        self.event_wait = event_wait
        self.calls: list[IdempotencyKey] = []
        self.tags: list[str] = []  # of each call
        self._faults: deque[ProviderFault | SesError] = deque()
        self.client = MemorySes(self.model, intercept=self.intercept)
        new_client = cast("Callable[[], SESV2Client]", lambda: self.client)
        self.mailer = SesMailer(new_client=new_client, sender=SENDER)

    @property
    def sent(self) -> list[Email]:
        mails = self.model.mails
        return [Email(to=one.to[0], subject=one.subject, text=one.text) for one in mails]

    def fail_next(self, *faults: ProviderFault | SesError) -> None:
        self._faults.extend(faults)

    def send(self, email: Email, **named: Any) -> EffectOutcome:  # noqa: ANN401  # as the mailer's
        return self.mailer.send(email, **named)

    def intercept(self, call: AwsCall, perform: Callable[[], T]) -> T:
        headers, tags = call.request["Content"]["Simple"]["Headers"], call.request["EmailTags"]
        self.calls += [IdempotencyKey(one["Value"]) for one in headers if one["Name"] == KEY_HEADER]
        self.tags += [one["Value"] for one in tags if one["Name"] == KEY_TAG]
        match self._faults.popleft() if self._faults else None:
            case None:
                return perform()
            case ProviderFault.TIMEOUT_BEFORE:
                raise no_response(call)
            case ProviderFault.TIMEOUT_AFTER:
                perform()
                raise no_response(call)
            case ProviderFault.REFUSED_CONNECTION:
                raise EndpointConnectionError(endpoint_url="https://email.memory")
            case SesError() as error:
                raise error.to_client_error()
            case fault:
                raise _ERRORS[fault].to_client_error()


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
