"""Parses Braintree's responses: the outcome from a transaction's status or an error."""

import hashlib
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final, TypeAlias
from xml.parsers.expat import ExpatError

import requests

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
from oncely.providers.braintree.request_keys import error_codes
from oncely.providers.braintree.sdk import (
    AuthenticationError,
    AuthorizationError,
    BraintreeError,
    NotFoundError,
    TooManyRequestsError,
)
from oncely.providers.interfaces import VOIDED, Payment

Transaction: TypeAlias = Any  # the SDK has no types

# What a request may raise: errors of the SDK, of HTTP, and of a malformed response.
REQUEST_ERRORS: Final = (
    *(BraintreeError, requests.RequestException, ExpatError, OSError),
    *(ArithmeticError, AttributeError, KeyError, TypeError, ValueError),
)
# PayPal accepts order ids of 127 characters, cards of 255. This leaves room for the deployment.
MAX_LABEL_LENGTH: Final = 90

# The transaction has taken the customer's money, or will without a further request.
_CHARGED: Final = frozenset(
    {"submitted_for_settlement", "settling", "settled", "settlement_confirmed"}
)
_UNDECIDED: Final = frozenset({"authorizing", "settlement_pending"})
_OPEN: Final = frozenset({"authorized", "authorizing"})
_DUPLICATE: Final = "duplicate"


def order_id_of(deployment: str | None, job_key: str) -> str:
    """Return the order id of a job, which no other job or deployment shares."""
    return f"{deployment or ''}:{job_label(job_key)}"


def job_label(job_key: str) -> str:
    """Return the job key, or its digest if an order id cannot hold it."""
    if len(job_key) <= MAX_LABEL_LENGTH:
        return job_key
    return f"sha256:{hashlib.sha256(job_key.encode()).hexdigest()}"


def is_charged(transaction: Transaction) -> bool:
    """Return whether a transaction has taken money, or still may without a further request."""
    return transaction.status in _CHARGED or transaction.status == "settlement_pending"


def has_settled(transaction: Transaction) -> bool:
    """Return whether a transaction has taken or returned money."""
    return transaction.status in _CHARGED


def is_open(transaction: Transaction) -> bool:
    """Return whether a transaction holds money that a submission would take."""
    return transaction.status in _OPEN


def is_duplicate_rejection(transaction: Transaction) -> bool:
    """Return whether the gateway rejected it because of another transaction of the same job."""
    reason = getattr(transaction, "gateway_rejection_reason", None)
    return transaction.status == "gateway_rejected" and reason == _DUPLICATE


def mismatch(transaction: Transaction, payment: Payment) -> str | None:
    """Return why a transaction is not this payment. Returns None if it is.

    A reference proves nothing: a row may contain the id of an unrelated transaction.
    """
    customer = getattr(transaction, "customer_details", None)
    compared: dict[str, tuple[object, object]] = {
        "type": (getattr(transaction, "type", None), "sale"),
        "order_id": (
            getattr(transaction, "order_id", None),
            order_id_of(payment.deployment, payment.job_key),
        ),
        "customer": (getattr(customer, "id", None), payment.customer),
        "amount": (transaction.amount, Decimal(payment.money.decimal_text)),
        "currency": (currency_of(transaction), payment.money.currency),
    }
    for name, (theirs, ours) in compared.items():
        if theirs != ours:
            return f"its {name} is {theirs}, not {ours}"
    return None


def outcome_from_transaction(
    transaction: Transaction, payment: Payment
) -> ProviderState | NotFound:
    """Return the outcome that the status of a transaction proves."""
    if difference := mismatch(transaction, payment):
        reason = f"{transaction.id} is not this job's payment: {difference}"
        return Anomalous(reason, transaction.id)
    if transaction.status in _CHARGED:
        return _charged_outcome(transaction, payment)
    if transaction.status == "authorized":
        reason = f"{transaction.id} was not submitted, so nothing was charged"
        # Conclusive although a submission may still arrive: of two, Braintree rejects the second.
        return NotFound(reason, conclusive=True)
    return _status_outcome(transaction)


def closed_outcome(transaction: Transaction) -> ProviderState:
    """Return whether a transaction can still take money, without knowing its payment."""
    if transaction.status in _CHARGED:
        return Succeeded(f"{transaction.id} has taken the money", transaction.id)
    if transaction.status == "authorized":
        return StillOpen(f"{transaction.id} was not submitted for settlement", "authorized")
    return _status_outcome(transaction)


