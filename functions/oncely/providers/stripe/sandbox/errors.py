"""Stripe's error responses.

StripeApiError              raised during execution: replayed under the idempotency key
└── StripeValidationError   raised before execution: not replayed
"""

from typing import Final

from oncely.providers.stripe.sandbox.ledger import PaymentIntent

UNEXPECTED_STATE = "payment_intent_unexpected_state"
# Errors that a fault injects: status → type, code and message.
OWN_ERRORS: Final = {
    401: ("invalid_request_error", None, "Invalid API Key provided."),
    409: ("idempotency_error", "idempotency_key_in_use", "Another request is using this key."),
    429: ("rate_limit_error", "rate_limit", "Too many requests hit the API too quickly."),
    500: ("api_error", None, "An unknown error occurred."),
    503: ("api_error", None, "Stripe is temporarily unavailable."),
}


class StripeApiError(Exception):
    """An error response with the fields of Stripe's error object."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        type_: str = "invalid_request_error",
        intent: PaymentIntent | None = None,
        **fields: str | None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.intent = intent
        self.fields = {"type": type_, **fields}


class StripeValidationError(StripeApiError):
    """The request is invalid, and nothing was executed."""


def own_error(status: int) -> StripeApiError:
    """An error on Stripe's side, whatever the request."""
    type_, code, message = OWN_ERRORS[status]
    return StripeApiError(message, status=status, type_=type_, code=code)


def not_found_error(resource_type: str, id_: str, *, param: str | None = None) -> StripeApiError:
    """An unknown id: 404 if it is in the path, 400 if it is a parameter."""
    return StripeApiError(
        f"No such {resource_type}: '{id_}'",
        status=400 if param else 404,
        code="resource_missing",
        param=param or "intent",
    )


def unexpected_state_error(verb: str, intent: PaymentIntent) -> StripeApiError:
    """An operation that the intent's status does not allow."""
    return StripeApiError(
        f"You cannot {verb} this PaymentIntent because it has a status of {intent.status}.",
        code=UNEXPECTED_STATE,
        intent=intent,
    )
