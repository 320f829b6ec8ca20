"""Translates what botocore raises into the engine's own errors, by what the caller should do."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from botocore.exceptions import ClientError, ConnectionClosedError, HTTPClientError
from botocore.exceptions import ConnectionError as AwsConnectionError

from oncely.domain.errors import NotConfiguredError, OncelyError, UnavailableError

# No response reached us, so the request may or may not have been carried out.
AMBIGUOUS_ERRORS: Final = (HTTPClientError, AwsConnectionError, ConnectionClosedError)

_SERVER_ERROR: Final = 500
_AMBIGUOUS_CODES: Final = frozenset(
    {
        # Our own token with other content: DynamoDB took something of ours, so the row tells.
        "IdempotentParameterMismatchException",
        *("InternalError", "InternalServerError", "InternalServerErrorException"),
        *("ServiceUnavailable", "ServiceUnavailableException", "TransactionInProgressException"),
        *("RequestTimeout", "RequestTimeoutException"),
    }
)
_THROTTLED_CODES: Final = frozenset(
    {
        *("ProvisionedThroughputExceededException", "ProvisionedThroughputExceeded"),
        *("OverLimit", "RequestLimitExceeded", "RequestThrottled", "SlowDown"),
        *("ThrottlingError", "ThrottlingException"),
        *("TransactionConflict", "TransactionConflictException"),
    }
)


def error_code(error: ClientError) -> str:
    """The service's code for what went wrong."""
    return str(error.response.get("Error", {}).get("Code", ""))


def is_ambiguous(error: ClientError) -> bool:
    """Whether the service failed so that the request may or may not have been carried out."""
    # A load balancer's page has no code of the service's, only a status.
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return status >= _SERVER_ERROR or error_code(error) in _AMBIGUOUS_CODES


def is_throttled(code: str) -> bool:
    """Whether the service did nothing, and the request may be sent again."""
    return code in _THROTTLED_CODES


def is_retryable(error: ClientError) -> bool:
    """Whether the same request may succeed later."""
    return is_throttled(error_code(error)) or is_ambiguous(error)


def is_condition_failure(error: ClientError) -> bool:
    """Whether DynamoDB found something else than the write expects."""
    return error_code(error) == "ConditionalCheckFailedException"


def translate(error: Exception, resource: str, *, check: str) -> OncelyError:
    """The engine's error: try again later, or correct the deployment as `check` says."""
    if not isinstance(error, ClientError):
        return UnavailableError(f"no response about {resource}: {error}")
    code = error_code(error)
    if is_retryable(error):
        return UnavailableError(f"{resource} is not available now ({code}); try again later")
    return NotConfiguredError(f"{resource} cannot be used ({code}): check {check}")


@contextmanager
def translated(resource: str, *, check: str) -> Iterator[None]:
    """Raise the errors of the calls inside as the engine's own."""
    try:
        yield
    except (*AMBIGUOUS_ERRORS, ClientError) as error:
        raise translate(error, resource, check=check) from error
