"""Stripe's state and rules, without HTTP: payments, refunds, disputes and idempotency keys."""

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, TypeAlias, TypeVar

from oncely.testing.sandbox.http_messages import NowFunction, SandboxResponse
from oncely.testing.sandbox.ledger import EffectState, ProviderLedger, RecordedEffect
from oncely.testing.sandbox.provider_sandbox import ProviderSandbox, SandboxOptions


class IntentStatus(StrEnum):
    """The status of a PaymentIntent, in Stripe's terms."""

    REQUIRES_PAYMENT_METHOD = "requires_payment_method"
    REQUIRES_CONFIRMATION = "requires_confirmation"
    REQUIRES_ACTION = "requires_action"
    PROCESSING = "processing"
    SUCCEEDED = "succeeded"
    CANCELED = "canceled"


class ChargeStatus(StrEnum):
    """The status of a charge. Only `succeeded` moves money."""

    SUCCEEDED = "succeeded"
    PENDING = "pending"
    FAILED = "failed"


# Payment methods that stay processing until `complete_pending`, with their type.
PROCESSING_METHODS: Final = {"pm_processing": "us_bank_account", "pm_sepa": "sepa_debit"}

_EFFECT_STATES: Final = {
    ChargeStatus.SUCCEEDED: EffectState.DONE,
    ChargeStatus.PENDING: EffectState.PENDING,
    ChargeStatus.FAILED: EffectState.DECLINED,
}

_REFUND_STATES: Final = {
    "succeeded": EffectState.DONE,
    "pending": EffectState.PENDING,
    "failed": EffectState.DECLINED,
}


@dataclass(frozen=True, kw_only=True)
class _StripeObject:
    """What all objects have. Each change creates a new version."""

    intent_id: str
    amount: int
    currency: str
    created: datetime


@dataclass(frozen=True, kw_only=True)
class PaymentIntent(_StripeObject):
    """A payment."""

    status: IntentStatus
    customer: str | None = None
    payment_method: str | None = None
    description: str | None = None
    receipt_email: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    redirects_allowed: bool = True
    latest_charge: str | None = None
    last_payment_error: Mapping[str, Any] | None = None
    canceled_at: datetime | None = None
    cancellation_reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class Charge(_StripeObject):
    """One attempt to charge the customer."""

    charge_id: str
    status: ChargeStatus
    customer: str | None
    payment_method: str
    metadata: Mapping[str, str]
    idempotency_key: str | None
    failure_code: str | None = None
    amount_refunded: int = 0
    disputed: bool = False


@dataclass(frozen=True, kw_only=True)
class RecordedRefund(_StripeObject):
    """A refund of a charge."""

    refund_id: str
    charge_id: str
    metadata: Mapping[str, str]
    status: str = "succeeded"  # or pending, or failed: then the charge has its amount again


@dataclass(frozen=True, kw_only=True)
class Dispute(_StripeObject):
    """A dispute of a charge, opened by the customer's bank."""

    dispute_id: str
    charge_id: str
    status: str = "needs_response"


SandboxEntry: TypeAlias = PaymentIntent | Charge | RecordedRefund | Dispute
_Entry = TypeVar("_Entry", PaymentIntent, Charge, RecordedRefund, Dispute)
_ID_FIELDS: Final[Mapping[type, str]] = {
    PaymentIntent: "intent_id",
    Charge: "charge_id",
    RecordedRefund: "refund_id",
    Dispute: "dispute_id",
}


def object_id(entry: SandboxEntry) -> str:
    """The id of any object."""
    return str(getattr(entry, _ID_FIELDS[type(entry)]))


