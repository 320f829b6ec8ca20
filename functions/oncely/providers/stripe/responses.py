"""Parses Stripe's responses: the outcome from an intent's state or an error."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import stripe

from oncely.core.effect_outcomes import (
    Ambiguous,
    Anomalous,
    Declined,
    EffectOutcome,
    Json,
    NotFound,
    NotSent,
    Pending,
    ProviderState,
    StillOpen,
    Succeeded,
)
from oncely.plugins.requests_session import was_never_sent
from oncely.providers.interfaces import Payment

_UNAUTHORIZED: Final = frozenset({401, 403})
_RATE_LIMITED: Final = 429
_LOCK_TIMEOUT: Final = "lock_timeout"
_CARD_DECLINED: Final = 402
_REJECTED_STATUSES: Final = frozenset({400, 404})
# By the type of the payment method. Stripe's other methods fit into Oncely's default of 14 days.
_PROCESSING_LIMITS: Final = {
    "card": timedelta(days=3),
    "sepa_debit": timedelta(days=23),  # 14 business days, and holidays
}
# The states of an intent that has taken the customer's money, or may still.
MONEY_MOVING_STATES: Final = frozenset({"succeeded", "processing", "requires_capture"})


def metadata_owner(
    effect: stripe.PaymentIntent | stripe.Charge | stripe.Refund,
) -> tuple[str | None, str | None]:
    """Return the deployment and the job key in the metadata of an intent, charge or refund."""
    metadata = getattr(effect, "metadata", None)
    return getattr(metadata, "deployment", None), getattr(metadata, "job_key", None)


def customer_id(intent: stripe.PaymentIntent) -> str | None:
    """Return the id of the intent's customer. Returns None if it has none."""
    customer: Any = getattr(intent, "customer", None)
    id_: str | None = getattr(customer, "id", customer)
    return id_


def intent_mismatch(
    intent: stripe.PaymentIntent, payment: Payment, *, livemode: bool | None
) -> str | None:
    """Return why an intent is not this payment. Returns None if it is.

    A reference proves nothing: a row may contain the id of an unrelated intent. If the mode of
    our API key is unknown (`livemode` is None), the mode is not compared.
    """
    deployment, job_key = metadata_owner(intent)
    compared: dict[str, tuple[object, object]] = {
        "deployment": (deployment, payment.deployment),
        "job_key": (job_key, payment.job_key),
        "customer": (customer_id(intent), payment.customer),
        "amount": (getattr(intent, "amount", None), payment.money.amount),
        "currency": (getattr(intent, "currency", None), payment.money.currency),
    }
    if livemode is not None:
        compared["livemode"] = (getattr(intent, "livemode", None), livemode)
    for name, (theirs, ours) in compared.items():
        if theirs != ours:
            return f"its {name} is {theirs}, not {ours}"
    return None


def outcome_from_intent(
    intent: stripe.PaymentIntent, payment: Payment, *, livemode: bool | None
) -> ProviderState | NotFound:
    """Return the outcome that the state of an intent proves."""
    if mismatch := intent_mismatch(intent, payment, livemode=livemode):
        return Anomalous(f"{intent.id} is not this job's payment: {mismatch}", intent.id)
    match intent.status:
        case "succeeded":
            return _succeeded_outcome(intent, payment)
        case "processing":
            return _pending_outcome(intent)
        case "requires_confirmation":
            return NotFound(f"{intent.id} was not confirmed, so nothing was charged")
        case "requires_payment_method" if intent.last_payment_error is not None:
            return _declined_outcome(intent)
        case "requires_action":
            return _declined_outcome(intent)
        case "canceled":
            return _canceled_outcome(intent)
        case other:
            return Anomalous(f"{intent.id} has the unexpected status {other}", intent.id)


def closed_outcome(intent: stripe.PaymentIntent) -> ProviderState:
    """Return whether an intent can still take money. Only a canceled or refunded one cannot."""
    charge = intent.latest_charge
    match intent.status:
        case "canceled":
            return _canceled_outcome(intent)
        case "succeeded" if isinstance(charge, stripe.Charge) and charge.refunded:
            result = {**_result_fields(intent), "charge_id": charge.id}
            return Declined(f"{intent.id} was refunded in full", "refunded", result)
        case "succeeded":
            return Succeeded(f"{intent.id} has taken the money", intent.id)
        case "processing":
            return _pending_outcome(intent)
        case "requires_capture":
            return Anomalous(f"{intent.id} holds the money and is not captured", intent.id)
        case _:
            return _declined_outcome(intent)


def flag_duplicate_payments(
    outcome: ProviderState | NotFound, ref: str, others: Sequence[str]
) -> Anomalous:
    """Return the outcome of a job with more than one payment, which needs review."""
    reason = f"{outcome.reason}; and {', '.join(others)} was made for the same job as {ref}"
    result = outcome.result if isinstance(outcome, Succeeded | Anomalous) else {}
    return Anomalous(reason, ref, {**result, "also_found": list(others)})


