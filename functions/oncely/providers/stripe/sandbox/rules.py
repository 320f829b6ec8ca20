"""Stripe's rules for confirming, canceling and completing a PaymentIntent. Pure functions."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from oncely.providers.stripe.sandbox.errors import (
    UNEXPECTED_STATE,
    StripeApiError,
    not_found_error,
    unexpected_state_error,
)
from oncely.providers.stripe.sandbox.ledger import (
    PROCESSING_METHODS,
    Charge,
    ChargeStatus,
    IntentStatus,
    PaymentIntent,
)

# The states in which an intent can also be canceled.
CONFIRMABLE: Final = frozenset(one for one in IntentStatus if one.startswith("requires_"))
COMPLETABLE: Final = frozenset({IntentStatus.PROCESSING, IntentStatus.REQUIRES_ACTION})

# Stripe's test payment methods that are declined, with the decline code. Others succeed.
DECLINES: Final = {
    "pm_card_chargeDeclined": "generic_decline",
    "pm_card_chargeDeclinedInsufficientFunds": "insufficient_funds",
}
NEEDS_AUTHENTICATION: Final = "pm_card_authenticationRequired"
MISSING_METHOD: Final = "pm_missing"
MISSING_CUSTOMER: Final = "cus_missing"


@dataclass(frozen=True, kw_only=True)
class ConfirmAttempt:
    """One attempt to confirm: the caller's parameters."""

    charge_id: str
    at: datetime
    idempotency_key: str | None = None
    payment_method: str | None = None
    off_session: bool = False
    error_on_requires_action: bool = False
    return_url: str | None = None
    amount: int | None = None  # `amount_to_confirm`; None means the intent's amount


@dataclass(frozen=True)
class ConfirmResult:
    """The intent and the charge afterwards, and the error to return, if any."""

    intent: PaymentIntent
    charge: Charge | None = None
    error: StripeApiError | None = None


def check_customer(customer: str | None) -> None:
    """Raise if the customer does not exist."""
    if customer and customer.startswith(MISSING_CUSTOMER):
        raise not_found_error("customer", customer, param="customer")


def check_payment_method(payment_method: str | None) -> None:
    """Raise if the payment method does not exist."""
    method = payment_method
    if method and (method.startswith(MISSING_METHOD) or not method.startswith("pm_")):
        raise not_found_error("PaymentMethod", method, param="payment_method")


def confirm(intent: PaymentIntent, attempt: ConfirmAttempt) -> ConfirmResult:
    """Attempt the charge."""
    check_payment_method(attempt.payment_method)
    if intent.status not in CONFIRMABLE:
        raise unexpected_state_error("confirm", intent)
    method = attempt.payment_method or intent.payment_method
    if method is None:
        message = "You cannot confirm this PaymentIntent because it's missing a payment method."
        raise StripeApiError(message, code=UNEXPECTED_STATE, intent=intent)
    if intent.redirects_allowed and attempt.return_url is None:
        message = (
            "This PaymentIntent accepts payment methods that might redirect your customer, so "
            "you must provide a `return_url`, or create it with `automatic_payment_methods"
            "[enabled]=true` and `automatic_payment_methods[allow_redirects]=never`."
        )
        raise StripeApiError(message, param="return_url", intent=intent)
    amount = attempt.amount or intent.amount
    tried = replace(intent, amount=amount, payment_method=method, last_payment_error=None)
    return _attempt_charge(tried, attempt)


def _attempt_charge(intent: PaymentIntent, attempt: ConfirmAttempt) -> ConfirmResult:
    method = str(intent.payment_method)
    if method in DECLINES:
        return _decline(intent, attempt, code="card_declined", decline_code=DECLINES[method])
    if method == NEEDS_AUTHENTICATION:
        # The customer is absent, or the caller does not want to wait for an action.
        if attempt.off_session or attempt.error_on_requires_action:
            reason = "authentication_required"
            return _decline(intent, attempt, code=reason, decline_code=reason)
        return ConfirmResult(replace(intent, status=IntentStatus.REQUIRES_ACTION))
    if method in PROCESSING_METHODS:
        status, charge = IntentStatus.PROCESSING, _charge(intent, attempt, ChargeStatus.PENDING)
    else:
        status, charge = IntentStatus.SUCCEEDED, _charge(intent, attempt, ChargeStatus.SUCCEEDED)
    return ConfirmResult(replace(intent, status=status, latest_charge=charge.charge_id), charge)


def _decline(
    intent: PaymentIntent, attempt: ConfirmAttempt, *, code: str, decline_code: str
) -> ConfirmResult:
    charge = replace(_charge(intent, attempt, ChargeStatus.FAILED), failure_code=code)
    after = _with_error(intent, charge, decline_code=decline_code)
    error = StripeApiError(
        "Your card was declined.",
        status=402,
        type_="card_error",
        code=code,
        decline_code=decline_code,
        charge=charge.charge_id,
        intent=after,
    )
    return ConfirmResult(after, charge, error)


def _with_error(intent: PaymentIntent, charge: Charge, *, decline_code: str) -> PaymentIntent:
    return replace(
        intent,
        status=IntentStatus.REQUIRES_PAYMENT_METHOD,
        payment_method=None,
        latest_charge=charge.charge_id,
        last_payment_error={
            "type": "card_error",
            "code": charge.failure_code,
            "decline_code": decline_code,
            "charge": charge.charge_id,
            "message": "Your card was declined.",
        },
    )


def _charge(intent: PaymentIntent, attempt: ConfirmAttempt, status: ChargeStatus) -> Charge:
    return Charge(
        charge_id=attempt.charge_id,
        intent_id=intent.intent_id,
        amount=intent.amount,
        currency=intent.currency,
        created=attempt.at,
        status=status,
        customer=intent.customer,
        payment_method=str(intent.payment_method),
        metadata=intent.metadata,
        idempotency_key=attempt.idempotency_key,
    )


def cancel(intent: PaymentIntent, *, reason: str | None, at: datetime) -> PaymentIntent:
    """Cancel the intent, which can no longer be charged."""
    if intent.status not in CONFIRMABLE:
        raise unexpected_state_error("cancel", intent)
    return replace(intent, status=IntentStatus.CANCELED, canceled_at=at, cancellation_reason=reason)


def complete_pending(
    intent: PaymentIntent, latest: Charge | None, attempt: ConfirmAttempt, *, succeeded: bool
) -> ConfirmResult:
    """Complete an intent that is processing or requires action."""
    if intent.status not in COMPLETABLE:
        raise unexpected_state_error("complete", intent)
    pending = latest is not None and latest.status is ChargeStatus.PENDING
    charge = latest if latest and pending else _charge(intent, attempt, ChargeStatus.PENDING)
    if succeeded:
        charge = replace(charge, status=ChargeStatus.SUCCEEDED)
        paid = replace(intent, status=IntentStatus.SUCCEEDED, latest_charge=charge.charge_id)
        return ConfirmResult(paid, charge)
    charge = replace(charge, status=ChargeStatus.FAILED, failure_code="card_declined")
    return ConfirmResult(_with_error(intent, charge, decline_code="generic_decline"), charge)
