"""Reads Stripe's words: an intent's state, or an error, as an answer."""

from collections.abc import Sequence
from ssl import SSLCertVerificationError
from typing import Any, Final

import stripe
from requests.exceptions import ConnectTimeout
from urllib3.exceptions import MaxRetryError, NewConnectionError

from oncely.domain.answers import (
    Absent,
    Answer,
    Done,
    NotSent,
    Odd,
    Processing,
    Refused,
    StillOpen,
    Unclear,
)
from oncely.domain.writes import Json
from oncely.providers import Payment

_UNAUTHORIZED: Final = frozenset({401, 403})
_RATE_LIMITED: Final = 429
_LOCKED: Final = "lock_timeout"
_CARD_REFUSED: Final = 402
_NOT_TAKEN: Final = frozenset({400, 404})
# The states of an intent that has taken the customer's money, or is about to.
MOVES_MONEY: Final = frozenset({"succeeded", "processing", "requires_capture"})


def made_for(intent: stripe.PaymentIntent) -> tuple[str | None, str | None]:
    """The deployment and the job that an intent was made for, as its metadata says."""
    metadata = getattr(intent, "metadata", None)
    return getattr(metadata, "deployment", None), getattr(metadata, "job_key", None)


def customer_of(intent: stripe.PaymentIntent) -> str | None:
    """The id of the customer who pays; None if the intent has none."""
    customer: Any = getattr(intent, "customer", None)
    found: str | None = getattr(customer, "id", customer)
    return found


def difference(
    intent: stripe.PaymentIntent, payment: Payment, *, livemode: bool | None
) -> str | None:
    """What shows that an intent is not this payment; None if it is.

    A reference proves nothing: a row may hold the id of somebody else's intent. Without a known
    mode of our API key (`livemode` is None), the mode is not compared.
    """
    deployment, job_key = made_for(intent)
    said: dict[str, tuple[object, object]] = {
        "deployment": (deployment, payment.deployment),
        "job_key": (job_key, payment.job_key),
        "customer": (customer_of(intent), payment.customer),
        "amount": (getattr(intent, "amount", None), payment.money.amount),
        "currency": (getattr(intent, "currency", None), payment.money.currency),
    }
    if livemode is not None:
        said["livemode"] = (getattr(intent, "livemode", None), livemode)
    for name, (theirs, ours) in said.items():
        if theirs != ours:
            return f"its {name} is {theirs}, not {ours}"
    return None


def from_intent(intent: stripe.PaymentIntent, payment: Payment, *, livemode: bool | None) -> Answer:
    """What an intent's own state says about our charge; one that is not ours says nothing."""
    if differs := difference(intent, payment, livemode=livemode):
        return Odd(f"{intent.id} is not this job's payment: {differs}", intent.id)
    match intent.status:
        case "succeeded":
            return _succeeded(intent, payment)
        case "processing":
            return Processing(f"Stripe is still processing {intent.id}")
        case "requires_confirmation":
            return Absent(f"{intent.id} was not confirmed, so nothing was charged")
        case "requires_payment_method" if intent.last_payment_error is not None:
            return _declined(intent)
        case "requires_action":
            return _declined(intent)
        case "canceled":
            return _canceled(intent)
        case other:
            return Odd(f"{intent.id} is {other}, which a charge never leads to", intent.id)


def if_closed(intent: stripe.PaymentIntent) -> Answer:
    """Whether an intent can still take money: only a canceled or refunded one never can."""
    charge = intent.latest_charge
    match intent.status:
        case "canceled":
            return _canceled(intent)
        case "succeeded" if isinstance(charge, stripe.Charge) and charge.refunded:
            return Refused(f"{intent.id} was refunded in full", code="refunded")
        case "succeeded":
            return Done(f"{intent.id} has taken the money", intent.id)
        case "processing":
            return Processing(f"Stripe is still processing {intent.id}")
        case "requires_capture":
            return Odd(f"{intent.id} holds the money and waits to be captured", intent.id)
        case _:
            return _declined(intent)


def also_found(answer: Answer, ref: str, others: Sequence[str]) -> Odd:
    """The same job has more than one payment: no rule may say which of them stands."""
    told = f"{answer.reason}; and {', '.join(others)} was made for the same job as {ref}"
    result = answer.result if isinstance(answer, Done) else {}
    return Odd(told, ref, {**result, "also_found": list(others)})


