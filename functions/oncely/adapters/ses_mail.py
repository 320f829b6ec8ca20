"""Amazon SES: one try to send, and an honest answer about it."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from ssl import SSLCertVerificationError
from typing import TYPE_CHECKING, Final

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

from oncely.adapters.aws import code_of
from oncely.domain.answers import Answer, Done, NotSent, Refused, Unclear
from oncely.domain.keys import ProviderKey
from oncely.providers import Mail

if TYPE_CHECKING:
    from mypy_boto3_sesv2 import SESV2Client

# SES cannot tell a repeated request from a new mail, and boto3 by default repeats one that got no
# answer: on a connection that drops, three mails. Ours is tried once, and takes 10 s at most.
ONCE: Final = Config(
    connect_timeout=3,
    read_timeout=7,
    retries={"mode": "standard", "total_max_attempts": 1},
)
KEY_HEADER: Final = "X-Oncely-Key"
KEY_TAG: Final = "oncely_key"

# The mail itself or its recipient: SES will never send it as it is.
_REFUSED: Final = frozenset({"BadRequestException", "MessageRejected"})
_BUSY: Final = frozenset(
    {
        "LimitExceededException",
        "RequestThrottled",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
# Nothing is sent until an operator fixes the account, its rights or its settings. SES answers some
# of these with HTTP 400, so the status alone does not tell.
_MISCONFIGURED: Final = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AccountSuspendedException",
        "ConfigurationSetDoesNotExist",
        "ConfigurationSetDoesNotExistException",
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
# The same, under a code that otherwise refuses one mail: an identity that is not verified (while
# the account is in SES's sandbox also the recipient's), or a deleted default configuration set.
_MISCONFIGURED_TEXT: Final = {
    "BadRequestException": "configuration set",
    "MessageRejected": "not verified",
}
_UNAUTHORIZED: Final = frozenset({401, 403})
_RATE_LIMITED: Final = 429
_NEVER_LEFT: Final = (ConnectTimeoutError, EndpointConnectionError, ProxyConnectionError)
_NOT_OURS: Final = (CredentialRetrievalError, NoCredentialsError, PartialCredentialsError)


@dataclass(frozen=True, kw_only=True)
class SesMailer:
    """Sends from one address; its clients must be made with `ONCE`.

    Each mail has a client, and so a connection, of its own. A Lambda is frozen between two
    invocations, and SES drops connections that stay idle. After the thaw such a connection still
    takes a mail and never answers, and a mail without an answer is never sent again.
    """

    new_client: "Callable[[], SESV2Client]"
    sender: str

    def send(self, mail: Mail, *, key: ProviderKey, tag: str) -> Answer:
        """Send once; people find the mail by its key, and events name the claim by its tag."""
        try:
            made = self.new_client()
        except Exception as error:  # noqa: BLE001  # whatever it is, nothing was sent
            return _not_asked(error)
        try:
            with closing(made) as client:
                response = client.send_email(
                    FromEmailAddress=self.sender,
                    Destination={"ToAddresses": [mail.to]},
                    Content={
                        "Simple": {
                            "Subject": {"Data": mail.subject, "Charset": "UTF-8"},
                            "Body": {"Text": {"Data": mail.text, "Charset": "UTF-8"}},
                            "Headers": [{"Name": KEY_HEADER, "Value": key}],
                        }
                    },
                    EmailTags=[{"Name": KEY_TAG, "Value": tag}],
                )
        except ClientError as error:
            return _turned_away(error)
        except (BotoCoreError, ResponseParserError) as error:
            return _no_answer(error)
        # A garbled answer is parsed into one without fields.
        message_id = response.get("MessageId")
        if not message_id:
            return Unclear("SES answered without a message id")
        request_id = response["ResponseMetadata"].get("RequestId")
        return Done(
            f"sent as {message_id}",
            message_id,
            {"message_id": message_id, "request_id": request_id},
        )


def _turned_away(error: ClientError) -> Answer:
    """SES said no: to the mail, to us, or to this moment."""
    code, status = code_of(error), error.response["ResponseMetadata"].get("HTTPStatusCode")
    if code in _BUSY or status == _RATE_LIMITED:
        return NotSent(f"SES limits our rate: {_in_words(error)}")
    if status in _UNAUTHORIZED or _is_misconfigured(error):
        reason = f"nothing was sent, our SES configuration is wrong: {_in_words(error)}"
        return NotSent(reason, alarm=True)
    if code in _REFUSED:
        return Refused(f"SES refuses the mail: {_in_words(error)}", code=code)
    return Unclear(f"sending the mail: {_in_words(error)}")


def _is_misconfigured(error: ClientError) -> bool:
    """Whether the error is about our account or settings, and not about this mail."""
    code, said = code_of(error), str(error.response.get("Error", {}).get("Message", ""))
    text = _MISCONFIGURED_TEXT.get(code)
    return code in _MISCONFIGURED or (text is not None and text in said.lower())


def _no_answer(error: Exception) -> Answer:
    """No answer, or none that could be read."""
    if isinstance(error, ParamValidationError):
        return Refused(f"not a mail that SES could take: {error}"[:300], code="ParamValidation")
    if isinstance(error, _NOT_OURS):
        return _not_asked(error)
    if isinstance(error, _NEVER_LEFT) or _untrusted(error):
        return NotSent(f"SES could not be reached: {_in_words(error)}")
    return Unclear(f"sending the mail: {_in_words(error)}")


def _not_asked(error: Exception) -> NotSent:
    return NotSent(f"SES cannot be asked: {_in_words(error)}", alarm=True)


def _untrusted(error: Exception) -> bool:
    """A certificate we do not trust; other TLS errors can come after the request was sent."""
    cause = error.kwargs.get("error") if isinstance(error, SSLError) else None
    return isinstance(next(iter(getattr(cause, "args", ())), None), SSLCertVerificationError)


def _in_words(error: Exception) -> str:
    if not isinstance(error, ClientError):
        return f"{type(error).__name__}: {str(error)[:200]}"
    metadata = error.response["ResponseMetadata"]
    said = str(error.response.get("Error", {}).get("Message", ""))[:200]
    request = f" (request {metadata['RequestId']})" if metadata.get("RequestId") else ""
    return f"HTTP {metadata.get('HTTPStatusCode')} {code_of(error)}: {said}{request}"
