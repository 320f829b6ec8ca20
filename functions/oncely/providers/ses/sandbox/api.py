"""Amazon SES's HTTP API, version 2: sending an email."""

from collections.abc import Callable
from functools import partial
from typing import ClassVar, Final

from oncely.providers.ses.sandbox.model import OWN_ERRORS, MemorySes, SesError, SesModel
from oncely.testing.sandbox.faults import FaultKind
from oncely.testing.sandbox.http_messages import (
    SandboxHandler,
    SandboxRequest,
    SandboxResponse,
)
from oncely.testing.sandbox.provider_sandbox import ProviderSandbox, SandboxOptions

SEND_PATH: Final = "/v2/email/outbound-emails"
SIGNATURE_PREFIX: Final = "AWS4-HMAC-SHA256 "


class SesSandbox(ProviderSandbox):
    """The part of SES that email jobs use."""

    path_prefix = "/v2/email/"
    requests: ClassVar = {"send": {"method": "POST", "path": SEND_PATH}}
    settings: ClassVar = {"sender_address": "receipts@example.com"}
    fault_rates = ((FaultKind.ACCEPT_THEN_DROP, "send", 1), (FaultKind.RATE_LIMIT, "send", 2))
    differs: ClassVar = {
        "The model also answers with errors of AWS's front end, and of SES's other operations. "
        "botocore lists neither for SendEmail.": (
            *("error 400 AccessDeniedException: *", "error 400 RequestExpired: *"),
            *("error 400 UnrecognizedClientException: *", "error 400 ValidationException: *"),
            *("error 403 UnrecognizedClientException: *", "error 409 ConflictException: *"),
            "error 500 InternalServiceErrorException: *",
            "error 503 ServiceUnavailableException: *",
        ),
        "The events are written from SES's guide: botocore does not describe what EventBridge "
        "delivers.": (),
    }

    def __init__(self, options: SandboxOptions) -> None:
        super().__init__(options)
        self.ledger: SesModel = SesModel(now=options.clock, new_id=partial(options.new_id, "ses"))

    def aws_client(self) -> MemorySes:
        return MemorySes(self.ledger)

    def error_response(self, request: SandboxRequest, *, status: int) -> SandboxResponse:
        return _error_response(request, SesError(*OWN_ERRORS[status]))

    def handle(
        self, request: SandboxRequest, *, wrap: Callable[[SandboxHandler], SandboxResponse]
    ) -> SandboxResponse:
        try:
            _check_request(request)
            return _with_headers(request, wrap(lambda: self._send(request)))
        except SesError as error:
            return _error_response(request, error)

    def _send(self, request: SandboxRequest) -> SandboxResponse:
        mail = self.ledger.send(request.params)
        if mail.configuration_set is not None:
            self.on_event(mail.sent_event())
        return SandboxResponse(200, {"MessageId": mail.message_id})


def _check_request(request: SandboxRequest) -> None:
    if not request.headers.get("authorization", "").startswith(SIGNATURE_PREFIX):
        message = "Request is missing Authentication Token"
        raise SesError(403, "MissingAuthenticationTokenException", message)
    if (request.method, request.path) != ("POST", SEND_PATH):
        raise SesError(404, "NotFoundException", f"No {request.path} here.")


def _error_response(request: SandboxRequest, error: SesError) -> SandboxResponse:
    # AWS sends the error's name in a header, and the reason in the body.
    headers = {"x-amzn-ErrorType": error.code}
    response = SandboxResponse(error.status, {"message": error.message}, headers)
    return _with_headers(request, response)


def _with_headers(request: SandboxRequest, response: SandboxResponse) -> SandboxResponse:
    return response.with_headers(x_amzn_RequestId=request.request_id)
