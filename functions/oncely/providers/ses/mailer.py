"""Email through Amazon SES: one attempt to send, and its outcome."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
    ProxyConnectionError,
    SSLError,
)
from botocore.parsers import ResponseParserError

from oncely.core.aws_errors import error_code
from oncely.core.effect_outcomes import Ambiguous, Declined, EffectOutcome, NotSent, Succeeded
from oncely.core.keys import IdempotencyKey, JobKey
from oncely.plugins.provider import UNGATED, GatedResponse, RequestGate
from oncely.plugins.request_deadline import is_untrusted_certificate, request_deadline
from oncely.providers.interfaces import Email
from oncely.providers.ses.events import JOB_TAG, KEY_TAG, job_tag
from oncely.providers.ses.plugin import PROFILE

if TYPE_CHECKING:
    from mypy_boto3_sesv2 import SESV2Client
    from mypy_boto3_sesv2.type_defs import SendEmailResponseTypeDef

# SES cannot recognize a retry, and by default boto3 retries a request without a response: if the
# connection drops, SES may send three emails. This client sends once. Its timeouts apply to
# connecting and to each read; the mailer limits the whole request to their sum.
NO_RETRIES: Final = Config(
    connect_timeout=3, read_timeout=7, retries={"mode": "standard", "total_max_attempts": 1}
)
KEY_HEADER: Final = "X-Oncely-Key"

# About the email or its recipient: SES will never send it.
_DECLINED_CODES: Final = frozenset({"BadRequestException", "MessageRejected"})
_THROTTLED_CODES: Final = frozenset(
    {
        "LimitExceededException",
        "RequestThrottled",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
# Nothing is sent until an operator fixes the account, its permissions or its settings. SES returns
# HTTP 400 for some of these, so the status alone is not enough.
_MISCONFIGURED: Final = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AccountSendingPausedException",
        "AccountSuspendedException",
        "ConfigurationSetDoesNotExist",
        "ConfigurationSetDoesNotExistException",
        "ConfigurationSetSendingPausedException",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "MailFromDomainNotVerifiedException",
        "MissingAuthenticationToken",
        "NotAuthorized",
        "NotFoundException",
        "OptInRequired",
        "RequestExpired",
        "SendingPausedException",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
        "ValidationException",
    }
)
# The same, under a code that otherwise declines one email: an unverified identity (in the SES
# sandbox also the recipient's), a deleted default configuration set, or an account whose sending
# SES or its owner stopped.
_MISCONFIGURED_TEXTS: Final = {
    "BadRequestException": ("configuration set",),
    "MessageRejected": ("not verified", "paused", "suspended"),
}
_UNAUTHORIZED: Final = frozenset({401, 403})
_RATE_LIMITED: Final = 429
_CONNECTION_ERRORS: Final = (ConnectTimeoutError, EndpointConnectionError, ProxyConnectionError)
_CREDENTIAL_ERRORS: Final = (CredentialRetrievalError, NoCredentialsError, PartialCredentialsError)


@dataclass(frozen=True, kw_only=True)
class SesMailer:
    """A mailer with one sender. Build its clients with `NO_RETRIES`.

    Each email uses its own client, and so its own connection. Lambda freezes a function between
    invocations, and SES drops idle connections. After the thaw, such a connection accepts an email
    but never returns a response, and Oncely never resends an email without a response.
    """

    new_client: "Callable[[], SESV2Client]"
    sender: str
    configuration_set: str | None = None  # publishes events; None for the sender's default
    event_wait: timedelta | None = None  # for the event of an email; None if no events are received
    gate: RequestGate = UNGATED
    timeout: timedelta = PROFILE.request_timeout  # for the whole request

    def send(
        self, email: Email, *, idempotency_key: IdempotencyKey, job_key: JobKey, tag: str
    ) -> EffectOutcome:
        """Send once. The key is a header of the email, and SES's events contain the tags."""
        named = self.configuration_set
        options = {} if named is None else {"ConfigurationSetName": named}
        try:
            new_client = self.new_client()
        except Exception as error:  # noqa: BLE001  # after any error here, nothing was sent
            return _not_sent(error)
        try:
            with (
                self.gate.request() as gated,
                request_deadline(self.timeout),
                closing(new_client) as client,
            ):
                response = _report_status(
                    gated,
                    client.send_email,
                    FromEmailAddress=self.sender,
                    Destination={"ToAddresses": [email.to]},
                    Content={
                        "Simple": {
                            "Subject": {"Data": email.subject, "Charset": "UTF-8"},
                            "Body": {"Text": {"Data": email.text, "Charset": "UTF-8"}},
                            "Headers": [{"Name": KEY_HEADER, "Value": idempotency_key}],
                        }
                    },
                    EmailTags=_tags(job_key, tag),
                    **options,
                )
        except ClientError as error:
            return _error_outcome(error)
        except (BotoCoreError, ResponseParserError) as error:
            return _no_response_outcome(error)
        # boto3 parses a malformed response as one without fields.
        message_id = response.get("MessageId")
        if not message_id:
            return Ambiguous("SES returned no message id")
        request_id = response["ResponseMetadata"].get("RequestId")
        result = {"message_id": message_id, "request_id": request_id}
        return Succeeded(f"sent as {message_id}", message_id, result)