def turned_away_unsent(error: stripe.StripeError) -> Answer | None:
    """The answer if Stripe certainly did nothing; None: it may have."""
    if isinstance(error, stripe.APIConnectionError) and _never_left(error):
        return NotSent(f"Stripe could not be reached: {in_words(error)}")
    if refuses_our_key(error):
        return NotSent(f"Stripe refuses our key: {in_words(error)}", alarm=True)
    # A lock may be held by our own earlier call, which is still running.
    if error.http_status == _RATE_LIMITED and _code(error) != _LOCKED:
        return NotSent(f"Stripe limits our rate: {in_words(error)}")
    return None


def turned_away(error: stripe.StripeError) -> Answer:
    """The answer to a request that cannot have moved money."""
    if unsent := turned_away_unsent(error):
        return unsent
    if error.http_status == _CARD_REFUSED:
        return Refused(f"declined: {in_words(error)}", code=_code(error))
    if is_definite(error):
        return Odd(f"Stripe does not take the payment: {in_words(error)}")
    return Unclear(f"preparing the payment: {in_words(error)}")


def refuses_our_key(error: stripe.StripeError) -> bool:
    """Whether Stripe does not accept our API key, or not for this."""
    return error.http_status in _UNAUTHORIZED


def is_definite(error: stripe.StripeError) -> bool:
    """Whether Stripe understood the request and will not perform it as it is."""
    return error.http_status in _NOT_TAKEN


def in_words(error: stripe.StripeError) -> str:
    """One line for a person, with the request id that Stripe's support asks for."""
    status = f"HTTP {error.http_status}" if error.http_status else type(error).__name__
    request = f" (request {error.request_id})" if error.request_id else ""
    return f"{status} {_code(error)}: {str(error.user_message or error)[:200]}{request}"


def _code(error: stripe.StripeError) -> str:
    # The SDK fills `.code` for some classes only.
    return str(error.code or (error.error.code if error.error else None) or "no_code")


def _never_left(error: stripe.APIConnectionError) -> bool:
    """Refused, no such host, no connection in time, or a certificate we do not trust."""
    cause = error.__cause__
    if isinstance(cause, ConnectTimeout):
        return True
    inner = cause.args[0] if cause is not None and cause.args else None
    reason = inner.reason if isinstance(inner, MaxRetryError) else None
    if isinstance(reason, NewConnectionError):
        return True
    # Other TLS errors can come after the request was sent: those prove nothing.
    return (
        reason is not None
        and bool(reason.args)
        and isinstance(reason.args[0], SSLCertVerificationError)
    )


def _succeeded(intent: stripe.PaymentIntent, payment: Payment) -> Answer:
    charge = intent.latest_charge
    charge_id = charge.id if isinstance(charge, stripe.Charge) else str(charge or "")
    result: dict[str, Json] = {
        "charge_id": charge_id,
        "payment_intent": intent.id,
        "amount": intent.amount_received,
        "currency": intent.currency,
        "request_id": _request_id(intent),
    }
    money = payment.money
    if (intent.amount_received, intent.currency) != (money.amount, money.currency):
        return Odd(
            f"{intent.id} took {intent.amount_received} {intent.currency}, not {money}",
            intent.id,
            result,
        )
    if isinstance(charge, stripe.Charge) and charge.amount_refunded:
        return Odd(f"{charge_id} was charged and refunded", intent.id, result)
    if getattr(charge, "disputed", False):
        return Odd(f"{charge_id} was charged and is disputed", intent.id, result)
    return Done(f"charged {money} as {charge_id}", intent.id, result)


def _declined(intent: stripe.PaymentIntent) -> StillOpen:
    code, why = _payment_error(intent) or (intent.status, "not paid")
    if intent.status == "requires_action":
        code, why = "authentication_required", "the bank wants the customer"
    return StillOpen(f"{code}: {why}", code, _names(intent))


def _canceled(intent: stripe.PaymentIntent) -> Refused:
    code, why = _payment_error(intent) or ("canceled", "the payment was canceled")
    return Refused(f"{code}: {why}", code, _names(intent))


def _payment_error(intent: stripe.PaymentIntent) -> tuple[str, str] | None:
    error = intent.last_payment_error
    if error is None:
        return None
    code = str(getattr(error, "code", None) or "declined")
    why = getattr(error, "decline_code", None) or getattr(error, "message", None) or code
    return code, str(why)


def _names(intent: stripe.PaymentIntent) -> dict[str, Json]:
    return {"payment_intent": intent.id, "request_id": _request_id(intent)}


def is_replay(intent: stripe.PaymentIntent) -> bool:
    """Whether Stripe repeats an earlier answer, which shows the intent as it was then."""
    response = intent.last_response
    return response is not None and response.headers.get("Idempotent-Replayed") == "true"


def _request_id(intent: stripe.PaymentIntent) -> str | None:
    response = intent.last_response
    return response.request_id if response is not None else None
