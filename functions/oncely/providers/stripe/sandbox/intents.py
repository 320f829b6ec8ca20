"""The PaymentIntents endpoints. Each validates its parameters and returns what to execute."""

from collections.abc import Sequence
from typing import Any, Final

from oncely.providers.stripe.sandbox import rules
from oncely.providers.stripe.sandbox.errors import StripeValidationError, not_found_error
from oncely.providers.stripe.sandbox.ledger import IntentStatus, PaymentIntent, StripeLedger
from oncely.providers.stripe.sandbox.params import Params
from oncely.providers.stripe.sandbox.serializers import error_body, intent_body, list_body
from oncely.testing.sandbox.http_messages import (
    NowFunction,
    SandboxHandler,
    SandboxRequest,
    SandboxResponse,
    new_id,
)

# Stripe rejects these on create unless the same call confirms.
ONLY_WITH_CONFIRM: Final = ("off_session", "error_on_requires_action", "return_url")
CONFIRM_PARAMS: Final = (*ONLY_WITH_CONFIRM, "payment_method", "receipt_email")
CREATE_PARAMS: Final = (
    *CONFIRM_PARAMS,
    "allowed_payment_method_types",
    "amount",
    "automatic_payment_methods",
    "capture_method",
    "confirm",
    "confirmation_method",
    "currency",
    "customer",
    "description",
    "metadata",
    "payment_method_types",
    "setup_future_usage",
    "statement_descriptor_suffix",
)
# Since this version, Stripe rejects lists of payment method types.
NO_METHOD_TYPES_SINCE: Final = "2026-09-30"


