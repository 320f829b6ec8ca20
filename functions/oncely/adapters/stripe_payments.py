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

from oncely.adapters.pace import AT_ONCE
from oncely.adapters.request_deadline import timed, whole_request_within
from oncely.adapters.stripe_answers import (
    MOVES_MONEY,
    also_found,
    customer_of,
    difference,
    from_intent,
    if_closed,
    in_words,
    is_definite,
    is_replay,
    made_for,
    refuses_our_key,
    turned_away,
    turned_away_unsent,
)
from oncely.domain.answers import (
    Absent,
    Answer,
    Done,
    NotSent,
    Odd,
    Prepared,
    Processing,
    Refused,
    StillOpen,
    Unclear,
    Unreachable,
)
from oncely.domain.keys import JobKey, ProviderKey
from oncely.domain.profiles import STRIPE
from oncely.providers import Payment

# What the answers below were written against; raise it together with a look at the changelog.
API_VERSION: Final = "2026-10-28.endive"
CONNECT_TIMEOUT: Final = timedelta(seconds=3)
# Another payment of the same job is looked for among this many of the customer's newest.
PAGE_SIZE: Final = 100
MAX_PAGES: Final = 3
# After a restore a row may lack its reference: nothing less than all of them proves absence.
MAX_PAGES_AFTER_RESTORE: Final = 20
NOT_ALL_SEEN: Final = (
    f"only the customer's newest {PAGE_SIZE * MAX_PAGES} payments were searched for another one"
)
# Secret, restricted and organization keys alike name their mode.
_MODE: Final = re.compile(r"(?:[a-z]+_)+(live|test)_")


def mode_of(api_key: str) -> bool | None:
    """Whether a key is a live one; None if its prefix does not tell.

    Then the mode is not compared: Stripe shows a key the objects of its own mode only.
    """
    named = _MODE.match(api_key)
    return None if named is None else named[1] == "live"


class DeadlineAdapter(HTTPAdapter):
    """Mounted on a session, it lets `whole_request_within` limit every request."""

    def init_poolmanager(self, *args: Any, **named: Any) -> None:  # noqa: ANN401  # as inherited
        super().init_poolmanager(*args, **named)
        timed(self.poolmanager)

    def proxy_manager_for(self, *args: Any, **named: Any) -> PoolManager:  # noqa: ANN401  # as inherited
        return timed(super().proxy_manager_for(*args, **named))


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
        with whole_request_within(self._limit):
            return super().request(method, url, headers, post_data, **named)


