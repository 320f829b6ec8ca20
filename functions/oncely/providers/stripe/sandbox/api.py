"""Stripe's HTTP API: authentication, routing and idempotent replay."""

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import ClassVar, Final

from oncely.providers.stripe.sandbox.errors import StripeApiError, StripeValidationError, own_error
from oncely.providers.stripe.sandbox.events import event_for
from oncely.providers.stripe.sandbox.idempotency_keys import KEY_WINDOW, IdempotencyKeys
from oncely.providers.stripe.sandbox.intents import PaymentIntents
from oncely.providers.stripe.sandbox.ledger import (
    Dispute,
    IntentStatus,
    PaymentIntent,
    SandboxEntry,
    StripeLedger,
)
from oncely.providers.stripe.sandbox.lists import MoneyLists
from oncely.providers.stripe.sandbox.refunds import Refunds
from oncely.providers.stripe.sandbox.serializers import error_body
from oncely.testing.sandbox.faults import FaultKind
from oncely.testing.sandbox.http_messages import (
    SandboxHandler,
    SandboxRequest,
    SandboxResponse,
    new_id,
)
from oncely.testing.sandbox.provider_sandbox import ProviderSandbox, SandboxOptions

SECRET_KEY_PREFIX: Final = "sk_test_"  # noqa: S105  # a prefix, not a key
READ_ONLY_KEY: Final = "sk_test_restricted_read"
MAX_IDEMPOTENCY_KEY_LENGTH: Final = 255
INTENT_PATH: Final = r"/v1/payment_intents/(pi_[^/]+)"


