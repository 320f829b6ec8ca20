"""Braintree's idempotency keys. They are sent wherever the SDK takes one, and relied on nowhere."""

from collections.abc import Callable
from typing import Any, Final

from oncely.core.keys import IdempotencyKey, JobKey, idempotency_key
from oncely.providers.braintree.sdk import TransactionErrors

NOT_ALLOWED: Final = TransactionErrors.ApiRequestKeyNotAllowed
# A request under this key failed. Braintree keeps that answer, so what still arrives does nothing.
FAILED_BEFORE: Final = TransactionErrors.ApiRequestKeyWithFailedRequest
# An earlier request under this key may have done something, or may still do it.
_UNCLEAR: Final = frozenset(
    {
        TransactionErrors.ApiRequestKeyCanBeReusedOnlyWithTheSameRequest,
        TransactionErrors.ApiRequestKeyIsInFlight,
        TransactionErrors.ApiRequestKeyServerError,
        FAILED_BEFORE,
    }
)


def send_with_key(send: Callable[[dict[str, str]], Any], key: IdempotencyKey) -> Any:  # noqa: ANN401  # the SDK has no types
    """Send a request with our key, and once more without it if this merchant may have none.

    That rejection created nothing. `send` takes the parameter of the key, or no parameter.
    """
    result = send({"api_request_key": key})
    return send({}) if NOT_ALLOWED in error_codes(result) else result


def proves_nothing(result: Any) -> bool:  # noqa: ANN401  # as above
    """Return whether a rejection is about the key, and says nothing about the effect."""
    return not _UNCLEAR.isdisjoint(error_codes(result))


def error_codes(result: Any) -> list[str]:  # noqa: ANN401  # as above
    """Return the codes with which Braintree rejected a request. A success has none."""
    if result is None or result.is_success:
        return []
    return [str(one.code) for one in result.errors.deep_errors]


def void(gateway: Any, ref: str, *, job_key: JobKey, deployment: str | None) -> Any:  # noqa: ANN401  # as above
    """Void a transaction. Its status rejects a second void, so the key may be refused.

    Without that, a void that failed once could never be repeated under its key.
    """
    owner = ":".join(filter(None, (deployment, ref)))  # a job may void several
    key = idempotency_key(job_key, "void", 1, deployment=owner)
    result = gateway.transaction.void(ref, {"api_request_key": key})
    refused = proves_nothing(result) or NOT_ALLOWED in error_codes(result)
    return gateway.transaction.void(ref) if refused else result
