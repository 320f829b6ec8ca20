"""Stripe's HTTP API: authentication, routing and idempotent replay."""

import base64
import binascii
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from oncely.providers.stripe.sandbox.errors import StripeApiError, StripeValidationError, own_error
from oncely.providers.stripe.sandbox.idempotency_keys import KEY_WINDOW, IdempotencyKeys
from oncely.providers.stripe.sandbox.intents import PaymentIntents
from oncely.providers.stripe.sandbox.ledger import PaymentIntent, StripeLedger
from oncely.providers.stripe.sandbox.refunds import Refunds
from oncely.providers.stripe.sandbox.serializers import error_body
from oncely.testing.sandbox.http_messages import (
    NowFunction,
    SandboxHandler,
    SandboxRequest,
    SandboxResponse,
)

SECRET_KEY_PREFIX: Final = "sk_test_"  # noqa: S105  # a prefix, not a key
READ_ONLY_KEY: Final = "sk_test_restricted_read"
MAX_IDEMPOTENCY_KEY_LENGTH: Final = 255
INTENT_PATH: Final = r"/v1/payment_intents/(pi_[^/]+)"


class StripeApi:
    """The part of Stripe that payment jobs use."""

    def __init__(
        self,
        ledger: StripeLedger,
        clock: NowFunction,
        *,
        honors_idempotency_keys: bool = True,
        key_window: timedelta = KEY_WINDOW,
        search_lag: timedelta = timedelta(0),
    ) -> None:
        self._ledger = ledger
        self._keys = IdempotencyKeys(clock, window=key_window) if honors_idempotency_keys else None
        self._intents = PaymentIntents(ledger, clock, search_lag=search_lag)
        self._refunds = Refunds(ledger, clock)
        self._routes: list[tuple[str, str, Callable[..., SandboxHandler]]] = [
            ("POST", r"/v1/payment_intents", self._intents.create),
            ("GET", r"/v1/payment_intents", self._intents.list),
            ("GET", r"/v1/payment_intents/search", self._intents.search),
            ("GET", INTENT_PATH, self._intents.retrieve),
            ("POST", rf"{INTENT_PATH}/confirm", self._intents.confirm),
            ("POST", rf"{INTENT_PATH}/cancel", self._intents.cancel),
            ("POST", r"/v1/refunds", self._refunds.create),
            ("GET", r"/v1/refunds", self._refunds.list),
        ]

    def serves(self, path: str) -> bool:
        return path.startswith("/v1/")

    def complete_pending(self, intent_id: str, *, succeeded: bool) -> PaymentIntent:
        return self._intents.complete_pending(intent_id, succeeded=succeeded)

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
            with self._ledger.lock:
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
