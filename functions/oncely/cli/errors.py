"""How a command fails: an exit code for scripts and one message for the operator."""

import sys
from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from oncely.core.text import mask_aws_names

if TYPE_CHECKING:
    from botocore.exceptions import ClientError


class ExitCode(IntEnum):
    """Exit codes. Scripts rely on the numbers: do not change them."""

    OK = 0
    REFUSED = 1
    USAGE = 2
    UNREACHABLE = 3
    ACTION_NEEDED = 4


DESCRIPTIONS: Final = {
    ExitCode.OK: "success",
    ExitCode.REFUSED: "refused: job not found, invalid message, or repair not allowed",
    ExitCode.USAGE: "invalid usage",
    ExitCode.UNREACHABLE: "AWS, the stack or the provider is unreachable, or access is denied",
    ExitCode.ACTION_NEEDED: "completed, and found something that needs action",
}


class CommandError(Exception):
    """Ends the command. The message says what happened, why, and what to do next."""

    def __init__(self, message: str, code: ExitCode = ExitCode.REFUSED) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


def usage_error(message: str) -> CommandError:
    """Return the error for invalid options or arguments."""
    return CommandError(message, ExitCode.USAGE)


# Support agents use these too. Operators and deployers use the others, and need the names.
READ_COMMANDS: Final = frozenset({"find", "show", "list", "archive"})


def text_for(command: str | None, message: str, error: BaseException | None = None) -> str:
    """Return the message for the reader of a command: with or without the names of AWS."""
    if command in READ_COMMANDS:
        return mask_aws_names(message)
    return f"{message} ({'; '.join(notes)})" if (notes := [*_notes(error)]) else message


def _notes(error: BaseException | None) -> Iterator[str]:
    while error is not None:
        yield from getattr(error, "__notes__", ())
        error = error.__cause__


_SIGN_IN: Final = "Run `aws sso login`, set AWS_PROFILE or pass --profile."
_SESSION_EXPIRED: Final = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})
_CREDENTIALS_REJECTED: Final = frozenset(
    {"AuthFailure", "InvalidAccessKeyId", "InvalidClientTokenId", "InvalidSignatureException"}
    | {"SignatureDoesNotMatch", "UnrecognizedClientException"}
)
_ACCESS_DENIED: Final = ("AccessDenied", "AuthorizationError", "UnauthorizedOperation")


def describe_aws_error(error: Exception) -> str | None:
    """Say what failed at AWS and what to do. Returns None for any other error."""
    if "botocore" not in sys.modules:
        return None  # no AWS call was made, and the import is slow
    from botocore import exceptions as aws

    match error:
        case aws.ProfileNotFound():
            return f"{error}. List profiles with `aws configure list-profiles`."
        case aws.NoRegionError():
            return "No AWS region is set. Pass --region or set AWS_REGION."
        case aws.ClientError():
            return _describe_client_error(error)
        case (
            aws.CredentialRetrievalError()
            | aws.NoCredentialsError()
            | aws.PartialCredentialsError()
            | aws.SSOError()
            | aws.TokenRetrievalError()
        ):
            return f"You are not signed in to AWS. {_SIGN_IN}"
        case aws.ConnectionError() | aws.HTTPClientError():
            return (
                f"Cannot reach AWS ({error}). Check the network and AWS_ENDPOINT_URL. "
                "With --local, check that `oncely local` is running."
            )
        case aws.BotoCoreError():
            return f"The AWS request failed: {error}"
        case _:
            return None


def _describe_client_error(error: "ClientError") -> str:
    from oncely.core.aws_errors import error_code

    code, message = error_code(error), error.response.get("Error", {}).get("Message", "")
    if code in _SESSION_EXPIRED:
        return f"Your AWS session has expired. {_SIGN_IN}"
    if code in _CREDENTIALS_REJECTED:
        return f"AWS rejected your credentials ({code}). {_SIGN_IN}"
    if code.startswith(_ACCESS_DENIED):
        return f"Access denied: {message or code}"
    return f"AWS rejected {error.operation_name} ({code}): {message}"
