"""Stripe through its official SDK: an unconfirmed intent first, and the intent's state as truth."""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

import requests
import stripe
from requests.adapters import HTTPAdapter
from urllib3 import PoolManager

from oncely.domain.effect_outcomes import (
    Ambiguous,
    Anomalous,
    Declined,
    EffectOutcome,
    LookupFailed,
    NotFound,
    NotSent,
    Pending,
    Prepared,
    StillOpen,
    Succeeded,
)
from oncely.domain.keys import IdempotencyKey, JobKey
from oncely.http.pace import UNLIMITED
from oncely.http.request_deadline import apply_deadline, request_deadline
from oncely.providers.interfaces import Payment
from oncely.providers.stripe.plugin import PROFILE
from oncely.providers.stripe.responses import (
    MONEY_MOVING_STATES,
    closed_outcome,
    customer_id,
    describe_error,
    error_outcome,
    flag_duplicate_payments,
    intent_mismatch,
    intent_owner,
    is_definitive,
    is_replay,
    not_sent_outcome,
    outcome_from_intent,
    rejects_api_key,
)

# What the answers below were written against; raise it together with a look at the changelog.
API_VERSION: Final = "2026-10-28.endive"
CONNECT_TIMEOUT: Final = timedelta(seconds=3)
# Another payment of the same job is looked for among this many of the customer's newest.
PAGE_SIZE: Final = 100
MAX_PAGES: Final = 3
# After a restore a row may lack its reference: nothing less than all of them proves absence.
MAX_PAGES_AFTER_RESTORE: Final = 20
SEARCH_TRUNCATED_NOTE: Final = (
    f"only the customer's newest {PAGE_SIZE * MAX_PAGES} payments were searched for another one"
)
# Secret, restricted and organization keys alike name their mode.
_KEY_MODE: Final = re.compile(r"(?:[a-z]+_)+(live|test)_")


def is_live_key(api_key: str) -> bool | None:
    """Whether a key is a live one; None if its prefix does not tell.

    Then the mode is not compared: Stripe shows a key the objects of its own mode only.
    """
    named = _KEY_MODE.match(api_key)
    return None if named is None else named[1] == "live"


class DeadlineAdapter(HTTPAdapter):
    """Mounted on a session, it lets `request_deadline` limit every request."""

    def init_poolmanager(self, *args: Any, **named: Any) -> None:  # noqa: ANN401  # as inherited
        super().init_poolmanager(*args, **named)
        apply_deadline(self.poolmanager)

    def proxy_manager_for(self, *args: Any, **named: Any) -> PoolManager:  # noqa: ANN401  # as inherited
        return apply_deadline(super().proxy_manager_for(*args, **named))


class DeadlineClient(stripe.RequestsClient):
    """Sends a request once, in its turn, and gives it up when its whole time is over."""

    def __init__(self, limit: timedelta, pace: Callable[[], None]) -> None:
        seconds = limit.total_seconds()
        self._pace = pace
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
        """Send one request."""
        if getattr(self._thread_local, "session", None) is None:
            session = requests.Session()
            for scheme in ("http://", "https://"):
                session.mount(scheme, DeadlineAdapter())
            self._thread_local.session = session
        self._pace()
        with request_deadline(self._limit):
            return super().request(method, url, headers, post_data, **named)


def stripe_client(
    api_key: str,
    *,
    api_base: str | None = None,
    request_timeout: timedelta = PROFILE.request_timeout,
    pace: Callable[[], None] = UNLIMITED,
) -> stripe.StripeClient:
    """A client that never sends a request twice by itself."""
    # Off: it would write a file under HOME and send figures of the last request along.
    stripe.enable_telemetry = False
    return stripe.StripeClient(
        api_key,
        stripe_version=API_VERSION,
        max_network_retries=0,
        base_addresses={"api": api_base} if api_base else {},
        http_client=DeadlineClient(request_timeout, pace),
    )