def stripe_client(
    api_key: str,
    *,
    api_base: str | None = None,
    request_timeout: timedelta = STRIPE.request_timeout,
    pace: Callable[[], None] = AT_ONCE,
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
    def with_key(
        cls, api_key: str, *, api_base: str | None = None, pace: Callable[[], None] = AT_ONCE
    ) -> "StripePayments":
        """Wire the SDK; the scope is a digest, so that no key is stored with a job."""
        credential = hashlib.sha256(api_key.encode()).hexdigest()[:12]
        client = stripe_client(api_key, api_base=api_base, pace=pace)
        return cls(client, credential, mode_of(api_key))

    def scope(self) -> str:
        """Within what our keys are unique."""
        return f"stripe:{self.credential}"

    def prepare(self, payment: Payment, *, key: ProviderKey) -> Prepared | Answer:
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
                {"idempotency_key": key},
            )
        except stripe.StripeError as error:
            return turned_away(error)
        # A replay of the key may bring an intent that was made, or changed, by somebody else.
        if differs := difference(intent, payment, livemode=self.livemode):
            return Odd(f"{intent.id} came back for our key, but {differs}", intent.id)
        return Prepared(intent.id, replayed=is_replay(intent))

    def execute(
        self, ref: str, payment: Payment, *, key: ProviderKey, verified: bool = False
    ) -> Answer:
        """Confirm; after any error the answer is the intent's own state, never the HTTP code."""
        if not verified:
            known = self._verified(ref, payment)
            if not isinstance(known, Absent):
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
                {"idempotency_key": key},
            )
        except stripe.StripeError as error:
            return self._state_after(error, ref, payment)
        return from_intent(intent, payment, livemode=self.livemode)

    def close(self, ref: str, payment: Payment, *, verified: bool = False) -> Answer:
        """Cancel; only an intent that *is* canceled can never take money."""
        if not verified:
            known = self._verified(ref, payment)
            if not isinstance(known, Absent | StillOpen):
                return known
        try:
            # Without a key of ours: cancelling twice does no harm, and under the same key Stripe
            # would repeat an error of its own for a day.
            intent = self.client.v1.payment_intents.cancel(ref, {"expand": ["latest_charge"]})
        except stripe.StripeError as error:
            return turned_away_unsent(error) or self._closed_after(error, ref, payment)
        return from_intent(intent, payment, livemode=self.livemode)

    def ask_closed(self, ref: str, *, job_key: JobKey, deployment: str | None = None) -> Answer:
        """Read whether an intent can still take money; one of another job never does for this."""
        try:
            intent = self.client.v1.payment_intents.retrieve(ref, {"expand": ["latest_charge"]})
        except stripe.StripeError as error:
            return Unreachable(f"reading {ref} failed: {in_words(error)}")
        if made_for(intent) != (deployment, job_key):
            return Refused(f"{ref} is not this job's payment", code="not_ours")
        answer = if_closed(intent)
        if not isinstance(answer, Refused):
            return answer
        try:
            made, customer = (deployment, job_key), customer_of(intent)
            found, _ = self._made_for(made, customer, pages=MAX_PAGES)
        except stripe.StripeError as error:
            return _unlisted(error)
        # What was returned in full does not stand against it, for this one or for another.
        also = _others(found, ref)
        others = [one.id for one in also if not isinstance(if_closed(one), Refused)]
        return also_found(answer, ref, others) if others else answer

    def look_up(self, ref: str, payment: Payment) -> Answer:
        """List the customer's payments: ours, and whether the job moved money through another.

        A list that shows ours as paid answers in one request. Anything else is read by its id.
        """
        made = (payment.deployment, payment.job_key)
        try:
            found, all_seen = self._made_for(made, payment.customer, pages=MAX_PAGES)
        except stripe.StripeError as error:
            return _unlisted(error)
        ours = next((one for one in found if one.id == ref), None)
        answer = self._if_paid(ours, payment) or self._read(ref, payment)
        if isinstance(answer, Unreachable | Processing | Odd):
            return answer
        if others := _others(found, ref):
            return also_found(answer, ref, [one.id for one in others])
        return answer if all_seen else replace(answer, reason=f"{answer.reason}; {NOT_ALL_SEEN}")

    def _if_paid(self, ours: stripe.PaymentIntent | None, payment: Payment) -> Done | None:
        # Only a charge that is shown tells whether it was refunded.
        if ours is None or not isinstance(ours.latest_charge, stripe.Charge):
            return None
        answer = from_intent(ours, payment, livemode=self.livemode)
        return answer if isinstance(answer, Done) else None

    def _verified(self, ref: str, payment: Payment) -> Answer:
        """Read an intent of another run before anything is done with it."""
        try:
            intent = self.client.v1.payment_intents.retrieve(ref, {"expand": ["latest_charge"]})
        except stripe.StripeError as error:
            told = f"reading {ref} before anything is done with it: {in_words(error)}"
            if is_definite(error):
                return Odd(told, ref)
            return turned_away_unsent(error) or NotSent(told)
        return from_intent(intent, payment, livemode=self.livemode)

    def _read(self, ref: str, payment: Payment) -> Answer:
        try:
            intent = self.client.v1.payment_intents.retrieve(ref, {"expand": ["latest_charge"]})
        except stripe.StripeError as error:
            return Unreachable(f"reading {ref} failed: {in_words(error)}")
        return from_intent(intent, payment, livemode=self.livemode)

    def find(self, payment: Payment) -> Prepared | Answer:
        """List the customer's payments; of several of this job, the one that came furthest."""
        made, pages = (payment.deployment, payment.job_key), MAX_PAGES_AFTER_RESTORE
        try:
            found, all_seen = self._made_for(made, payment.customer, pages=pages)
        except stripe.StripeError as error:
            return _unlisted(error)
        if found:
            return Prepared(min(found, key=_how_far).id)
        if all_seen:
            return Absent("the customer has no payment of this job", proved=True)
        return Odd(
            f"the customer has more than {PAGE_SIZE * pages} payments: look for one of this job "
            "by hand"
        )

    def _made_for(
        self, made: tuple[str | None, str], customer: str | None, *, pages: int
    ) -> tuple[list[stripe.PaymentIntent], bool]:
        """The payments made for a job, the newest first, and whether all were seen."""
        found: list[stripe.PaymentIntent] = []
        asked: dict[str, Any] = {
            "customer": customer,
            "limit": PAGE_SIZE,
            "expand": ["data.latest_charge"],
        }
        for _ in range(pages):
            page = self.client.v1.payment_intents.list(asked)  # type: ignore[arg-type]  # its fields by name
            found += [intent for intent in page.data if made_for(intent) == made]
            if not page.has_more or not page.data:
                return found, True
            asked = {**asked, "starting_after": page.data[-1].id}
        return found, False

    def _state_after(self, error: stripe.StripeError, ref: str, payment: Payment) -> Answer:
        unsent = turned_away_unsent(error)
        # That our key is refused now does not say what became of a request that was under way.
        if unsent is not None and not refuses_our_key(error):
            return unsent
        match self._read(ref, payment):
            case Absent() if unsent is not None:
                return unsent
            case Absent() if is_definite(error):
                return Odd(
                    f"Stripe does not take the confirmation of {ref}: {in_words(error)}", ref
                )
            case Absent() | Unreachable():
                return Unclear(f"confirming {ref}: {in_words(error)}")
            case answer:
                return answer

    def _closed_after(self, error: stripe.StripeError, ref: str, payment: Payment) -> Answer:
        match self._read(ref, payment):
            case Absent() | StillOpen() | Unreachable():
                return Unclear(f"cancelling {ref}: {in_words(error)}")
            case answer:
                return answer


def _others(found: list[stripe.PaymentIntent], ref: str) -> list[stripe.PaymentIntent]:
    """Those beside this one which moved money or still may."""
    return [one for one in found if one.id != ref and one.status in MOVES_MONEY]


def _unlisted(error: stripe.StripeError) -> Unreachable:
    return Unreachable(f"reading the payments of the customer failed: {in_words(error)}")


def _how_far(intent: stripe.PaymentIntent) -> int:
    """Money first; then what was declined or canceled, which ended the job; an open one last."""
    if intent.status in MOVES_MONEY:
        return 0
    return 2 if intent.status == "requires_confirmation" else 1


def _metadata(payment: Payment) -> dict[str, str]:
    named = {"job_key": payment.job_key, "order_id": payment.order_id}
    return {**named, "deployment": payment.deployment} if payment.deployment else named
