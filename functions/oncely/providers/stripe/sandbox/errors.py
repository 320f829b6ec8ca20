"""Stripe's error responses.

StripeApiError              raised during execution: replayed under the idempotency key
└── StripeValidationError   raised before execution: not replayed
"""

from oncely.providers.stripe.sandbox.ledger import PaymentIntent

INVALID_REQUEST = "invalid_request_error"
UNEXPECTED_STATE = "payment_intent_unexpected_state"


class StripeApiError(Exception):
    """An error response with the fields of Stripe's error object."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        type_: str = INVALID_REQUEST,
        code: str | None = None,
        param: str | None = None,
        decline_code: str | None = None,
        charge: str | None = None,
        intent: PaymentIntent | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.intent = intent
        self.fields = {
            "type": type_,
            "code": code,
            "param": param,
            "decline_code": decline_code,
            "charge": charge,
        }


class StripeValidationError(StripeApiError):
    """The request is invalid, and nothing was executed."""


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