def not_sent_outcome(error: stripe.StripeError) -> NotSent | None:
    """Return `NotSent` if Stripe certainly did nothing. Returns None if it may have."""
    if isinstance(error, stripe.APIConnectionError) and was_never_sent(error.__cause__):
        return NotSent(f"Stripe could not be reached: {describe_error(error)}")
    if rejects_api_key(error):
        reason = f"Stripe rejects our API key: {describe_error(error)}"
        return NotSent(reason, credentials_rejected=True)
    # An earlier call of ours that is still running may hold the lock.
    if error.http_status == _RATE_LIMITED and error_code(error) != _LOCK_TIMEOUT:
        return NotSent(f"Stripe limits our request rate: {describe_error(error)}")
    return None


def error_outcome(error: stripe.StripeError) -> EffectOutcome:
    """Return the outcome of a failed request that cannot have moved money."""
    if not_sent := not_sent_outcome(error):
        return not_sent
    if error.http_status == _CARD_DECLINED:
        return Declined(f"declined: {describe_error(error)}", code=error_code(error))
    if is_definitive(error):
        return Anomalous(f"Stripe rejects the payment: {describe_error(error)}")
    return Ambiguous(f"preparing the payment: {describe_error(error)}")


def rejects_api_key(error: stripe.StripeError) -> bool:
    """Return whether Stripe rejects our API key, at all or for this request."""
    return error.http_status in _UNAUTHORIZED


def is_definitive(error: stripe.StripeError) -> bool:
    """Return whether Stripe understood the request and will never perform it."""
    return error.http_status in _REJECTED_STATUSES


def describe_error(error: stripe.StripeError) -> str:
    """Describe an error in one line, with the request id that Stripe's support needs."""
    status = f"HTTP {error.http_status}" if error.http_status else type(error).__name__
    request = f" (request {error.request_id})" if error.request_id else ""
    # The SDK's own messages have several lines.
    message = " ".join(str(error.user_message or error).split())
    return f"{status} {error_code(error)}: {message[:200]}{request}"


def error_code(error: stripe.StripeError) -> str:
    """Return Stripe's code of an error."""
    # The SDK fills `.code` for some classes only.
    return str(error.code or (error.error.code if error.error else None) or "no_code")


def _succeeded_outcome(intent: stripe.PaymentIntent, payment: Payment) -> ProviderState:
    charge = intent.latest_charge
    charge_id = charge.id if isinstance(charge, stripe.Charge) else str(charge or "")
    result: dict[str, Json] = {
        "charge_id": charge_id,
        "payment_intent": intent.id,
        "amount": intent.amount_received,
        "currency": intent.currency,
        "request_id": request_id(intent),
    }
    money = payment.money
    if (intent.amount_received, intent.currency) != (money.amount, money.currency):
        reason = f"{intent.id} took {intent.amount_received} {intent.currency}, not {money}"
        return Anomalous(reason, intent.id, result)
    if getattr(charge, "refunded", False):
        reason = f"{charge_id} was charged and refunded"
        return Anomalous(reason, intent.id, result, undone=True)
    if isinstance(charge, stripe.Charge) and charge.amount_refunded:
        reason = f"{charge_id} was charged and refunded in part"
        return Anomalous(reason, intent.id, result, effect_done=True)
    if getattr(charge, "disputed", False):
        reason = f"{charge_id} was charged and is disputed"
        return Anomalous(reason, intent.id, result, effect_done=True)
    return Succeeded(f"charged {money} as {charge_id}", intent.id, result)


def _pending_outcome(intent: stripe.PaymentIntent) -> Pending:
    details = getattr(intent.latest_charge, "payment_method_details", None)
    limit = _PROCESSING_LIMITS.get(str(getattr(details, "type", None)))
    return Pending(f"Stripe is still processing {intent.id}", limit)


def _declined_outcome(intent: stripe.PaymentIntent) -> StillOpen:
    code, why = _payment_error(intent) or (intent.status, "not paid")
    if intent.status == "requires_action":
        code, why = "authentication_required", "the bank requires authentication"
    return StillOpen(f"{code}: {why}", code, _result_fields(intent))


def _canceled_outcome(intent: stripe.PaymentIntent) -> Declined:
    code, why = _payment_error(intent) or ("canceled", "the payment was canceled")
    return Declined(f"{code}: {why}", code, _result_fields(intent))


def _payment_error(intent: stripe.PaymentIntent) -> tuple[str, str] | None:
    error = intent.last_payment_error
    if error is None:
        return None
    code = str(getattr(error, "code", None) or "declined")
    why = getattr(error, "decline_code", None) or getattr(error, "message", None) or code
    return code, str(why)


def _result_fields(intent: stripe.PaymentIntent) -> dict[str, Json]:
    return {"payment_intent": intent.id, "request_id": request_id(intent)}


def is_replay(response: stripe.PaymentIntent | stripe.Refund | stripe.StripeError) -> bool:
    """Return whether Stripe replays what it stored under the key, with an object as it was then.

    Only this proves that an error was stored: not every 500 is.
    """
    sent = response if isinstance(response, stripe.StripeError) else response.last_response
    headers: Mapping[str, str] = getattr(sent, "headers", None) or {}
    return headers.get("Idempotent-Replayed") == "true"


def request_id(effect: stripe.PaymentIntent | stripe.Refund) -> str | None:
    """Return the id of the request, which Stripe's support needs."""
    response = effect.last_response
    return response.request_id if response is not None else None