class PaymentIntents:
    """The endpoints under /v1/payment_intents, over one ledger."""

    def __init__(self, ledger: StripeLedger, clock: NowFunction) -> None:
        self._ledger, self._clock = ledger, clock

    def create(self, request: SandboxRequest) -> SandboxHandler:
        params = Params(request.params, known=CREATE_PARAMS)
        _check_method_types(request, params)
        confirms = params.flag("confirm")
        for name in ONLY_WITH_CONFIRM:
            if params.text(name) and not confirms:
                message = f"The parameter `{name}` cannot be passed unless `confirm` is true."
                raise StripeValidationError(message, param=name)
        if params.text("capture_method") == "manual":
            message = "This sandbox captures automatically."
            raise StripeValidationError(message, param="capture_method")
        draft, attempt = self._draft(params), self._attempt(request, params)
        expand = params.expands("latest_charge")

        def execute() -> SandboxResponse:
            rules.check_customer(draft.customer)
            rules.check_payment_method(draft.payment_method)
            outcome = rules.confirm(draft, attempt) if confirms else rules.ConfirmResult(draft)
            return self._commit(outcome, expand=expand)

        return execute

    def confirm(self, request: SandboxRequest, intent_id: str) -> SandboxHandler:
        params = Params(request.params, known=(*CONFIRM_PARAMS, "amount_to_confirm"))
        attempt, expand = self._attempt(request, params), params.expands("latest_charge")
        return lambda: self._commit(rules.confirm(self._find(intent_id), attempt), expand=expand)

    def cancel(self, request: SandboxRequest, intent_id: str) -> SandboxHandler:
        params = Params(request.params, known=["cancellation_reason"])
        reason, expand = params.text("cancellation_reason"), params.expands("latest_charge")

        def execute() -> SandboxResponse:
            after = rules.cancel(self._find(intent_id), reason=reason, at=self._clock())
            return self._commit(rules.ConfirmResult(after), expand=expand)

        return execute

    def retrieve(self, request: SandboxRequest, intent_id: str) -> SandboxHandler:
        expand = Params(request.params, known=["client_secret"]).expands("latest_charge")
        return lambda: self._intent_response(self._find(intent_id), expand=expand)

    def list(self, request: SandboxRequest) -> SandboxHandler:
        params = Params(request.params, known=["customer", "limit", "starting_after"])
        customer, after = params.text("customer"), params.text("starting_after")
        limit, expand = params.limit(), params.expands("latest_charge")

        def execute() -> SandboxResponse:
            newest = self._ledger.intents[::-1]
            if after:
                newest = newest[newest.index(self._find(after)) + 1 :]
            found = [one for one in newest if customer in {None, one.customer}]
            return SandboxResponse(200, self._page(request, found, limit=limit, expand=expand))

        return execute

    def complete_pending(self, intent_id: str, *, succeeded: bool) -> PaymentIntent:
        with self._ledger.lock:
            intent = self._find(intent_id)
            attempt = rules.ConfirmAttempt(charge_id=new_id("ch"), at=self._clock())
            latest = self._ledger.charge(intent.latest_charge)
            outcome = rules.complete_pending(intent, latest, attempt, succeeded=succeeded)
            self._commit(outcome, expand=False)
            return outcome.intent

    def _draft(self, params: Params) -> PaymentIntent:
        method = params.text("payment_method")
        return PaymentIntent(
            intent_id=new_id("pi"),
            amount=params.amount(),
            currency=params.currency(),
            created=self._clock(),
            status=IntentStatus.REQUIRES_CONFIRMATION
            if method
            else IntentStatus.REQUIRES_PAYMENT_METHOD,
            customer=params.text("customer"),
            payment_method=method,
            description=params.text("description"),
            receipt_email=params.text("receipt_email"),
            metadata=params.metadata(),
            redirects_allowed=_allows_redirects(params),
        )

    def _attempt(self, request: SandboxRequest, params: Params) -> rules.ConfirmAttempt:
        return rules.ConfirmAttempt(
            charge_id=new_id("ch"),
            at=self._clock(),
            idempotency_key=request.idempotency_key,
            payment_method=params.text("payment_method"),
            off_session=params.flag("off_session"),
            error_on_requires_action=params.flag("error_on_requires_action"),
            return_url=params.text("return_url"),
            amount=params.optional_amount("amount_to_confirm"),
        )

    def _find(self, intent_id: str) -> PaymentIntent:
        if (intent := self._ledger.intent(intent_id)) is None:
            raise not_found_error("payment_intent", intent_id)
        return intent

    def _commit(self, outcome: rules.ConfirmResult, *, expand: bool) -> SandboxResponse:
        charges = [outcome.charge] if outcome.charge else []
        self._ledger.save(outcome.intent, *charges)
        if outcome.error is not None:
            return SandboxResponse(outcome.error.status, error_body(outcome.error))
        return self._intent_response(outcome.intent, expand=expand)

    def _intent_response(self, intent: PaymentIntent, *, expand: bool) -> SandboxResponse:
        return SandboxResponse(200, self._body(intent, expand=expand))

    def _body(self, intent: PaymentIntent, *, expand: bool) -> dict[str, Any]:
        charge = self._ledger.charge(intent.latest_charge) if expand else None
        return intent_body(intent, charge=charge)

    def _page(
        self, request: SandboxRequest, found: Sequence[PaymentIntent], *, limit: int, expand: bool
    ) -> dict[str, Any]:
        items = [self._body(one, expand=expand) for one in found[:limit]]
        return list_body(items, url=request.path, has_more=len(found) > limit)


def _allows_redirects(params: Params) -> bool:
    automatic = params.mapping("automatic_payment_methods")
    named = params.has_any("allowed_payment_method_types", "payment_method_types")
    return not named and automatic.get("allow_redirects", "always") != "never"


def _check_method_types(request: SandboxRequest, params: Params) -> None:
    version = request.headers.get("stripe-version", NO_METHOD_TYPES_SINCE)
    if params.has_any("payment_method_types") and version >= NO_METHOD_TYPES_SINCE:
        message = "`payment_method_types` is no longer supported."
        code = "payment_method_types_no_longer_supported"
        raise StripeValidationError(message, code=code, param="payment_method_types")
    if params.has_any("allowed_payment_method_types") and params.has_any(
        "automatic_payment_methods"
    ):
        message = "`allowed_payment_method_types` excludes `automatic_payment_methods`."
        raise StripeValidationError(message, param="allowed_payment_method_types")
