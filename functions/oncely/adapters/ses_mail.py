"""Amazon SES: one try to send, and an honest answer about it."""

from dataclasses import dataclass
from ssl import SSLCertVerificationError
from typing import TYPE_CHECKING, Final

from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
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
    max_pool_connections=32,
)
KEY_HEADER: Final = "X-Oncely-Key"
KEY_TAG: Final = "oncely_key"

# The mail itself, its sender or its recipient: it will never be taken as it is.
_REFUSED: Final = frozenset(
    {
        "BadRequestException",
        "MailFromDomainNotVerifiedException",
        "MessageRejected",
        "NotFoundException",
    }
)
_BUSY: Final = frozenset(
    {
        "LimitExceededException",
        "RequestThrottled",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
# Nothing is sent until somebody does something about the account.
_STOPPED: Final = frozenset({"AccountSuspendedException", "SendingPausedException"})
_UNAUTHORIZED: Final = frozenset({401, 403})
_RATE_LIMITED: Final = 429
_NEVER_LEFT: Final = (ConnectTimeoutError, EndpointConnectionError, ProxyConnectionError)
_NOT_OURS: Final = (NoCredentialsError, NoRegionError, PartialCredentialsError)


@dataclass(frozen=True, kw_only=True)
class SesMailer:
    """Sends from one address; its client must be made with `ONCE`."""

    client: "SESV2Client"
    sender: str

    def send(self, mail: Mail, *, key: ProviderKey, tag: str = "") -> Answer:
        """Send once; key and tag go along so that the mail can be found, SES reads neither."""
        try:
            response = self.client.send_email(
                FromEmailAddress=self.sender,
                Destination={"ToAddresses": [mail.to]},
                Content={
                    "Simple": {
                        "Subject": {"Data": mail.subject, "Charset": "UTF-8"},
                        "Body": {"Text": {"Data": mail.text, "Charset": "UTF-8"}},
                        "Headers": [{"Name": KEY_HEADER, "Value": key}],
                    }
                },
                EmailTags=[{"Name": KEY_TAG, "Value": tag}] if tag else [],
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
    if code in _REFUSED:
        return Refused(f"SES refuses the mail: {_in_words(error)}", code=code)
    if code in _BUSY or status == _RATE_LIMITED:
        return NotSent(f"SES limits our rate: {_in_words(error)}")
    if code in _STOPPED:
        return NotSent(f"SES sends nothing for this account: {_in_words(error)}", alarm=True)
    if status in _UNAUTHORIZED:
        return NotSent(f"SES refuses our credentials: {_in_words(error)}", alarm=True)
    return Unclear(f"sending the mail: {_in_words(error)}")


def _no_answer(error: Exception) -> Answer:
    """No answer, or none that could be read."""
    if isinstance(error, ParamValidationError):
        return Refused(f"not a mail that SES could take: {error}"[:300], code="ParamValidation")
    if isinstance(error, _NOT_OURS):
        return NotSent(f"SES cannot be asked: {_in_words(error)}", alarm=True)
    if isinstance(error, _NEVER_LEFT) or _untrusted(error):
        return NotSent(f"SES could not be reached: {_in_words(error)}")
    return Unclear(f"sending the mail: {_in_words(error)}")


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
