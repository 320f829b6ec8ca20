"""Amazon SES's HTTP API, version 2, as far as sending one e-mail goes."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from infra.local.sandbox.ledger import Ledger
from infra.local.sandbox.messages import Answer, Clock, Execute, Request, new_id
from infra.local.sandbox.ses_entries import SentMail

SEND: Final = "/v2/email/outbound-emails"
SIGNATURE: Final = "AWS4-HMAC-SHA256 "
NOT_VERIFIED: Final = (
    "Email address is not verified. The following identities failed the check in region EU-WEST-1"
)
# Senders and recipients whose local part begins like these are refused: prefix → error.
REFUSED_SENDERS: Final = {
    "unverified": (400, "MessageRejected", NOT_VERIFIED),
    "nomx": (400, "MailFromDomainNotVerifiedException", "The MAIL FROM domain is not verified."),
    "noset": (404, "NotFoundException", "Configuration set <receipts> does not exist."),
    # As SES answers when the default configuration set of an identity was deleted.
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
# Errors that SES causes itself: what a fault asks for → status, error and message.
OWN_ERRORS: Final = {
    401: (403, "UnrecognizedClientException", "The security token in the request is invalid."),
    409: (409, "ConflictException", "The resource is in use."),
    429: (429, "TooManyRequestsException", "Maximum sending rate exceeded."),
    500: (500, "InternalServiceErrorException", "An internal error occurred."),
    503: (503, "ServiceUnavailableException", "SES is temporarily unavailable."),
}


class SesRefusalError(Exception):
    """An answer that is not a success."""

    def __init__(self, code: str, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        # AWS names the error in a header, and says why in the body.
        self.answer = Answer(status, {"message": message}, {"x-amzn-ErrorType": code})


class SesApi:
    """The part of SES that a mail job uses."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock

    def serves(self, path: str) -> bool:
        """Say whether the path is SES's."""
        return path.startswith("/v2/email/")

    def refusal(self, request: Request, *, status: int) -> Answer:
        """Give an error of SES's own making."""
        actual, code, message = OWN_ERRORS[status]
        return _sent(request, SesRefusalError(code, message, status=actual).answer)

    def answer(self, request: Request, *, around: Callable[[Execute], Answer]) -> Answer:
        """Answer one request."""
        try:
            _check_credentials(request)
            answer = around(self._send(request))
        except SesRefusalError as refusal:
            answer = refusal.answer
        return _sent(request, answer)

    def _send(self, request: Request) -> Execute:
        if (request.method, request.path) != ("POST", SEND):
            raise SesRefusalError("NotFoundException", f"No {request.path} here.", status=404)
        mail = self._mail(request.params)
        _check_addresses(mail)

        def execute() -> Answer:
            self._ledger.save(mail, at=mail.at)
            return Answer(200, {"MessageId": mail.message_id})

        return execute

    def _mail(self, document: Mapping[str, Any]) -> SentMail:
        try:
            simple = document["Content"]["Simple"]
            return SentMail(
                message_id=new_id("ses"),
                sender=document["FromEmailAddress"],
                to=tuple(document["Destination"]["ToAddresses"]),
                subject=simple["Subject"]["Data"],
                text=simple["Body"]["Text"]["Data"],
                headers={one["Name"]: one["Value"] for one in simple.get("Headers", ())},
                tags={one["Name"]: one["Value"] for one in document.get("EmailTags", ())},
                at=self._clock(),
            )
        except (KeyError, TypeError) as error:
            raise SesRefusalError("BadRequestException", f"Missing: {error}") from error


def _check_credentials(request: Request) -> None:
    if not request.headers.get("authorization", "").startswith(SIGNATURE):
        message = "Request is missing Authentication Token"
        raise SesRefusalError("MissingAuthenticationTokenException", message, status=403)


def _check_addresses(mail: SentMail) -> None:
    for address in (mail.sender, *mail.to):
        if "@" not in address:
            raise SesRefusalError("BadRequestException", f"Illegal address: {address}")
    _check(mail.sender, REFUSED_SENDERS)
    for address in mail.to:
        _check(address, REFUSED_RECIPIENTS)
    for value in mail.tags.values():
        if not all(letter.isascii() and (letter.isalnum() or letter in "_-") for letter in value):
            raise SesRefusalError("BadRequestException", f"Invalid tag value: {value}")


def _check(address: str, refused: Mapping[str, tuple[int, str, str]]) -> None:
    for prefix, (status, code, message) in refused.items():
        if address.startswith(prefix):
            raise SesRefusalError(code, message, status=status)


def _sent(request: Request, answer: Answer) -> Answer:
    return answer.with_headers(x_amzn_RequestId=request.request_id)