class StripeSandbox(ProviderSandbox):
    """The part of Stripe that payment jobs use."""

    requests: ClassVar = {
        "prepare": {"method": "POST", "path": "/v1/payment_intents"},
        "execute": {"method": "POST", "path": "/v1/payment_intents/*/confirm"},
        "lookup": {"method": "GET", "path": "/v1/payment_intents/*"},
        "find": {"method": "GET", "path": "/v1/payment_intents"},
        "close": {"method": "POST", "path": "/v1/payment_intents/*/cancel"},
        "refund": {"method": "POST", "path": "/v1/refunds"},
        "lookup_refund": {"method": "GET", "path": "/v1/refunds"},
        "read_charge": {"method": "GET", "path": "/v1/charges/*"},
    }
    api_key = f"{SECRET_KEY_PREFIX}oncely"
    signing_secret = "whsec_oncely"  # noqa: S105  # of the sandbox
    samples: ClassVar = {
        "paid": "pm_card_visa",
        "declined": "pm_card_chargeDeclined",
        "pending": "pm_processing",
    }
    # No fault loses a refund before it is executed: its absence is certain only after the lag of
    # the list, and a demo does not wait for that more often than it must.
    fault_rates = (
        (FaultKind.ACCEPT_THEN_DROP, "execute", 4),
        (FaultKind.ERROR_AFTER, "execute", 2),
        (FaultKind.ERROR_BEFORE, "execute", 1),
        (FaultKind.GARBLED, "execute", 1),
        (FaultKind.TRUNCATED, "execute", 1),
        (FaultKind.SLOW, "execute", 2),
        (FaultKind.CONFLICT, "execute", 1),
        (FaultKind.RATE_LIMIT, "prepare", 2),
        (FaultKind.ACCEPT_THEN_DROP, "prepare", 1),
        (FaultKind.OUTAGE, "lookup", 20),  # the lookup after an error often fails too
        (FaultKind.ACCEPT_THEN_DROP, "refund", 10),
        (FaultKind.ERROR_AFTER, "refund", 4),
        (FaultKind.RATE_LIMIT, "read_charge", 4),
        (FaultKind.OUTAGE, "lookup_refund", 20),
    )
    hanging_call = "execute"

    def __init__(self, options: SandboxOptions) -> None:
        super().__init__(options)
        clock, ledger = options.clock, StripeLedger()
        self.ledger: StripeLedger = ledger
        ledger.on_change = self._report
        window = options.key_window or KEY_WINDOW
        self._keys = (
            IdempotencyKeys(clock, window=window) if options.honors_idempotency_keys else None
        )
        self._intents = PaymentIntents(ledger, clock)
        self._refunds = Refunds(ledger, clock)
        self._lists = lists = MoneyLists(ledger, clock)
        self._routes: list[tuple[str, str, Callable[..., SandboxHandler]]] = [
            ("POST", r"/v1/payment_intents", self._intents.create),
            ("GET", r"/v1/payment_intents", self._intents.list),
            ("GET", INTENT_PATH, self._intents.retrieve),
            ("POST", rf"{INTENT_PATH}/confirm", self._intents.confirm),
            ("POST", rf"{INTENT_PATH}/cancel", self._intents.cancel),
            ("POST", r"/v1/refunds", self._refunds.create),
            ("GET", r"/v1/refunds", lists.refunds),
            ("GET", r"/v1/charges", lists.charges),
            ("GET", r"/v1/disputes", lists.disputes),
            ("GET", r"/v1/(?:charges|refunds|disputes)/(\w+)", lists.retrieve),
            ("GET", r"/v1/customers", lists.customers),
        ]

    def _report(self, before: SandboxEntry | None, after: SandboxEntry) -> None:
        event = event_for(before, after, at=self.options.clock())
        if event is not None:
            self.on_event(event)

    def serves(self, path: str) -> bool:
        return path.startswith("/v1/")

    def complete_pending(self, intent_id: str, *, succeeded: bool) -> PaymentIntent:
        return self._intents.complete_pending(intent_id, succeeded=succeeded)

    def refund(self, intent_id: str) -> None:
        """Refund a payment in full, as a user does."""
        body = f"payment_intent={intent_id}".encode()
        now = self.options.clock()
        request = SandboxRequest("POST", "/v1/refunds", now, body=body)
        self._with_lock(self._refunds.create(request))()

    def set_email(self, customer: str, email: str) -> None:
        """Give a customer an email address."""
        self.ledger.emails[customer] = email

    def dispute(self, intent_id: str) -> None:
        """Dispute a payment in full, as the customer's bank does."""
        with self.ledger.lock:
            intent = self.ledger.intent(intent_id)
            charge = self.ledger.charge(intent.latest_charge if intent else None)
            if charge is None:
                raise KeyError(intent_id)
            opened = Dispute(
                dispute_id=new_id("dp"),
                charge_id=charge.charge_id,
                intent_id=intent_id,
                amount=charge.amount,
                currency=charge.currency,
                created=self.options.clock(),
            )
            self.ledger.save(replace(charge, disputed=True), opened)

    def set_refund_status(self, status: str) -> None:
        """Let new refunds be `succeeded` or `pending`."""
        self._refunds.status = status

    def set_refund_list_lag(self, lag: timedelta) -> None:
        """Let the list of refunds show a new one this late."""
        self._lists.refund_lag = lag

    def complete_refund(self, refund_id: str, *, succeeded: bool) -> None:
        self._refunds.complete(refund_id, succeeded=succeeded)

    def complete_pending_since(self, moment: datetime) -> None:
        for intent in self.ledger.intents:
            if intent.status is IntentStatus.PROCESSING and intent.created < moment:
                self.complete_pending(intent.intent_id, succeeded=True)

    def error_response(self, request: SandboxRequest, *, status: int) -> SandboxResponse:
        return _with_headers(request, SandboxResponse(status, error_body(own_error(status))))

    def handle(
        self, request: SandboxRequest, *, wrap: Callable[[SandboxHandler], SandboxResponse]
    ) -> SandboxResponse:
        try:
            _check_credentials(request)
            response = self._run_idempotent(request, self._endpoint(request), wrap)
        except StripeApiError as error:
            response = SandboxResponse(error.status, error_body(error))
        return _with_headers(request, response)

    def _endpoint(self, request: SandboxRequest) -> Callable[[], SandboxHandler]:
        for method, pattern, endpoint in self._routes:
            address = re.fullmatch(pattern, request.path)
            if address and method == request.method:
                return lambda: endpoint(request, *address.groups())
        message = f"Unrecognized request URL ({request.method}: {request.path})."
        raise StripeValidationError(message, status=404)

    def _run_idempotent(
        self,
        request: SandboxRequest,
        endpoint: Callable[[], SandboxHandler],
        wrap: Callable[[SandboxHandler], SandboxResponse],
    ) -> SandboxResponse:
        key = request.idempotency_key
        if self._keys is None or key is None or request.method != "POST":
            return wrap(self._with_lock(endpoint()))
        if len(key) > MAX_IDEMPOTENCY_KEY_LENGTH:
            message = f"Idempotency keys have at most {MAX_IDEMPOTENCY_KEY_LENGTH} characters."
            raise StripeValidationError(message)
        if stored := self._keys.begin(key, (request.method, request.path, request.params)):
            return stored.with_headers(Idempotent_Replayed="true")
        try:
            response = wrap(self._with_lock(endpoint()))
        except BaseException:  # invalid parameters, or a bug: nothing was executed under the key
            self._keys.forget(key)
            raise
        response = response.with_headers(Original_Request=request.request_id, Idempotency_Key=key)
        self._keys.finish(key, response)
        return response

    def _with_lock(self, execute: SandboxHandler) -> SandboxHandler:
        def locked() -> SandboxResponse:
            with self.ledger.lock:
                try:
                    return execute()
                except StripeApiError as error:
                    return SandboxResponse(error.status, error_body(error))

        return locked


def _check_credentials(request: SandboxRequest) -> None:
    api_key = _api_key(request.headers.get("authorization", ""))
    if not api_key.startswith(SECRET_KEY_PREFIX):
        raise own_error(401)
    if api_key == READ_ONLY_KEY and request.method != "GET":
        message = "The provided key does not have the required permissions for this endpoint."
        raise StripeApiError(message, status=403)


def _api_key(authorization: str) -> str:
    scheme, _, credentials = authorization.partition(" ")
    if scheme.lower() != "basic":
        return credentials if scheme.lower() == "bearer" else ""
    try:
        return base64.b64decode(credentials).decode().partition(":")[0]
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _with_headers(request: SandboxRequest, response: SandboxResponse) -> SandboxResponse:
    version = request.headers.get("stripe-version")
    named = {"Stripe_Version": version} if version else {}
    return response.with_headers(Request_Id=request.request_id, **named)
