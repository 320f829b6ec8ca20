"""AWS clients whose timeouts and retries fit the budgets that the core counts on."""

from typing import Final

from botocore.config import Config
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    HTTPClientError,
)
from botocore.exceptions import (
    ConnectionError as AwsConnectionError,
)

# Two tries of 0.5 s to connect and 1 s to read, and a pause of at most 1 s between them: no
# DynamoDB call takes longer than 4 s, and COMMIT_BUDGET in contract.py holds two of them.
DYNAMODB: Final = Config(
    connect_timeout=0.5,
    read_timeout=1,
    retries={"mode": "standard", "total_max_attempts": 2},
    max_pool_connections=32,
    # A third of the SDK's work on a job. DynamoDB checks each request itself, and ours are built
    # by code that tests run against it; the SDK's own name is put together anew for each request.
    parameter_validation=False,
    user_agent="oncely",
)
# Queues, topics and secrets: sending one of these twice does no harm.
MESSAGING: Final = Config(
    connect_timeout=1,
    read_timeout=5,
    retries={"mode": "standard", "total_max_attempts": 3},
    max_pool_connections=32,
)

# No answer reached us, so what we asked for may or may not have happened.
AMBIGUOUS_ERRORS: Final = (HTTPClientError, AwsConnectionError, ConnectionClosedError)

_SERVER_ERROR: Final = 500
_AMBIGUOUS_CODES: Final = frozenset(
    {
        # Our own token with another content: something of ours was taken, so the row tells.
        "IdempotentParameterMismatchException",
        "InternalServerError",
        "InternalServerErrorException",
        "ServiceUnavailable",
        "ServiceUnavailableException",
        "TransactionInProgressException",
        "RequestTimeout",
        "RequestTimeoutException",
    }
)
_THROTTLED_CODES: Final = frozenset(
    {
        "OverLimit",
        "ProvisionedThroughputExceededException",
        "ProvisionedThroughputExceeded",
        "RequestLimitExceeded",
        "RequestThrottled",
        "ThrottlingError",
        "ThrottlingException",
        "TransactionConflict",
        "TransactionConflictException",
    }
)


def error_code(error: ClientError) -> str:
    """The service's name for what went wrong."""
    return str(error.response.get("Error", {}).get("Code", ""))


def is_ambiguous(error: ClientError) -> bool:
    """Whether the service failed in a way that leaves the request's fate open."""
    # A load balancer's page has no code of the service's, only a status.
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return status >= _SERVER_ERROR or error_code(error) in _AMBIGUOUS_CODES


def is_retryable(error: ClientError) -> bool:
    """Whether the same request may be taken later: the service was busy, or failed by itself."""
    return is_throttled(error_code(error)) or is_ambiguous(error)


def is_throttled(code: str) -> bool:
    """Whether the service did nothing and wants to be asked again."""
    return code in _THROTTLED_CODES