class StripeLedger(ProviderLedger):
    """What happened at Stripe."""

    def __init__(self, clock: NowFunction) -> None:
        super().__init__()
        self.on_change: Callable[[SandboxEntry | None, SandboxEntry], None] = lambda _, __: None
        self._clock = clock
        # The versions of each intent and when they were saved, for reads that lag.
        self._versions: dict[str, list[tuple[datetime, PaymentIntent]]] = {}
        self.emails: dict[str, str] = {}  # of customers

    @property
    def intents(self) -> tuple[PaymentIntent, ...]:
        return self.all(PaymentIntent)

    @property
    def attempts(self) -> tuple[Charge, ...]:
        """All charges, including declined and pending ones."""
        return self.all(Charge)

    @property
    def charges(self) -> tuple[Charge, ...]:
        return tuple(one for one in self.attempts if one.status is ChargeStatus.SUCCEEDED)

    @property
    def refunds(self) -> tuple[RecordedRefund, ...]:
        return self.all(RecordedRefund)

    @property
    def disputes(self) -> tuple[Dispute, ...]:
        return self.all(Dispute)

    def charges_for(self, reference: str) -> tuple[Charge, ...]:
        """The charges that moved money for a job key or order id in their metadata."""
        return tuple(
            charge
            for charge in self.charges
            if reference in {charge.metadata.get("job_key"), charge.metadata.get("order_id")}
        )

    def intent(self, intent_id: str) -> PaymentIntent | None:
        return self.find(PaymentIntent, intent_id)

    def charge(self, charge_id: str | None) -> Charge | None:
        return self.find(Charge, charge_id)

    def refund(self, refund_id: str) -> RecordedRefund | None:
        return self.find(RecordedRefund, refund_id)

    def intent_at(self, intent_id: str, moment: datetime) -> PaymentIntent | None:
        """The intent as it was then. Returns None if there was none yet."""
        with self.lock:
            versions = self._versions.get(intent_id, ())
            return next((one for at, one in reversed(versions) if at <= moment), None)

    def save(self, *entries: SandboxEntry) -> None:
        with self.lock:
            for entry in entries:
                before = self.put(object_id(entry), entry)
                if isinstance(entry, PaymentIntent):
                    self._versions.setdefault(entry.intent_id, []).append((self._clock(), entry))
                self.on_change(before, entry)

    def effects(self) -> Iterator[RecordedEffect]:
        for one in self.attempts:
            yield RecordedEffect(
                kind="charges",
                key=one.metadata.get("job_key", ""),
                reference=one.charge_id,
                state=_EFFECT_STATES[one.status],
                amount=one.amount,
                currency=one.currency,
            )
        for refund in self.refunds:
            # A refund made by hand belongs to no job.
            if key := refund.metadata.get("job_key"):
                yield RecordedEffect(
                    kind="refunds",
                    key=key,
                    reference=refund.refund_id,
                    state=_REFUND_STATES[refund.status],
                    amount=refund.amount,
                    currency=refund.currency,
                )


# The states in which an intent can also be canceled.
CONFIRMABLE: Final = frozenset(one for one in IntentStatus if one.startswith("requires_"))
COMPLETABLE: Final = frozenset({IntentStatus.PROCESSING, IntentStatus.REQUIRES_ACTION})

# Stripe's test payment methods that are declined, with the decline code. Others succeed.
DECLINES: Final = {
    "pm_card_chargeDeclined": "generic_decline",
    "pm_card_chargeDeclinedInsufficientFunds": "insufficient_funds",
}
# Declined when an intent is first confirmed, and kept in it, unlike Stripe's own methods.
DECLINED_FIRST: Final = "pm_declinedFirst"
NEEDS_AUTHENTICATION: Final = "pm_card_authenticationRequired"
MISSING_METHOD: Final = "pm_missing"
MISSING_CUSTOMER: Final = "cus_missing"

UNEXPECTED_STATE: Final = "payment_intent_unexpected_state"
# Errors that a fault injects: status → type, code and message.
OWN_ERRORS: Final = {
    401: ("invalid_request_error", None, "Invalid API Key provided."),
    409: ("idempotency_error", "idempotency_key_in_use", "Another request is using this key."),
    429: ("invalid_request_error", "rate_limit", "Too many requests hit the API too quickly."),
    500: ("api_error", None, "An unknown error occurred."),
    503: ("api_error", None, "Stripe is temporarily unavailable."),
}
# Stripe removes keys after this time, and a request executes again.
KEY_WINDOW: Final = timedelta(hours=24)


