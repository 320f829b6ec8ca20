"""Amazon SES's HTTP API, version 2: sending an email."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from oncely.domain.text import format_time
from oncely.providers.ses.events import SET_TAG
from oncely.providers.ses.sandbox.records import SentEmail, SesLedger
from oncely.testing.sandbox.faults import FaultKind
from oncely.testing.sandbox.http_messages import (
    SandboxHandler,
    SandboxRequest,
    SandboxResponse,
    new_id,
)
from oncely.testing.sandbox.provider_sandbox import ProviderSandbox, SandboxOptions

SEND_PATH: Final = "/v2/email/outbound-emails"
SIGNATURE_PREFIX: Final = "AWS4-HMAC-SHA256 "
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


class SesApiError(Exception):
    """An error response."""

    def __init__(self, code: str, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        # AWS sends the error's name in a header, and the reason in the body.
        self.response = SandboxResponse(status, {"message": message}, {"x-amzn-ErrorType": code})


class SesSandbox(ProviderSandbox):
    """The part of SES that email jobs use."""

    requests: ClassVar = {"send": {"method": "POST", "path": SEND_PATH}}
    settings: ClassVar = {"sender_address": "receipts@example.com"}
    fault_rates = ((FaultKind.ACCEPT_THEN_DROP, "send", 1), (FaultKind.RATE_LIMIT, "send", 2))

    def __init__(self, options: SandboxOptions) -> None:
        super().__init__(options)
        self.ledger: SesLedger = SesLedger()

    def serves(self, path: str) -> bool:
        return path.startswith("/v2/email/")

    def error_response(self, request: SandboxRequest, *, status: int) -> SandboxResponse:
        actual, code, message = OWN_ERRORS[status]
        return _with_headers(request, SesApiError(code, message, status=actual).response)

    def handle(
        self, request: SandboxRequest, *, wrap: Callable[[SandboxHandler], SandboxResponse]
    ) -> SandboxResponse:
        try:
            _check_credentials(request)
            response = wrap(self._send(request))
        except SesApiError as error:
            response = error.response
        return _with_headers(request, response)

    def _send(self, request: SandboxRequest) -> SandboxHandler:
        if (request.method, request.path) != ("POST", SEND_PATH):
            raise SesApiError("NotFoundException", f"No {request.path} here.", status=404)
        mail = self._mail(request.params)
        _check_addresses(mail)

        def execute() -> SandboxResponse:
            self.ledger.save(mail)
            if mail.configuration_set is not None:
                self.on_event(sent_event(mail))
            return SandboxResponse(200, {"MessageId": mail.message_id})

        return execute

    def _mail(self, document: Mapping[str, Any]) -> SentEmail:
        try:
            simple = document["Content"]["Simple"]
            return SentEmail(
                message_id=new_id("ses"),
                sender=document["FromEmailAddress"],
                to=tuple(document["Destination"]["ToAddresses"]),
                subject=simple["Subject"]["Data"],
                text=simple["Body"]["Text"]["Data"],
                headers={one["Name"]: one["Value"] for one in simple.get("Headers", ())},
                tags={one["Name"]: one["Value"] for one in document.get("EmailTags", ())},
                configuration_set=document.get("ConfigurationSetName"),
                at=self.options.clock(),
            )
        except (KeyError, TypeError) as error:
            raise SesApiError("BadRequestException", f"Missing: {error}") from error


def sent_event(mail: SentEmail) -> dict[str, Any]:
    """The event of an email that SES accepted, with its EventBridge detail type."""
    tags = {SET_TAG: [mail.configuration_set], **{name: [tag] for name, tag in mail.tags.items()}}
    return {
        "type": "Email Sent",
        "eventType": "Send",
        "mail": {
            "timestamp": format_time(mail.at),
            "source": mail.sender,
            "messageId": mail.message_id,
            "destination": list(mail.to),
            "tags": tags,
        },
        "send": {},
    }


def _check_credentials(request: SandboxRequest) -> None:
    if not request.headers.get("authorization", "").startswith(SIGNATURE_PREFIX):
        message = "Request is missing Authentication Token"
        raise SesApiError("MissingAuthenticationTokenException", message, status=403)


def _check_addresses(mail: SentEmail) -> None:
    for address in (mail.sender, *mail.to):
        if "@" not in address:
            raise SesApiError("BadRequestException", f"Illegal address: {address}")
    _check_address(mail.sender, REFUSED_SENDERS)
    for address in mail.to:
        _check_address(address, REFUSED_RECIPIENTS)
    for value in mail.tags.values():
        if not all(letter.isascii() and (letter.isalnum() or letter in "_-") for letter in value):
            raise SesApiError("BadRequestException", f"Invalid tag value: {value}")


def _check_address(address: str, refused: Mapping[str, tuple[int, str, str]]) -> None:
    for prefix, (status, code, message) in refused.items():
        if address.startswith(prefix):
            raise SesApiError(code, message, status=status)


def _with_headers(request: SandboxRequest, response: SandboxResponse) -> SandboxResponse:
    return response.with_headers(x_amzn_RequestId=request.request_id)