@dataclass(frozen=True)
class StripePayments:
    """Charges through PaymentIntents; the same intent is never confirmed into two charges."""

    client: stripe.StripeClient
    credential: str = ""
    livemode: bool | None = None  # of our API key; None if the key does not tell

    @classmethod
    def from_api_key(
        cls, api_key: str, *, api_base: str | None = None, pace: Callable[[], None] = UNLIMITED
    ) -> "StripePayments":
        """Wire the SDK; the scope is a digest, so that no key is stored with a job."""
        credential = hashlib.sha256(api_key.encode()).hexdigest()[:12]
        client = stripe_client(api_key, api_base=api_base, pace=pace)
        return cls(client, credential, is_live_key(api_key))

    def key_scope(self) -> str:
        """Within what our keys are unique."""
        return f"stripe:{self.credential}"

    def prepare(
        self, payment: Payment, *, idempotency_key: IdempotencyKey
    ) -> Prepared | EffectOutcome:
        """Create an intent that is not confirmed: it has moved nothing and cannot by itself."""
        try:
            intent = self.client.v1.payment_intents.create(
                {
                    "amount": payment.money.amount,
                    "currency": payment.money.currency,
                    "customer": payment.customer,
                    "payment_method": payment.method,
                    "capture_method": "automatic",
                    # No redirects: nobody is there to follow one.
                    "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
                    "metadata": _metadata(payment),
                },
                {"idempotency_key": idempotency_key},
            )
        except stripe.StripeError as error:
            return error_outcome(error)
        # A replay of the key may bring an intent that was made, or changed, by somebody else.
        if differs := intent_mismatch(intent, payment, livemode=self.livemode):
            return Anomalous(f"{intent.id} came back for our key, but {differs}", intent.id)
        return Prepared(intent.id, replayed=is_replay(intent))

    def execute(
        self, ref: str, payment: Payment, *, idempotency_key: IdempotencyKey, verified: bool = False
    ) -> EffectOutcome:
        """Confirm; after any error the answer is the intent's own state, never the HTTP code."""
        if not verified:
            known = self._verify(ref, payment)
            if not isinstance(known, NotFound):
                return known
        try:
            intent = self.client.v1.payment_intents.confirm(
                ref,
                {
                    # What may be charged, whatever became of the intent since it was verified.
                    "amount_to_confirm": payment.money.amount,
                    "off_session": True,
                    "error_on_requires_action": True,
                    "expand": ["latest_charge"],
                },
                {"idempotency_key": idempotency_key},
            )
        except stripe.StripeError as error:
            return self._outcome_after_error(error, ref, payment)
        return outcome_from_intent(intent, payment, livemode=self.livemode)

    def close(self, ref: str, payment: Payment, *, verified: bool = False) -> EffectOutcome:
        """Cancel; only an intent that *is* canceled can never take money."""
        if not verified:
            known = self._verify(ref, payment)
            if not isinstance(known, NotFound | StillOpen):
                return known
        try:
            # Without a key of ours: cancelling twice does no harm, and under the same key Stripe
            # would repeat an error of its own for a day.
            intent = self.client.v1.payment_intents.cancel(ref, {"expand": ["latest_charge"]})
        except stripe.StripeError as error:
            return not_sent_outcome(error) or self._close_outcome_after_error(error, ref, payment)
        return outcome_from_intent(intent, payment, livemode=self.livemode)

    def lookup_closed(
        self, ref: str, *, job_key: JobKey, deployment: str | None = None
    ) -> EffectOutcome:
        """Read whether an intent can still take money; one of another job never does for this."""
        try:
            intent = self.client.v1.payment_intents.retrieve(ref, {"expand": ["latest_charge"]})
        except stripe.StripeError as error:
            return LookupFailed(f"reading {ref} failed: {describe_error(error)}")
        if intent_owner(intent) != (deployment, job_key):
            return Declined(f"{ref} is not this job's payment", code="not_ours")
        answer = closed_outcome(intent)
        if not isinstance(answer, Declined):
            return answer
        try:
            made, customer = (deployment, job_key), customer_id(intent)
            found, _ = self._list_job_intents(made, customer, pages=MAX_PAGES)
        except stripe.StripeError as error:
            return _list_failed(error)
        # What was returned in full does not stand against it, for this one or for another.
        also = _other_money_moving(found, ref)
        others = [one.id for one in also if not isinstance(closed_outcome(one), Declined)]
        return flag_duplicate_payments(answer, ref, others) if others else answer

    def lookup(self, ref: str, payment: Payment) -> EffectOutcome:
        """List the customer's payments: ours, and whether the job moved money through another.

        A list that shows ours as paid answers in one request. Anything else is read by its id.
        """
        made = (payment.deployment, payment.job_key)
        try:
            found, all_seen = self._list_job_intents(made, payment.customer, pages=MAX_PAGES)
        except stripe.StripeError as error:
            return _list_failed(error)
        ours = next((one for one in found if one.id == ref), None)
        answer = self._paid_outcome(ours, payment) or self._read(ref, payment)
        if isinstance(answer, LookupFailed | Pending | Anomalous):
            return answer
        if others := _other_money_moving(found, ref):
            return flag_duplicate_payments(answer, ref, [one.id for one in others])
        return (
            answer
            if all_seen
            else replace(answer, reason=f"{answer.reason}; {SEARCH_TRUNCATED_NOTE}")
        )

    def _paid_outcome(
        self, ours: stripe.PaymentIntent | None, payment: Payment
    ) -> Succeeded | None:
        # Only a charge that is shown tells whether it was refunded.
        if ours is None or not isinstance(ours.latest_charge, stripe.Charge):
            return None
        answer = outcome_from_intent(ours, payment, livemode=self.livemode)
        return answer if isinstance(answer, Succeeded) else None

    def _verify(self, ref: str, payment: Payment) -> EffectOutcome:
        """Read an intent of another run before anything is done with it."""
        try:
            intent = self.client.v1.payment_intents.retrieve(ref, {"expand": ["latest_charge"]})
        except stripe.StripeError as error:
            reason = f"reading {ref} before anything is done with it: {describe_error(error)}"
            if is_definitive(error):
                return Anomalous(reason, ref)
            return not_sent_outcome(error) or NotSent(reason)
        return outcome_from_intent(intent, payment, livemode=self.livemode)

    def _read(self, ref: str, payment: Payment) -> EffectOutcome:
        try:
            intent = self.client.v1.payment_intents.retrieve(ref, {"expand": ["latest_charge"]})
        except stripe.StripeError as error:
            return LookupFailed(f"reading {ref} failed: {describe_error(error)}")
        return outcome_from_intent(intent, payment, livemode=self.livemode)

    def find(self, payment: Payment) -> Prepared | EffectOutcome:
        """List the customer's payments; of several of this job, the one that came furthest."""
        made, pages = (payment.deployment, payment.job_key), MAX_PAGES_AFTER_RESTORE
        try:
            found, all_seen = self._list_job_intents(made, payment.customer, pages=pages)
        except stripe.StripeError as error:
            return _list_failed(error)
        if found:
            return Prepared(min(found, key=_progress_rank).id)
        if all_seen:
            return NotFound("the customer has no payment of this job", conclusive=True)
        return Anomalous(
            f"the customer has more than {PAGE_SIZE * pages} payments: look for one of this job "
            "by hand"
        )

    def _list_job_intents(
        self, owner: tuple[str | None, str], customer: str | None, *, pages: int
    ) -> tuple[list[stripe.PaymentIntent], bool]:
        """The payments made for a job, the newest first, and whether all were seen."""
        found: list[stripe.PaymentIntent] = []
        request: dict[str, Any] = {
            "customer": customer,
            "limit": PAGE_SIZE,
            "expand": ["data.latest_charge"],
        }
        for _ in range(pages):
            page = self.client.v1.payment_intents.list(request)  # type: ignore[arg-type]  # its fields by name
            found += [intent for intent in page.data if intent_owner(intent) == owner]
            if not page.has_more or not page.data:
                return found, True
            request = {**request, "starting_after": page.data[-1].id}
        return found, False

    def _outcome_after_error(
        self, error: stripe.StripeError, ref: str, payment: Payment
    ) -> EffectOutcome:
        unsent = not_sent_outcome(error)
        # That our key is refused now does not say what became of a request that was under way.
        if unsent is not None and not rejects_api_key(error):
            return unsent
        match self._read(ref, payment):
            case NotFound() if unsent is not None:
                return unsent
            case NotFound() if is_definitive(error):
                return Anomalous(
                    f"Stripe does not take the confirmation of {ref}: {describe_error(error)}", ref
                )
            case NotFound() | LookupFailed():
                return Ambiguous(f"confirming {ref}: {describe_error(error)}")
            case answer:
                return answer

    def _close_outcome_after_error(
        self, error: stripe.StripeError, ref: str, payment: Payment
    ) -> EffectOutcome:
        match self._read(ref, payment):
            case NotFound() | StillOpen() | LookupFailed():
                return Ambiguous(f"cancelling {ref}: {describe_error(error)}")
            case answer:
                return answer


def _other_money_moving(found: list[stripe.PaymentIntent], ref: str) -> list[stripe.PaymentIntent]:
    """Those beside this one which moved money or still may."""
    return [one for one in found if one.id != ref and one.status in MONEY_MOVING_STATES]


def _list_failed(error: stripe.StripeError) -> LookupFailed:
    return LookupFailed(f"reading the payments of the customer failed: {describe_error(error)}")


def _progress_rank(intent: stripe.PaymentIntent) -> int:
    """Money first; then what was declined or canceled, which ended the job; an open one last."""
    if intent.status in MONEY_MOVING_STATES:
        return 0
    return 2 if intent.status == "requires_confirmation" else 1


def _metadata(payment: Payment) -> dict[str, str]:
    named = {"job_key": payment.job_key, "order_id": payment.order_id}
    return {**named, "deployment": payment.deployment} if payment.deployment else named