# Errors.
#
# StripeApiError              raised during execution: replayed under the idempotency key
# └── StripeValidationError   raised before execution: not replayed


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


def _unexpected_state_error(verb: str, intent: PaymentIntent) -> StripeApiError:
    return StripeApiError(
        f"You cannot {verb} this PaymentIntent because it has a status of {intent.status}.",
        code=UNEXPECTED_STATE,
        intent=intent,
    )


# The rules.


@dataclass(frozen=True, kw_only=True)
class ConfirmAttempt:
    """One attempt to confirm: the caller's parameters."""

    idempotency_key: str | None = None
    payment_method: str | None = None
    off_session: bool = False
    error_on_requires_action: bool = False
    return_url: str | None = None
    amount: int | None = None  # `amount_to_confirm`; None means the intent's amount


class StripeModel(ProviderSandbox):
    """What happened at Stripe, what it does next, and how late it shows that.

    Its attributes may change at any time. The operations hold the ledger's lock.
    """

    def __init__(self, options: SandboxOptions) -> None:
        super().__init__(options)
        self.ledger: StripeLedger = StripeLedger(options.clock)
        self.keys = IdempotencyKeys(options.clock, window=options.key_window or KEY_WINDOW)
        # What Stripe enforces. Without it, only Oncely's own rules prevent a second effect.
        self.honors_idempotency_keys = options.honors_idempotency_keys
        self.limits_refunds = True  # to what was captured
        # How late a change is shown: by reads of an intent, by the charge's own `amount_refunded`,
        # and by the lists of charges and of refunds.
        self.intent_lag = timedelta(0)
        self.charge_lag = timedelta(0)
        self.charge_list_lag = timedelta(0)
        self.refund_list_lag = timedelta(0)
        # What happens to new payments and refunds.
        self.acts_as: str | None = None  # the test payment method that every other one acts as
        self.refund_status = "succeeded"  # or pending, failed, or requires_action
        # How long a payment is processing and a refund pending. None: until it is completed.
        self.processing_time: timedelta | None = None

    # Payments.

    def create_intent(
        self, draft: PaymentIntent, attempt: ConfirmAttempt | None = None
    ) -> PaymentIntent:
        """Create an intent from a draft without an id, and with an attempt confirm it at once."""
        if draft.customer and draft.customer.startswith(MISSING_CUSTOMER):
            raise not_found_error("customer", draft.customer, param="customer")
        _check_payment_method(draft.payment_method)
        created = replace(draft, intent_id=self.options.new_id("pi"))
        if attempt is not None:
            return self._confirm(created, attempt)
        self.ledger.save(created)
        return created

    def confirm_intent(self, intent_id: str, attempt: ConfirmAttempt) -> PaymentIntent:
        """Attempt the charge. A decline is saved before it is raised."""
        return self._confirm(self.find_intent(intent_id), attempt)

    def cancel_intent(self, intent_id: str, *, reason: str | None = None) -> PaymentIntent:
        """Cancel the intent, which can no longer be charged."""
        intent = self.find_intent(intent_id)
        if intent.status not in CONFIRMABLE:
            raise _unexpected_state_error("cancel", intent)
        canceled = replace(
            intent,
            status=IntentStatus.CANCELED,
            canceled_at=self.options.clock(),
            cancellation_reason=reason,
        )
        self.ledger.save(canceled)
        return canceled

    def complete_pending(self, intent_id: str, *, succeeded: bool) -> PaymentIntent:
        """Complete an intent that is processing or requires action."""
        with self.ledger.lock:
            intent = self.find_intent(intent_id)
            if intent.status not in COMPLETABLE:
                raise _unexpected_state_error("complete", intent)
            latest = self.ledger.charge(intent.latest_charge)
            pending = latest is not None and latest.status is ChargeStatus.PENDING
            charge = latest if latest and pending else self._charge(intent, ConfirmAttempt())
            if succeeded:
                return self._save_charged(intent, replace(charge, status=ChargeStatus.SUCCEEDED))
            code = "card_declined"
            failed = replace(charge, status=ChargeStatus.FAILED, failure_code=code)
            return self._save_declined(intent, failed, decline_code="generic_decline")

    def complete_pending_since(self, moment: datetime) -> None:
        with self.ledger.lock:
            for one in self.ledger.attempts:
                if one.status is ChargeStatus.PENDING and one.created <= moment:
                    self.complete_pending(one.intent_id, succeeded=True)

    def pay_open_intent(self, intent_id: str) -> PaymentIntent:
        """Pay an intent that was declined, as a customer does with another card."""
        with self.ledger.lock:
            intent = replace(self.find_intent(intent_id), payment_method="pm_card_visa")
            if intent.status not in CONFIRMABLE:
                raise _unexpected_state_error("confirm", intent)
            charge = self._charge(intent, ConfirmAttempt())
            return self._save_charged(intent, replace(charge, status=ChargeStatus.SUCCEEDED))

    def _confirm(self, intent: PaymentIntent, attempt: ConfirmAttempt) -> PaymentIntent:
        _check_payment_method(attempt.payment_method)
        if intent.status not in CONFIRMABLE:
            raise _unexpected_state_error("confirm", intent)
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
        return self._attempt_charge(tried, attempt)

    def _attempt_charge(self, intent: PaymentIntent, attempt: ConfirmAttempt) -> PaymentIntent:
        method = self.acts_as or str(intent.payment_method)
        if method in DECLINES:
            raise self._decline(intent, attempt, "card_declined", DECLINES[method])
        if method == DECLINED_FIRST and intent.latest_charge is None:
            raise self._decline(intent, attempt, "card_declined", "generic_decline")
        if method == NEEDS_AUTHENTICATION:
            # The customer is absent, or the caller does not want to wait for an action.
            if attempt.off_session or attempt.error_on_requires_action:
                reason = "authentication_required"
                raise self._decline(intent, attempt, reason, reason)
            waiting = replace(intent, status=IntentStatus.REQUIRES_ACTION)
            self.ledger.save(waiting)
            return waiting
        charge = self._charge(intent, attempt)
        if method not in PROCESSING_METHODS:
            return self._save_charged(intent, replace(charge, status=ChargeStatus.SUCCEEDED))
        charge = replace(charge, payment_method=method)
        processing = replace(intent, status=IntentStatus.PROCESSING, latest_charge=charge.charge_id)
        self.ledger.save(processing, charge)
        return processing

    def _decline(
        self, intent: PaymentIntent, attempt: ConfirmAttempt, code: str, decline_code: str
    ) -> StripeApiError:
        failed = replace(
            self._charge(intent, attempt), status=ChargeStatus.FAILED, failure_code=code
        )
        declined = self._save_declined(intent, failed, decline_code=decline_code)
        return StripeApiError(
            "Your card was declined.",
            status=402,
            type_="card_error",
            code=code,
            decline_code=decline_code,
            charge=failed.charge_id,
            intent=declined,
        )

    def _save_charged(self, intent: PaymentIntent, charge: Charge) -> PaymentIntent:
        paid = replace(intent, status=IntentStatus.SUCCEEDED, latest_charge=charge.charge_id)
        self.ledger.save(paid, charge)
        return paid

    def _save_declined(
        self, intent: PaymentIntent, charge: Charge, *, decline_code: str
    ) -> PaymentIntent:
        kept = self.acts_as or intent.payment_method
        declined = replace(
            intent,
            status=IntentStatus.REQUIRES_PAYMENT_METHOD,
            payment_method=intent.payment_method if kept == DECLINED_FIRST else None,
            latest_charge=charge.charge_id,
            last_payment_error={
                "type": "card_error",
                "code": charge.failure_code,
                "decline_code": decline_code,
                "charge": charge.charge_id,
                "message": "Your card was declined.",
            },
        )
        self.ledger.save(declined, charge)
        return declined

    def _charge(self, intent: PaymentIntent, attempt: ConfirmAttempt) -> Charge:
        return Charge(
            charge_id=self.options.new_id("ch"),
            intent_id=intent.intent_id,
            amount=intent.amount,
            currency=intent.currency,
            created=self.options.clock(),
            status=ChargeStatus.PENDING,
            customer=intent.customer,
            payment_method=str(intent.payment_method),
            metadata=intent.metadata,
            idempotency_key=attempt.idempotency_key,
        )

    # Refunds and disputes.

    def create_refund(
        self,
        *,
        charge_id: str | None = None,
        intent_id: str | None = None,
        amount: int | None = None,
        metadata: dict[str, str] | None = None,
    ) -> RecordedRefund:
        """Refund a part of a charge, or without an amount the rest of it."""
        intent = self.ledger.intent(intent_id) if intent_id else None
        charge = self.ledger.charge(intent.latest_charge if intent else charge_id)
        if charge is None or charge.status is not ChargeStatus.SUCCEEDED:
            raise not_found_error("charge", charge_id or str(intent_id), param="charge")
        if charge.disputed:
            message = f"Charge {charge.charge_id} has been charged back."
            raise StripeApiError(message, code="charge_disputed")
        left = charge.amount - charge.amount_refunded
        wanted = left if amount is None else amount
        if self.limits_refunds and not 0 < wanted <= left:
            message = f"Charge {charge.charge_id} has already been refunded."
            raise StripeApiError(message, code="charge_already_refunded")
        refund = RecordedRefund(
            refund_id=self.options.new_id("re"),
            charge_id=charge.charge_id,
            intent_id=charge.intent_id,
            amount=wanted,
            currency=charge.currency,
            created=self.options.clock(),
            metadata=metadata or {},
            status=self.refund_status,
        )
        given = 0 if refund.status == "failed" else wanted
        self.ledger.save(replace(charge, amount_refunded=charge.amount_refunded + given), refund)
        return refund

    def refund(self, intent_id: str) -> RecordedRefund:
        """Refund a payment in full, as a user does."""
        with self.ledger.lock:
            return self.create_refund(intent_id=intent_id)

    def complete_refund(self, refund_id: str, *, succeeded: bool) -> None:
        """Set the result of a refund, even one that had succeeded: a bank can return the money."""
        with self.ledger.lock:
            refund = self.ledger.refund(refund_id)
            if refund is None:
                raise KeyError(refund_id)
            after = replace(refund, status="succeeded" if succeeded else "failed")
            entries: list[Charge | RecordedRefund] = [after]
            charge = self.ledger.charge(refund.charge_id)
            if charge and not succeeded and refund.status != "failed":
                left = charge.amount_refunded - refund.amount
                entries.append(replace(charge, amount_refunded=left))
            self.ledger.save(*entries)

    def dispute(self, intent_id: str) -> Dispute:
        """Dispute a payment in full, as the customer's bank does."""
        with self.ledger.lock:
            intent = self.ledger.intent(intent_id)
            charge = self.ledger.charge(intent.latest_charge if intent else None)
            if charge is None:
                raise KeyError(intent_id)
            opened = Dispute(
                dispute_id=self.options.new_id("dp"),
                charge_id=charge.charge_id,
                intent_id=intent_id,
                amount=charge.amount,
                currency=charge.currency,
                created=self.options.clock(),
            )
            self.ledger.save(replace(charge, disputed=True), opened)
            return opened

    def set_email(self, customer: str, email: str) -> None:
        """Give a customer an email address."""
        self.ledger.emails[customer] = email

    # What reads show.

    def find_intent(self, intent_id: str) -> PaymentIntent:
        """The intent as it is."""
        if (intent := self.ledger.intent(intent_id)) is None:
            raise not_found_error("payment_intent", intent_id)
        return intent

    def shown_intent(self, intent_id: str) -> PaymentIntent | None:
        """The intent as a read shows it. Returns None if there is none, or not yet."""
        if not self.intent_lag:
            return self.ledger.intent(intent_id)
        return self.ledger.intent_at(intent_id, self.options.clock() - self.intent_lag)

    def shown_charge(self, charge_id: str | None) -> Charge | None:
        """The charge as a read shows it, without refunds that it does not count yet."""
        charge = self.ledger.charge(charge_id)
        if charge is None or not self.charge_lag:
            return charge
        since = self.options.clock() - self.charge_lag
        uncounted = sum(
            one.amount
            for one in self.ledger.refunds
            if one.charge_id == charge.charge_id and one.created > since and one.status != "failed"
        )
        return replace(charge, amount_refunded=charge.amount_refunded - uncounted)

    def listed(self, kind: type[_Entry]) -> tuple[_Entry, ...]:
        """The objects that a list shows, declined and pending charges as well."""
        lags: Mapping[type, timedelta] = {
            Charge: self.charge_list_lag,
            RecordedRefund: self.refund_list_lag,
        }
        until = self.options.clock() - lags.get(kind, timedelta(0))
        return tuple(one for one in self.ledger.all(kind) if one.created <= until)

    def complete_processed(self) -> None:
        """Let the payments and refunds succeed whose time has come."""
        if self.processing_time is None:
            return
        moment = self.options.clock() - self.processing_time
        self.complete_pending_since(moment)
        for one in self.ledger.refunds:
            if one.status == "pending" and one.created <= moment:
                self.complete_refund(one.refund_id, succeeded=True)


