"""Amazon SES, version 2: which emails it accepts, what it sent, and its events.

The sandbox serves the model over HTTP; `MemorySes` is boto3's client of it in memory.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from botocore.exceptions import ClientError

from oncely.core.text import format_time
from oncely.providers.ses.events import SET_TAG
from oncely.providers.ses.mailer import KEY_HEADER
from oncely.testing.memory_aws.calls import MemoryClient, client_error, operation
from oncely.testing.sandbox.ledger import ProviderLedger, RecordedEffect, job_key_in

NOT_VERIFIED: Final = (
    "Email address is not verified. The following identities failed the check in region EU-WEST-1"
)
# Senders and recipients with these prefixes are rejected: prefix → error.
REFUSED_SENDERS: Final = {
    "unverified": (400, "MessageRejected", NOT_VERIFIED),
    "nomx": (400, "MailFromDomainNotVerifiedException", "The MAIL FROM domain is not verified."),
    "noset": (404, "NotFoundException", "Configuration set <receipts> does not exist."),
    # SES's response if the default configuration set of an identity was deleted.
    "oldset": (400, "BadRequestException", "Configuration set <receipts> does not exist."),
    "invalid": (400, "ValidationException", "1 validation error detected."),
    "unrecognized": (400, "UnrecognizedClientException", "The security token is invalid."),
    "expired": (400, "RequestExpired", "Request has expired."),
    "denied": (400, "AccessDeniedException", "User is not authorized to perform ses:SendEmail."),
    "paused": (400, "SendingPausedException", "Sending is paused for this account."),
    "suspended": (400, "AccountSuspendedException", "The account cannot send any more."),
    # SES says the same under the code that otherwise declines one email.
    "stopped": (400, "MessageRejected", "Sending paused for this account."),
    "blocked": (400, "MessageRejected", "Sending suspended for this account."),
}
REFUSED_RECIPIENTS: Final = {
    "rejected": (400, "MessageRejected", "The message contains invalid content."),
    "unverified": (400, "MessageRejected", NOT_VERIFIED),  # while the account is in SES's sandbox
}
# Errors that a fault injects: requested status → status, error and message.
OWN_ERRORS: Final = {
    401: (403, "UnrecognizedClientException", "The security token in the request is invalid."),
    409: (409, "ConflictException", "The resource is in use."),
    429: (429, "TooManyRequestsException", "Maximum sending rate exceeded."),
    500: (500, "InternalServiceErrorException", "An internal error occurred."),
    503: (503, "ServiceUnavailableException", "SES is temporarily unavailable."),
}
_ARGUMENTS: Final = frozenset(
    {"FromEmailAddress", "Destination", "Content", "EmailTags", "ConfigurationSetName"}
)


class SesError(Exception):
    """An error response: its status, SES's code and the reason."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message

    def to_client_error(self) -> ClientError:
        """The same as boto3 raises it."""
        metadata = {"HTTPStatusCode": self.status}
        return client_error(self.code, "SendEmail", self.message, ResponseMetadata=metadata)


@dataclass(frozen=True, kw_only=True)
class SentEmail:
    """An email that SES accepted."""

    message_id: str
    sender: str
    to: tuple[str, ...]
    subject: str
    text: str
    headers: Mapping[str, str]
    tags: Mapping[str, str]
    configuration_set: str | None
    at: datetime

    def sent_event(self) -> dict[str, Any]:
        """The event that its configuration set publishes, with its EventBridge detail type."""
        own = {name: [tag] for name, tag in self.tags.items()}
        return {
            "type": "Email Sent",
            "eventType": "Send",
            "mail": {
                "timestamp": format_time(self.at),
                "source": self.sender,
                "messageId": self.message_id,
                "destination": list(self.to),
                "tags": {SET_TAG: [self.configuration_set], **own},
            },
            "send": {},
        }


class SesModel(ProviderLedger):
    """An account that sends each email it accepts, also one that it has sent before."""

    def __init__(self, *, now: Callable[[], datetime], new_id: Callable[[], str]) -> None:
        super().__init__()
        self._now, self._new_id = now, new_id

    @property
    def mails(self) -> tuple[SentEmail, ...]:
        """What was sent, in that order."""
        return self.all(SentEmail)

    def send(self, request: Mapping[str, Any]) -> SentEmail:
        """Send the email of a request, or raise an error."""
        with self.lock:
            mail = self._parse(request)
            self.put(mail.message_id, mail)
        return mail

    def effects(self) -> Iterator[RecordedEffect]:
        for one in self.mails:
            key = job_key_in(one.headers.get(KEY_HEADER, ""))
            yield RecordedEffect(kind="emails", key=key, reference=one.message_id)

    def _parse(self, request: Mapping[str, Any]) -> SentEmail:
        if unknown := request.keys() - _ARGUMENTS:
            raise ValueError(f"the model of SES does not support {', '.join(sorted(unknown))}")
        try:
            simple = request["Content"]["Simple"]
            mail = SentEmail(
                message_id=self._new_id(),
                sender=request["FromEmailAddress"],
                to=tuple(request["Destination"]["ToAddresses"]),
                subject=simple["Subject"]["Data"],
                text=simple["Body"]["Text"]["Data"],
                headers={one["Name"]: one["Value"] for one in simple.get("Headers", ())},
                tags={one["Name"]: one["Value"] for one in request.get("EmailTags", ())},
                configuration_set=request.get("ConfigurationSetName"),
                at=self._now(),
            )
        except (KeyError, TypeError) as error:
            raise SesError(400, "BadRequestException", f"Missing: {error}") from error
        _check(mail)
        return mail


@dataclass
class MemorySes(MemoryClient):
    """The client of SES in memory. The mailer closes it after each email, and it stays usable."""

    service = "sesv2"
    model: SesModel

    @operation(writes=True)
    def send_email(self, **request: Any) -> dict[str, Any]:  # noqa: ANN401  # as boto3 takes them
        """Send one email."""
        try:
            mail = self.model.send(request)
        except SesError as error:
            raise error.to_client_error() from error
        request_id = str(UUID(int=len(self.model.mails)))  # of the length that AWS's have
        metadata = {"HTTPStatusCode": 200, "RequestId": request_id}
        return {"MessageId": mail.message_id, "ResponseMetadata": metadata}

    def close(self) -> None:
        """Do nothing: there is no connection."""


def _check(mail: SentEmail) -> None:
    for address in (mail.sender, *mail.to):
        if "@" not in address:
            raise SesError(400, "BadRequestException", f"Illegal address: {address}")
    _check_address(mail.sender, REFUSED_SENDERS)
    for address in mail.to:
        _check_address(address, REFUSED_RECIPIENTS)
    for value in mail.tags.values():
        if not all(letter.isascii() and (letter.isalnum() or letter in "_-") for letter in value):
            raise SesError(400, "BadRequestException", f"Invalid tag value: {value}")


def _check_address(address: str, refused: Mapping[str, tuple[int, str, str]]) -> None:
    for prefix, error in refused.items():
        if address.startswith(prefix):
            raise SesError(*error)
