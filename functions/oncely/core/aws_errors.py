"""Translates what botocore raises into the engine's own errors, by what the caller should do."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as AwsConnectionError

from oncely.core.errors import NotConfiguredError, OncelyError, UnavailableError

# What a call of a client raises.
AWS_ERRORS: Final = (BotoCoreError, ClientError)

# No response reached us, so the request may or may not have been carried out.
_NO_RESPONSE: Final = (HTTPClientError, AwsConnectionError)
_SERVER_ERROR: Final = 500
_AMBIGUOUS_CODES: Final = frozenset(
    {
        # Our own token with other content: DynamoDB accepted an earlier write, so read the row.
        "IdempotentParameterMismatchException",
        # An insert found a row, which is ours if the first response was lost.
        "DuplicateItemException",
        *("InternalError", "InternalServerError", "InternalServerErrorException"),
        *("ServiceUnavailable", "ServiceUnavailableException", "TransactionInProgressException"),
        *("RequestTimeout", "RequestTimeoutException"),
    }
)
# A table or index is over its capacity.
OVER_CAPACITY_CODES: Final = frozenset(
    {
        *("ProvisionedThroughputExceededException", "ProvisionedThroughputExceeded"),
        *("RequestLimitExceeded", "ThrottlingError", "ThrottlingException"),
    }
)
_THROTTLED_CODES: Final = OVER_CAPACITY_CODES | {
    *("OverLimit", "RequestThrottled", "SlowDown"),
    *("TransactionConflict", "TransactionConflictException"),
}


def error_code(error: BaseException | None) -> str:
    """The service's code for what went wrong, or an empty string if it gave none."""
    if not isinstance(error, ClientError):
        return ""
    return str(error.response.get("Error", {}).get("Code", ""))


def is_ambiguous(error: Exception) -> bool:
    """Whether the request may or may not have been carried out."""
    if not isinstance(error, ClientError):
        return isinstance(error, _NO_RESPONSE)
    # A load balancer's error page has no service code, only a status.
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return status >= _SERVER_ERROR or error_code(error) in _AMBIGUOUS_CODES


def is_throttled(code: str) -> bool:
    """Whether the service did nothing, so that the request may be sent again."""
    return code in _THROTTLED_CODES


def is_condition_failure(error: Exception) -> bool:
    """Whether the write's condition failed."""
    return error_code(error) == "ConditionalCheckFailedException"


def write_conditionally(write: Callable[[], object]) -> bool:
    """Send a write. Returns False if its condition failed."""
    try:
        write()
    except ClientError as error:
        if is_condition_failure(error):
            return False
        raise
    return True


def translate(error: Exception, resource: str, *, name: str, check: str) -> OncelyError:
    """The engine's error: try again later, or correct the deployment as `check` says.

    Its text may be stored in a row and shown to support agents, so neither AWS's message nor the
    resource's name in AWS is part of it. Stack traces have both: the cause, and a note.
    """
    found = error_code(error) or type(error).__name__
    ours: OncelyError = NotConfiguredError(f"{resource} cannot be used ({found}): check {check}")
    if is_ambiguous(error) or is_throttled(error_code(error)):
        ours = UnavailableError(f"{resource} is not available now ({found}); try again later")
    ours.add_note(f"{resource}: {name}")
    return ours


@contextmanager
def translated(resource: str, *, name: str, check: str) -> Iterator[None]:
    """Translate errors of AWS calls in this context into the engine's own."""
    try:
        yield
    except AWS_ERRORS as error:
        raise translate(error, resource, name=name, check=check) from error