def _check_payment_method(method: str | None) -> None:
    if method and (method.startswith(MISSING_METHOD) or not method.startswith("pm_")):
        raise not_found_error("PaymentMethod", method, param="payment_method")


# Idempotency keys.


@dataclass
class _StoredKey:
    fingerprint: object
    at: datetime
    response: SandboxResponse | None = None  # None while the first request executes


class IdempotencyKeys:
    """Idempotency keys as Stripe implements them: a key replays its first response."""

    def __init__(self, clock: NowFunction, *, window: timedelta = KEY_WINDOW) -> None:
        self._clock, self.window = clock, window
        self._lock = threading.Lock()
        self._stored: dict[str, _StoredKey] = {}

    def replay_or_run(
        self, key: str, fingerprint: object, run: Callable[[], SandboxResponse]
    ) -> SandboxResponse:
        """Return the stored response, or run the request and store its response."""
        if stored := self._begin(key, fingerprint):
            return stored.with_headers(Idempotent_Replayed="true")
        try:
            response = run()
        except BaseException:  # invalid parameters, or a bug: nothing was executed under the key
            with self._lock:
                self._stored.pop(key, None)
            raise
        with self._lock:
            self._stored[key].response = response
        return response

    def _begin(self, key: str, fingerprint: object) -> SandboxResponse | None:
        with self._lock:
            stored = self._stored.get(key)
            if stored is None or self._is_expired(stored):
                self._stored[key] = _StoredKey(fingerprint, self._clock())
                return None
            if stored.fingerprint != fingerprint:
                message = (
                    "Keys for idempotent requests can only be used with the same parameters they "
                    f"were first used with. Try using a key other than '{key}'."
                )
                raise StripeApiError(message, type_="idempotency_error")
            if stored.response is None:  # the first request is still executing
                raise own_error(409)
            return stored.response

    def _is_expired(self, stored: _StoredKey) -> bool:
        return stored.response is not None and self._clock() - stored.at >= self.window