def _status_outcome(transaction: Transaction) -> ProviderState:
    match transaction.status:
        case status if status in _UNDECIDED:
            return Pending(f"Braintree is still deciding {transaction.id} ({status})")
        case "processor_declined":
            return _processor_declined(transaction)
        case "gateway_rejected" if is_duplicate_rejection(transaction):
            reason = f"{transaction.id} is a duplicate of another transaction of this job"
            return Anomalous(reason, transaction.id)
        case "gateway_rejected":
            reason = str(getattr(transaction, "gateway_rejection_reason", None) or "unknown")
            return _declined(transaction, f"gateway_rejected_{reason}", "rejected by the gateway")
        case "settlement_declined" | "settlement_failed" as status:
            text = getattr(transaction, "processor_settlement_response_text", None)
            return _declined(transaction, status, str(text or "not settled"))
        case "failed":
            return _declined(transaction, "failed", "the processor could not be reached")
        case "voided":
            return _declined(transaction, VOIDED, "the authorization was voided")
        case "authorization_expired" as status:
            return _declined(transaction, status, "it was not submitted in time")
        case other:
            return Anomalous(f"{transaction.id} has the unexpected status {other}", transaction.id)


def flag_duplicates(
    outcome: ProviderState | NotFound, ref: str, others: Iterable[Transaction]
) -> Anomalous:
    """Return the outcome of a job with more than one charge, which needs review."""
    ids = [str(one.id) for one in others]
    reason = f"{outcome.reason}; and {', '.join(ids)} was made for the same job as {ref}"
    result = outcome.result if isinstance(outcome, Succeeded | Anomalous) else {}
    return Anomalous(reason, ref, {**result, "also_found": list[Json](ids)})


def flag_open(outcome: Declined, others: Iterable[Transaction]) -> StillOpen:
    """Return the outcome of a declined job with another authorization that must be voided."""
    ids = ", ".join(str(one.id) for one in others)
    return StillOpen(f"{outcome.reason}; {ids} is still authorized", outcome.code, outcome.result)


def not_sent_outcome(error: BaseException) -> NotSent | None:
    """Return `NotSent` if Braintree certainly did nothing. Returns None if it may have."""
    if was_never_sent(error):
        return NotSent(f"Braintree could not be reached: {describe_error(error)}")
    if rejects_api_key(error):
        reason = f"Braintree rejects our API key: {describe_error(error)}"
        return NotSent(reason, credentials_rejected=True)
    if isinstance(error, TooManyRequestsError):
        return NotSent(f"Braintree limits our request rate: {describe_error(error)}")
    return None


def error_outcome(error: BaseException) -> EffectOutcome:
    """Return the outcome of a failed authorization, which cannot have moved money."""
    if unsent := not_sent_outcome(error):
        return unsent
    if is_unknown_id(error):
        return Anomalous(f"Braintree rejects the payment: {describe_error(error)}")
    return Ambiguous(f"authorizing the payment: {describe_error(error)}")


def rejects_api_key(error: BaseException) -> bool:
    """Return whether Braintree rejects our API key, at all or for this request."""
    return isinstance(error, AuthenticationError | AuthorizationError)


def is_unknown_id(error: BaseException) -> bool:
    """Return whether Braintree does not know the object in the request."""
    return isinstance(error, NotFoundError)


def describe_error(error: BaseException) -> str:
    """Describe an error in one line. It never contains the API key."""
    text = str(error)[:200]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def describe_rejection(result: Any) -> str:  # noqa: ANN401  # the SDK's ErrorResult
    """Describe why Braintree rejected a request as invalid, with its error codes."""
    codes = error_codes(result)
    named = f" ({', '.join(codes)})" if codes else ""
    return f"{str(result.message)[:200]}{named}"


def currency_of(transaction: Transaction) -> str | None:
    """Return the currency of a transaction."""
    code = getattr(transaction, "currency_iso_code", None)
    return None if code is None else str(code).lower()


def _charged_outcome(transaction: Transaction, payment: Payment) -> ProviderState:
    result: dict[str, Json] = {
        "charge_id": transaction.id,
        "amount": payment.money.amount,
        "currency": payment.money.currency,
    }
    if getattr(transaction, "refund_ids", None):
        reason = f"{transaction.id} was charged and refunded in part"
        return Anomalous(reason, transaction.id, result, effect_done=True)
    if getattr(transaction, "disputes", None):
        reason = f"{transaction.id} was charged and is disputed"
        return Anomalous(reason, transaction.id, result, effect_done=True)
    return Succeeded(f"charged {payment.money} as {transaction.id}", transaction.id, result)


def _processor_declined(transaction: Transaction) -> Declined:
    code = getattr(transaction, "processor_response_code", None)
    text = getattr(transaction, "processor_response_text", None) or "declined by the processor"
    kind = getattr(transaction, "processor_response_type", None)  # soft_declined or hard_declined
    return _declined(
        transaction, "processor_declined", str(text), processor_code=code, decline_type=kind
    )


def _declined(transaction: Transaction, code: str, text: str, **more: str | None) -> Declined:
    result: dict[str, Json] = {"transaction": transaction.id}
    result |= {name: value for name, value in more.items() if value}
    return Declined(f"{code}: {text}", code, result)