def _tags(job_key: JobKey, tag: str) -> list[dict[str, str]]:
    values = {KEY_TAG: tag, JOB_TAG: job_tag(job_key)}
    return [{"Name": name, "Value": value} for name, value in values.items() if value]


def _report_status(
    gated: GatedResponse,
    send: Callable[..., "SendEmailResponseTypeDef"],
    **request: Any,  # noqa: ANN401  # parameters of the SDK
) -> "SendEmailResponseTypeDef":
    """Send, and report the status to the gate. An error of the SDK says nothing about SES."""
    try:
        response = send(**request)
    except ClientError as error:
        gated.status = error.response["ResponseMetadata"].get("HTTPStatusCode")
        raise
    except (ParamValidationError, *_CREDENTIAL_ERRORS):
        gated.status = 0
        raise
    gated.status = response["ResponseMetadata"].get("HTTPStatusCode")
    return response


def _error_outcome(error: ClientError) -> EffectOutcome:
    code, status = error_code(error), error.response["ResponseMetadata"].get("HTTPStatusCode")
    if code in _THROTTLED_CODES or status == _RATE_LIMITED:
        return NotSent(f"SES limits our request rate: {_describe_error(error)}")
    if status in _UNAUTHORIZED or _is_misconfigured(error):
        reason = f"nothing was sent; fix the SES configuration: {_describe_error(error)}"
        return NotSent(reason, credentials_rejected=True)
    if code in _DECLINED_CODES:
        return Declined(f"SES declined the email: {_describe_error(error)}", code=code)
    return Ambiguous(f"sending the email: {_describe_error(error)}")


def _is_misconfigured(error: ClientError) -> bool:
    code, message = error_code(error), str(error.response.get("Error", {}).get("Message", ""))
    texts = _MISCONFIGURED_TEXTS.get(code, ())
    return code in _MISCONFIGURED or any(text in message.lower() for text in texts)


def _no_response_outcome(error: Exception) -> EffectOutcome:
    if isinstance(error, ParamValidationError):
        return Declined(f"not a valid email for SES: {error}"[:300], code="ParamValidation")
    if isinstance(error, _CREDENTIAL_ERRORS):
        return _not_sent(error)
    tls_error = error.kwargs.get("error") if isinstance(error, SSLError) else None
    if isinstance(error, _CONNECTION_ERRORS) or is_untrusted_certificate(tls_error):
        return NotSent(f"SES could not be reached: {_describe_error(error)}")
    return Ambiguous(f"sending the email: {_describe_error(error)}")


def _not_sent(error: Exception) -> NotSent:
    return NotSent(f"SES cannot be called: {_describe_error(error)}", credentials_rejected=True)


def _describe_error(error: Exception) -> str:
    if not isinstance(error, ClientError):
        return f"{type(error).__name__}: {str(error)[:200]}"
    metadata = error.response["ResponseMetadata"]
    message = str(error.response.get("Error", {}).get("Message", ""))[:200]
    request = f" (request {metadata['RequestId']})" if metadata.get("RequestId") else ""
    return f"HTTP {metadata.get('HTTPStatusCode')} {error_code(error)}: {message}{request}"
