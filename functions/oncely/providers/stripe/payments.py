"""Stripe through its official SDK: create an unconfirmed intent, then trust only its state."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlsplit

import stripe

from oncely.core.effect_outcomes import (
    Ambiguous,
    Anomalous,
    Declined,
    EffectOutcome,
    LookupFailed,
    LookupOutcome,
    NotFound,
    NotSent,
    Pending,
    Prepared,
    ProviderState,
    StillOpen,
    Succeeded,
    after_send,
)
from oncely.core.errors import GateClosedError
from oncely.core.keys import IdempotencyKey, JobKey
from oncely.core.profiles import EndpointGroup
from oncely.plugins.provider import INTERNET, UNGATED, Network, RequestGate
from oncely.plugins.request_deadline import CONNECT_TIMEOUT, request_deadline
from oncely.plugins.requests_session import deadline_session
from oncely.providers.interfaces import Payment
from oncely.providers.stripe.payment_ledger import StripePaymentLedger
from oncely.providers.stripe.plugin import PROFILE
from oncely.providers.stripe.refunds import StripeRefunds
from oncely.providers.stripe.responses import (
    MONEY_MOVING_STATES,
    closed_outcome,
    customer_id,
    describe_error,
    error_outcome,
    flag_duplicate_payments,
    intent_mismatch,
    is_definitive,
    is_replay,
    metadata_owner,
    not_sent_outcome,
    outcome_from_intent,
    rejects_api_key,
)

# The version that this module parses. Read Stripe's changelog before you raise it.
API_VERSION: Final = "2026-10-28.endive"
# Oncely searches this many of the customer's newest payments for another one of the same job.
PAGE_SIZE: Final = 100
MAX_PAGES: Final = 3
# After a restore a row may lack its reference. Only the full list proves that none exists.
MAX_PAGES_AFTER_RESTORE: Final = 20
SEARCH_TRUNCATED_NOTE: Final = (
    f"only the customer's newest {PAGE_SIZE * MAX_PAGES} payments were searched for another one"
)
_INTENT_ID: Final = re.compile(r"/pi_\w+")
_SERVER_ERROR: Final = 500
# Secret, restricted and organization keys contain their mode.
_KEY_MODE: Final = re.compile(r"(?:[a-z]+_)+(live|test)_")


def is_live_key(api_key: str) -> bool | None:
    """Return whether an API key is a live one. Returns None if its prefix has no mode.

    Without a mode, Oncely does not compare it: Stripe returns only objects of the key's mode.
    """
    match = _KEY_MODE.match(api_key)
    return None if match is None else match[1] == "live"


class DeadlineClient(stripe.RequestsClient):
    """An HTTP client that sends a request once, through the gate and within a deadline."""

    def __init__(self, limit: timedelta, gate: RequestGate, network: Network) -> None:
        seconds = limit.total_seconds()
        self._gate, self._network = gate, network
        super().__init__(timeout=(min(CONNECT_TIMEOUT.total_seconds(), seconds), seconds))
        self._limit = limit

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None,
        post_data: Any = None,  # noqa: ANN401  # as inherited
        **named: Any,  # noqa: ANN401  # as inherited
    ) -> tuple[Any, int, Mapping[str, str]]:
        if getattr(self._thread_local, "session", None) is None:
            self._thread_local.session = deadline_session(self._network)
        # Stripe limits the rate of each endpoint.
        endpoint = f"{method} {_INTENT_ID.sub('/{id}', urlsplit(url).path)}"
        # Workers read as well, so the gate of lookups counts all reads.
        group = EndpointGroup.LOOKUPS if method == "get" else EndpointGroup.EFFECTS
        with (
            self._gate.request(endpoint, group=group) as response,
            request_deadline(self._limit, self._network),
        ):
            answer = super().request(method, url, headers, post_data, **named)
            response.status = answer[1]
            return answer


def stripe_client(
    api_key: str,
    *,
    api_base: str | None = None,
    request_timeout: timedelta = PROFILE.request_timeout,
    gate: RequestGate = UNGATED,
    network: Network = INTERNET,
) -> stripe.StripeClient:
    """Build a client that never retries a request."""
    # Telemetry would write a file under HOME and send metrics of the last request.
    stripe.enable_telemetry = False
    return stripe.StripeClient(
        api_key,
        stripe_version=API_VERSION,
        max_network_retries=0,
        base_addresses={"api": api_base} if api_base else {},
        http_client=DeadlineClient(request_timeout, gate, network),
    )


@dataclass(frozen=True)
class StripePayments(StripeRefunds):
    """Charges through PaymentIntents. Stripe never charges the same intent twice."""

    @classmethod
    def from_api_key(
        cls,
        api_key: str,
        *,
        api_base: str | None = None,
        gate: RequestGate = UNGATED,
        network: Network = INTERNET,
    ) -> "StripePayments":
        """Connect with an API key. Jobs store only its digest."""
        credential = hashlib.sha256(api_key.encode()).hexdigest()[:12]
        client = stripe_client(api_key, api_base=api_base, gate=gate, network=network)
        return cls(client, credential, is_live_key(api_key))

    @property
    def ledger(self) -> StripePaymentLedger:
        return StripePaymentLedger(self.client)

    def key_scope(self) -> str:
        mode = {True: "live", False: "test", None: "any"}[self.livemode]
        return f"stripe:{mode}:{self.credential}"

    def responds(self) -> bool:
        """Read one payment. Any response below 500 shows that Stripe responds."""
        try:
            self.client.v1.payment_intents.list({"limit": 1})
        except stripe.APIConnectionError:
            return False
        except stripe.StripeError as error:
            return (error.http_status or _SERVER_ERROR) < _SERVER_ERROR
        return True

    def prepare(
        self, payment: Payment, *, idempotency_key: IdempotencyKey
    ) -> Prepared | EffectOutcome:
        """Create an unconfirmed intent, which cannot move money."""
        try:
            intent = self.client.v1.payment_intents.create(
                {
                    "amount": payment.money.amount,
                    "currency": payment.money.currency,
                    "customer": payment.customer,
                    "payment_method": payment.method,
                    "capture_method": "automatic",
                    # No redirects: the customer is not present to follow one.
                    "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
                    "metadata": _metadata(payment),
                },
                {"idempotency_key": idempotency_key},
            )
        except stripe.StripeError as error:
            return error_outcome(error)
        # A replayed response may contain an intent that another system created or changed.
        if mismatch := intent_mismatch(intent, payment, livemode=self.livemode):
            reason = f"Stripe returned {intent.id} for the idempotency key, but {mismatch}"
            return Anomalous(reason, intent.id)
        return Prepared(intent.id, replayed=is_replay(intent))

    def execute(
        self, ref: str, payment: Payment, *, idempotency_key: IdempotencyKey, verified: bool = False
    ) -> EffectOutcome:
        """Confirm the intent. After an error, its state is the outcome, not the HTTP status."""
        if not verified:
            state = self._verify(ref, payment)
            if not isinstance(state, NotFound):
                return state
        try:
            intent = self.client.v1.payment_intents.confirm(
                ref,
                {
                    # An upper limit for the charge, even if the intent changed since the check.
                    "amount_to_confirm": payment.money.amount,
                    "off_session": True,
                    "error_on_requires_action": True,
                    "expand": ["latest_charge"],
                },
                {"idempotency_key": idempotency_key},
            )
        except stripe.StripeError as error:
            return self._outcome_after_error(error, ref, payment)
        return after_send(outcome_from_intent(intent, payment, livemode=self.livemode))

    def close(self, ref: str, payment: Payment, *, verified: bool = False) -> EffectOutcome:
        """Cancel the intent. Only a canceled intent can never take money."""
        if not verified:
            state = self._verify(ref, payment)
            if not isinstance(state, NotFound | StillOpen):
                return state
        try:
            # Without an idempotency key: canceling twice is harmless, and with one Stripe would
            # replay a 500 for a day.
            intent = self.client.v1.payment_intents.cancel(ref, {"expand": ["latest_charge"]})
        except stripe.StripeError as error:
            return not_sent_outcome(error) or self._close_outcome_after_error(error, ref, payment)
        return after_send(outcome_from_intent(intent, payment, livemode=self.livemode))

    def lookup_closed(
        self, ref: str, *, job_key: JobKey, deployment: str | None = None
    ) -> LookupOutcome:
        try:
            intent = self.client.v1.payment_intents.retrieve(ref, {"expand": ["latest_charge"]})
        except stripe.StripeError as error:
            if is_definitive(error):
                return NotFound(f"Stripe has no payment {ref}: {describe_error(error)}")
            return LookupFailed(f"reading {ref} failed: {describe_error(error)}")
        if metadata_owner(intent) != (deployment, job_key):
            return NotFound(f"{ref} is not this job's payment")
        outcome = closed_outcome(intent)
        if not isinstance(outcome, Declined):
            return outcome
        try:
            owner, customer = (deployment, job_key), customer_id(intent)
            intents, _ = self._list_job_intents(owner, customer, pages=MAX_PAGES)
        except stripe.StripeError as error:
            return _list_failed(error)
        others = _other_money_moving(intents, ref)
        return flag_duplicate_payments(outcome, ref, others) if others else outcome

    def lookup(self, ref: str, payment: Payment) -> LookupOutcome:
        """List the customer's payments, to find ours and any other payment of the same job.

        If the list shows ours as paid, one request is enough. Otherwise read it by its id.
        """
        owner = (payment.deployment, payment.job_key)
        try:
            intents, is_complete = self._list_job_intents(owner, payment.customer, pages=MAX_PAGES)
        except stripe.StripeError as error:
            return _list_failed(error)
        ours = next((one for one in intents if one.id == ref), None)
        outcome = self._paid_outcome(ours, payment) or self._read(ref, payment)
        if isinstance(outcome, LookupFailed | Pending):
            return outcome
        if isinstance(outcome, Anomalous) and not outcome.effect_done:
            return outcome
        if others := _other_money_moving(intents, ref):
            return flag_duplicate_payments(outcome, ref, others)
        if is_complete:
            return outcome
        return replace(outcome, reason=f"{outcome.reason}; {SEARCH_TRUNCATED_NOTE}")

    def _paid_outcome(
        self, ours: stripe.PaymentIntent | None, payment: Payment
    ) -> Succeeded | None:
        # Only an expanded charge shows whether it was refunded.
        if ours is None or not isinstance(ours.latest_charge, stripe.Charge):
            return None
        outcome = outcome_from_intent(ours, payment, livemode=self.livemode)
        return outcome if isinstance(outcome, Succeeded) else None

    def _verify(self, ref: str, payment: Payment) -> ProviderState | NotFound | NotSent:
        try:
            intent = self.client.v1.payment_intents.retrieve(ref, {"expand": ["latest_charge"]})
        except GateClosedError as error:
            return NotSent(f"reading {ref} before the next step: {error}")
        except stripe.StripeError as error:
            reason = f"reading {ref} before the next step: {describe_error(error)}"
            if is_definitive(error):
                return Anomalous(reason, ref)
            return not_sent_outcome(error) or NotSent(reason)
        return outcome_from_intent(intent, payment, livemode=self.livemode)

    def _read(self, ref: str, payment: Payment) -> ProviderState | NotFound | LookupFailed:
        try:
            intent = self.client.v1.payment_intents.retrieve(ref, {"expand": ["latest_charge"]})
        except GateClosedError as error:
            return LookupFailed(f"reading {ref}: {error}")
        except stripe.StripeError as error:
            reason = f"reading {ref} failed: {describe_error(error)}"
            return LookupFailed(reason, unknown_reference=is_definitive(error))
        return outcome_from_intent(intent, payment, livemode=self.livemode)

    def find(self, payment: Payment) -> Prepared | LookupOutcome:
        """Find this job's intent among the customer's. Of several, return the furthest along."""
        owner, pages = (payment.deployment, payment.job_key), MAX_PAGES_AFTER_RESTORE
        try:
            intents, is_complete = self._list_job_intents(owner, payment.customer, pages=pages)
        except stripe.StripeError as error:
            return _list_failed(error)
        if intents:
            return Prepared(min(intents, key=_progress_rank).id)
        if is_complete:
            return NotFound("the customer has no payment of this job", conclusive=True)
        return Anomalous(
            f"the customer has more than {PAGE_SIZE * pages} payments: search for one of this job "
            "in Stripe's dashboard"
        )

    def _list_job_intents(
        self, owner: tuple[str | None, str], customer: str | None, *, pages: int
    ) -> tuple[list[stripe.PaymentIntent], bool]:
        """Return the intents of a job, the newest first, and whether the list is complete."""
        intents: list[stripe.PaymentIntent] = []
        expand = ["data.latest_charge"]
        request: dict[str, Any] = {"customer": customer, "limit": PAGE_SIZE, "expand": expand}
        for _ in range(pages):
            page = self.client.v1.payment_intents.list(request)  # type: ignore[arg-type]  # its fields by name
            intents += [intent for intent in page.data if metadata_owner(intent) == owner]
            if not page.has_more or not page.data:
                return intents, True
            request = {**request, "starting_after": page.data[-1].id}
        return intents, False

    def _outcome_after_error(
        self, error: stripe.StripeError, ref: str, payment: Payment
    ) -> EffectOutcome:
        unsent = not_sent_outcome(error)
        # A rejected API key does not prove that a request in flight was not performed.
        if unsent is not None and not rejects_api_key(error):
            return unsent
        match self._read(ref, payment):
            case NotFound() if unsent is not None:
                return unsent
            case NotFound() if is_definitive(error):
                reason = f"Stripe rejects the confirmation of {ref}: {describe_error(error)}"
                return Anomalous(reason, ref)
            case NotFound() | LookupFailed():
                return Ambiguous(f"confirming {ref}: {describe_error(error)}")
            case outcome:
                return outcome

    def _close_outcome_after_error(
        self, error: stripe.StripeError, ref: str, payment: Payment
    ) -> EffectOutcome:
        match self._read(ref, payment):
            case NotFound() | StillOpen() | LookupFailed():
                return Ambiguous(f"canceling {ref}: {describe_error(error)}")
            case outcome:
                return outcome


def _other_money_moving(intents: list[stripe.PaymentIntent], ref: str) -> list[str]:
    # A fully refunded payment does not count.
    return [
        one.id
        for one in intents
        if one.id != ref
        and one.status in MONEY_MOVING_STATES
        and not isinstance(closed_outcome(one), Declined)
    ]


def _list_failed(error: stripe.StripeError) -> LookupFailed:
    return LookupFailed(f"listing the customer's payments failed: {describe_error(error)}")


def _progress_rank(intent: stripe.PaymentIntent) -> int:
    # First one that moved money, then a declined or canceled one, which ended the job.
    if intent.status in MONEY_MOVING_STATES:
        return 0
    return 2 if intent.status == "requires_confirmation" else 1


def _metadata(payment: Payment) -> dict[str, str]:
    metadata = {"job_key": payment.job_key, "order_id": payment.order_id}
    return {**metadata, "deployment": payment.deployment} if payment.deployment else metadata
