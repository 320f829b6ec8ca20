"""Stripe's HTTP API: authentication, routing, parameters and idempotent replay."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, ClassVar, Final

from oncely.providers.stripe.sandbox.model import (
    PROCESSING_METHODS,
    Charge,
    ChargeStatus,
    ConfirmAttempt,
    Dispute,
    IntentStatus,
    PaymentIntent,
    RecordedRefund,
    SandboxEntry,
    StripeApiError,
    StripeModel,
    StripeValidationError,
    not_found_error,
    object_id,
    own_error,
)
from oncely.testing.sandbox.faults import FaultKind
from oncely.testing.sandbox.http_messages import SandboxHandler, SandboxRequest, SandboxResponse
from oncely.testing.sandbox.provider_sandbox import SandboxOptions

SECRET_KEY_PREFIX: Final = "sk_test_"  # noqa: S105  # a prefix, not a key
READ_ONLY_KEY: Final = "sk_test_restricted_read"
MAX_IDEMPOTENCY_KEY_LENGTH: Final = 255
INTENT_PATH: Final = r"/v1/payment_intents/(pi_[^/]+)"

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
REFUND_PARAMS: Final = ("amount", "charge", "metadata", "payment_intent", "reason")
LIST_PARAMS: Final = ("charge", "created", "limit", "payment_intent", "starting_after")
# Since this version, Stripe rejects lists of payment method types.
NO_METHOD_TYPES_SINCE: Final = "2026-09-30"

CURRENCY: Final = re.compile(r"[a-z]{3}")
MAX_AMOUNT: Final = 99_999_999
MAX_METADATA_ENTRIES, MAX_METADATA_KEY_LENGTH, MAX_METADATA_VALUE_LENGTH = 50, 40, 500
DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE = 10, 100
_KINDS: Final[Mapping[str, type[Any]]] = {
    "charges": Charge,
    "refunds": RecordedRefund,
    "disputes": Dispute,
}

# The time to respond to a dispute.
RESPONSE_TIME: Final = timedelta(days=7)
_INTENT_EVENTS: Final = {
    IntentStatus.PROCESSING: "payment_intent.processing",
    IntentStatus.SUCCEEDED: "payment_intent.succeeded",
    IntentStatus.CANCELED: "payment_intent.canceled",
    IntentStatus.REQUIRES_PAYMENT_METHOD: "payment_intent.payment_failed",
}


class StripeSandbox(StripeModel):
    """The part of Stripe's API that payment jobs use."""

    path_prefix = "/v1/"
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
    differs: ClassVar = {
        "Optional fields that Oncely does not read are left out.": (),
        "`pm_processing`, `pm_sepa`, `pm_declinedFirst`, `pm_missing` and `cus_missing` exist only "
        "in the model.": (),
        "The code `payment_method_types_no_longer_supported` is from Stripe's changelog of "
        "2026-09-30. The SDK does not list it.": (
            "*.code: 'payment_method_types_no_longer_supported'",
        ),
    }

    def __init__(self, options: SandboxOptions) -> None:
        super().__init__(options)
        self.ledger.on_change = self._report

    def error_response(self, request: SandboxRequest, *, status: int) -> SandboxResponse:
        return _with_headers(request, SandboxResponse(status, error_body(own_error(status))))

    def handle(
        self, request: SandboxRequest, *, wrap: Callable[[SandboxHandler], SandboxResponse]
    ) -> SandboxResponse:
        self.complete_processed()
        try:
            _check_credentials(request)
            response = self._run_idempotent(request, self._endpoint(request), wrap)
        except StripeApiError as error:
            response = SandboxResponse(error.status, error_body(error))
        return _with_headers(request, response)

    def _report(self, before: SandboxEntry | None, after: SandboxEntry) -> None:
        options = self.options
        event = event_for(before, after, at=options.clock(), new_id=options.new_id)
        if event is not None:
            self.on_event(event)

    def _endpoint(self, request: SandboxRequest) -> SandboxHandler:
        for method, pattern, endpoint in self._ENDPOINTS:
            if method == request.method and (address := pattern.fullmatch(request.path)):
                return lambda: endpoint(self, request, *address.groups())
        message = f"Unrecognized request URL ({request.method}: {request.path})."
        raise StripeValidationError(message, status=404)

    def _run_idempotent(
        self,
        request: SandboxRequest,
        endpoint: SandboxHandler,
        wrap: Callable[[SandboxHandler], SandboxResponse],
    ) -> SandboxResponse:
        key = request.idempotency_key
        if not self.honors_idempotency_keys or key is None or request.method != "POST":
            return wrap(self._with_lock(endpoint))
        if len(key) > MAX_IDEMPOTENCY_KEY_LENGTH:
            message = f"Idempotency keys have at most {MAX_IDEMPOTENCY_KEY_LENGTH} characters."
            raise StripeValidationError(message)
        first = {"Original_Request": request.request_id, "Idempotency_Key": key}
        return self.keys.replay_or_run(
            key,
            (request.method, request.path, request.params),
            lambda: wrap(self._with_lock(endpoint)).with_headers(**first),
        )

    def _with_lock(self, execute: SandboxHandler) -> SandboxHandler:
        def locked() -> SandboxResponse:
            with self.ledger.lock:
                try:
                    return execute()
                except StripeValidationError:
                    raise  # nothing was executed under the key
                except StripeApiError as error:
                    return SandboxResponse(error.status, error_body(error))

        return locked

    # Payment intents.

    def _create_intent(self, request: SandboxRequest) -> SandboxResponse:
        params = Params(request.params, known=CREATE_PARAMS)
        _check_method_types(request, params)
        confirms = params.flag("confirm")
        for name in ONLY_WITH_CONFIRM:
            if params.text(name) and not confirms:
                message = f"The parameter `{name}` cannot be passed unless `confirm` is true."
                raise StripeValidationError(message, param=name)
        attempt = _attempt(request, params) if confirms else None
        draft, expand = self._draft(params), params.expands("latest_charge")
        return self._intent_response(self.create_intent(draft, attempt), expand=expand)

    def _confirm_intent(self, request: SandboxRequest, intent_id: str) -> SandboxResponse:
        params = Params(request.params, known=(*CONFIRM_PARAMS, "amount_to_confirm"))
        attempt, expand = _attempt(request, params), params.expands("latest_charge")
        return self._intent_response(self.confirm_intent(intent_id, attempt), expand=expand)

    def _cancel_intent(self, request: SandboxRequest, intent_id: str) -> SandboxResponse:
        params = Params(request.params, known=("cancellation_reason",))
        reason, expand = params.text("cancellation_reason"), params.expands("latest_charge")
        return self._intent_response(self.cancel_intent(intent_id, reason=reason), expand=expand)

    def _retrieve_intent(self, request: SandboxRequest, intent_id: str) -> SandboxResponse:
        expand = Params(request.params, known=("client_secret",)).expands("latest_charge")
        if (intent := self.shown_intent(intent_id)) is None:
            raise not_found_error("payment_intent", intent_id)
        return self._intent_response(intent, expand=expand)

    def _list_intents(self, request: SandboxRequest) -> SandboxResponse:
        params = Params(request.params, known=("customer", "limit", "starting_after"))
        customer, after = params.text("customer"), params.text("starting_after")
        limit, expand = params.limit(), params.expands("latest_charge")
        newest = self.ledger.intents[::-1]
        if after:
            newest = newest[newest.index(self.find_intent(after)) + 1 :]
        found = [one for one in newest if customer is None or one.customer == customer]
        shown = filter(None, (self.shown_intent(one.intent_id) for one in found))
        items = [self._intent_body(one, expand=expand) for one in islice(shown, limit)]
        has_more = next(shown, None) is not None
        return SandboxResponse(200, list_body(items, url=request.path, has_more=has_more))

    def _draft(self, params: "Params") -> PaymentIntent:
        method = params.text("payment_method")
        return PaymentIntent(
            intent_id="",
            amount=params.amount(),
            currency=params.currency(),
            created=self.options.clock(),
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

    def _intent_response(self, intent: PaymentIntent, *, expand: bool) -> SandboxResponse:
        return SandboxResponse(200, self._intent_body(intent, expand=expand))

    def _intent_body(self, intent: PaymentIntent, *, expand: bool) -> dict[str, Any]:
        charge = self.shown_charge(intent.latest_charge) if expand else None
        return intent_body(intent, charge=charge)

    # Charges, refunds, disputes and customers.

    def _create_refund(self, request: SandboxRequest) -> SandboxResponse:
        params = Params(request.params, known=REFUND_PARAMS)
        amount, metadata = params.optional_amount(), params.metadata()
        charge_id, intent_id = params.text("charge"), params.text("payment_intent")
        if (charge_id is None) == (intent_id is None):
            message = "One of charge or payment_intent is required, and not both."
            raise StripeValidationError(message, code="parameter_missing", param="charge")
        refund = self.create_refund(
            charge_id=charge_id, intent_id=intent_id, amount=amount, metadata=metadata
        )
        return SandboxResponse(200, refund_body(refund))

    def _list_objects(self, request: SandboxRequest, kind: str) -> SandboxResponse:
        params = Params(request.params, known=LIST_PARAMS)
        limit, expand = params.limit(), params.expands("payment_intent")
        found = _selected(reversed(self.listed(_KINDS[kind])), params)
        items = [self._object_body(one, expand=expand) for one in islice(found, limit)]
        has_more = next(found, None) is not None
        return SandboxResponse(200, list_body(items, url=request.path, has_more=has_more))

    def _retrieve_object(self, request: SandboxRequest, kind: str, id_: str) -> SandboxResponse:
        expand = Params(request.params, known=()).expands("payment_intent")
        if (found := self.ledger.find(_KINDS[kind], id_)) is None:
            raise not_found_error(kind.removesuffix("s"), id_)
        return SandboxResponse(200, self._object_body(found, expand=expand))

    def _list_customers(self, request: SandboxRequest) -> SandboxResponse:
        params = Params(request.params, known=("email", "limit"))
        email, limit = params.required("email"), params.limit()
        found = [one for one, known in self.ledger.emails.items() if known == email]
        items = [customer_body(one, email=email) for one in found[:limit]]
        page = list_body(items, url=request.path, has_more=len(found) > limit)
        return SandboxResponse(200, page)

    def _object_body(
        self, one: Charge | RecordedRefund | Dispute, *, expand: bool
    ) -> dict[str, Any]:
        shown = (self.shown_charge(one.charge_id) or one) if isinstance(one, Charge) else one
        body = _BODIES[type(shown)](shown)
        intent = self.ledger.intent(one.intent_id) if expand and one.intent_id else None
        return {**body, "payment_intent": intent_body(intent)} if intent else body

    # Each endpoint validates its parameters first.
    _ENDPOINTS: ClassVar[
        tuple[tuple[str, re.Pattern[str], Callable[..., SandboxResponse]], ...]
    ] = (
        ("POST", re.compile(r"/v1/payment_intents"), _create_intent),
        ("GET", re.compile(r"/v1/payment_intents"), _list_intents),
        ("GET", re.compile(INTENT_PATH), _retrieve_intent),
        ("POST", re.compile(rf"{INTENT_PATH}/confirm"), _confirm_intent),
        ("POST", re.compile(rf"{INTENT_PATH}/cancel"), _cancel_intent),
        ("POST", re.compile(r"/v1/refunds"), _create_refund),
        ("GET", re.compile(r"/v1/(charges|refunds|disputes)"), _list_objects),
        ("GET", re.compile(r"/v1/(charges|refunds|disputes)/(\w+)"), _retrieve_object),
        ("GET", re.compile(r"/v1/customers"), _list_customers),
    )


class Params:
    """The parameters of one request, with typed accessors."""

    def __init__(self, values: Mapping[str, Any], *, known: Iterable[str]) -> None:
        self._values = values
        for name in values:
            if name not in {*known, "expand"}:
                message = f"Received unknown parameter: {name}"
                raise StripeValidationError(message, code="parameter_unknown", param=name)

    def text(self, name: str) -> str | None:
        if (value := self._values.get(name)) is None:
            return None
        if not value:
            message = f"You passed an empty string for '{name}'."
            raise StripeValidationError(message, code="parameter_invalid_empty", param=name)
        return str(value)

    def required(self, name: str) -> str:
        if (value := self.text(name)) is None:
            message = f"Missing required param: {name}."
            raise StripeValidationError(message, code="parameter_missing", param=name)
        return value

    def optional_amount(self, name: str = "amount") -> int | None:
        return self.amount(name) if self.has_any(name) else None

    def amount(self, name: str = "amount") -> int:
        return self._integer(name, self.required(name), maximum=MAX_AMOUNT)

    def limit(self) -> int:
        value = self.text("limit") or str(DEFAULT_PAGE_SIZE)
        return self._integer("limit", value, maximum=MAX_PAGE_SIZE)

    def currency(self) -> str:
        value = self.required("currency")
        if not CURRENCY.fullmatch(value):
            raise StripeValidationError(f"Invalid currency: {value}.", param="currency")
        return value

    def flag(self, name: str) -> bool:
        return self.text(name) == "true"

    def mapping(self, name: str) -> Mapping[str, Any]:
        value: Mapping[str, Any] = self._values.get(name) or {}
        return value

    def has_any(self, *names: str) -> bool:
        return any(name in self._values for name in names)

    def metadata(self) -> dict[str, str]:
        entries = self.mapping("metadata")
        fits = len(entries) <= MAX_METADATA_ENTRIES and all(
            isinstance(value, str)
            and len(name) <= MAX_METADATA_KEY_LENGTH
            and len(value) <= MAX_METADATA_VALUE_LENGTH
            for name, value in entries.items()
        )
        if not fits:
            message = "Metadata has at most 50 keys of 40 characters, with values of 500."
            raise StripeValidationError(message, param="metadata")
        return dict(entries)

    def created(self) -> tuple[float, float]:
        """The first time of a list, and the first time after it."""
        given = self.mapping("created")
        return float(given.get("gte", 0)), float(given.get("lt", "inf"))

    def expands(self, name: str) -> bool:
        wanted = {one.removeprefix("data.") for one in self._values.get("expand", [])}
        return name in wanted

    @staticmethod
    def _integer(name: str, value: str, *, maximum: int) -> int:
        if not re.fullmatch(r"-?\d+", value):
            message = f"Invalid integer: {value}"
        elif int(value) < 1:
            message = "This value must be greater than or equal to 1."
        elif int(value) > maximum:
            message = f"This value must be at most {maximum}."
        else:
            return int(value)
        raise StripeValidationError(message, code="parameter_invalid_integer", param=name)


def _attempt(request: SandboxRequest, params: Params) -> ConfirmAttempt:
    return ConfirmAttempt(
        idempotency_key=request.idempotency_key,
        payment_method=params.text("payment_method"),
        off_session=params.flag("off_session"),
        error_on_requires_action=params.flag("error_on_requires_action"),
        return_url=params.text("return_url"),
        amount=params.optional_amount("amount_to_confirm"),
    )


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


def _selected(newest: Iterable[Any], params: Params) -> Iterator[Any]:
    first, last = params.created()
    charge, intent = params.text("charge"), params.text("payment_intent")
    after = params.text("starting_after")
    for one in newest:
        if after is not None:
            after = None if object_id(one) == after else after
        elif (
            first <= one.created.timestamp() < last
            and charge in {None, one.charge_id}
            and intent in {None, one.intent_id}
        ):
            yield one


def _check_credentials(request: SandboxRequest) -> None:
    scheme, _, api_key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not api_key.startswith(SECRET_KEY_PREFIX):
        raise own_error(401)
    if api_key == READ_ONLY_KEY and request.method != "GET":
        message = "The provided key does not have the required permissions for this endpoint."
        raise StripeApiError(message, status=403)


def _with_headers(request: SandboxRequest, response: SandboxResponse) -> SandboxResponse:
    version = request.headers.get("stripe-version")
    named = {"Stripe_Version": version} if version else {}
    return response.with_headers(Request_Id=request.request_id, **named)


# Stripe's JSON: its objects, lists, errors and events.


def _seconds(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp())


def intent_body(intent: PaymentIntent, *, charge: Charge | None = None) -> dict[str, Any]:
    """Serialize a PaymentIntent. `charge` replaces the id of the latest charge."""
    paid = intent.status is IntentStatus.SUCCEEDED
    action = {"type": "use_stripe_sdk", "use_stripe_sdk": {"type": "three_d_secure_redirect"}}
    return {
        "id": intent.intent_id,
        "object": "payment_intent",
        "amount": intent.amount,
        "amount_capturable": 0,
        "amount_received": intent.amount if paid else 0,
        "automatic_payment_methods": {
            "enabled": True,
            "allow_redirects": "always" if intent.redirects_allowed else "never",
        },
        "canceled_at": _seconds(intent.canceled_at),
        "cancellation_reason": intent.cancellation_reason,
        "capture_method": "automatic",
        "client_secret": f"{intent.intent_id}_secret_sandbox",
        "confirmation_method": "automatic",
        "created": _seconds(intent.created),
        "currency": intent.currency,
        "customer": intent.customer,
        "description": intent.description,
        "last_payment_error": intent.last_payment_error,
        "latest_charge": charge_body(charge) if charge else intent.latest_charge,
        "livemode": False,
        "metadata": dict(intent.metadata),
        "next_action": action if intent.status is IntentStatus.REQUIRES_ACTION else None,
        "payment_method": intent.payment_method,
        "payment_method_types": ["card"],
        "receipt_email": intent.receipt_email,
        "status": intent.status.value,
    }


def charge_body(charge: Charge) -> dict[str, Any]:
    """Serialize a charge."""
    paid = charge.status is ChargeStatus.SUCCEEDED
    return {
        "id": charge.charge_id,
        "object": "charge",
        "amount": charge.amount,
        "amount_captured": charge.amount if paid else 0,
        "amount_refunded": charge.amount_refunded,
        "billing_details": {"address": None, "email": None, "name": None, "phone": None},
        "captured": paid,
        "created": _seconds(charge.created),
        "currency": charge.currency,
        "customer": charge.customer,
        "disputed": charge.disputed,
        "failure_code": charge.failure_code,
        "livemode": False,
        "metadata": dict(charge.metadata),
        "paid": paid,
        "payment_intent": charge.intent_id,
        "payment_method": charge.payment_method,
        "payment_method_details": {"type": PROCESSING_METHODS.get(charge.payment_method, "card")},
        "refunded": charge.amount_refunded == charge.amount,
        "status": charge.status.value,
    }


def refund_body(refund: RecordedRefund) -> dict[str, Any]:
    """Serialize a refund. Only a failed one has a reason."""
    failure = {"failure_reason": "declined"} if refund.status == "failed" else {}
    return {
        "id": refund.refund_id,
        "object": "refund",
        "amount": refund.amount,
        "charge": refund.charge_id,
        "created": _seconds(refund.created),
        "currency": refund.currency,
        "metadata": dict(refund.metadata),
        "payment_intent": refund.intent_id,
        "status": refund.status,
        **failure,
    }


def dispute_body(dispute: Dispute) -> dict[str, Any]:
    """Serialize a dispute."""
    return {
        "id": dispute.dispute_id,
        "object": "dispute",
        "amount": dispute.amount,
        "balance_transactions": [],
        "charge": dispute.charge_id,
        "created": _seconds(dispute.created),
        "currency": dispute.currency,
        "enhanced_eligibility_types": [],
        "evidence": {"enhanced_evidence": {}},
        "evidence_details": {
            "due_by": _seconds(dispute.created + RESPONSE_TIME),
            "enhanced_eligibility": {},
            "has_evidence": False,
            "past_due": False,
            "submission_count": 0,
            "submission_method": "not_submitted",
        },
        "is_charge_refundable": False,
        "livemode": False,
        "metadata": {},
        "payment_intent": dispute.intent_id,
        "reason": "fraudulent",
        "status": dispute.status,
    }


def customer_body(customer: str, *, email: str) -> dict[str, Any]:
    """Serialize a customer."""
    return {
        "id": customer,
        "object": "customer",
        "created": 0,  # the model keeps only the email
        "email": email,
        "livemode": False,
    }


_BODIES: Final[Mapping[type, Callable[[Any], dict[str, Any]]]] = {
    Charge: charge_body,
    RecordedRefund: refund_body,
    Dispute: dispute_body,
}


def list_body(items: Sequence[Mapping[str, Any]], *, url: str, has_more: bool) -> dict[str, Any]:
    """Serialize a page of a list."""
    return {"object": "list", "url": url, "has_more": has_more, "data": list(items)}


def error_body(error: StripeApiError) -> dict[str, Any]:
    """Serialize an error, without its empty fields."""
    fields = {name: value for name, value in error.fields.items() if value is not None}
    intent = {"payment_intent": intent_body(error.intent)} if error.intent else {}
    return {"error": {"message": error.message, **fields, **intent}}


def event_for(
    before: SandboxEntry | None, after: SandboxEntry, *, at: datetime, new_id: Callable[[str], str]
) -> dict[str, Any] | None:
    """Return the event of a change. Returns None if Oncely does not read such events."""
    match before, after:
        case PaymentIntent(status=old), PaymentIntent(status=new) if old is not new:
            type_, body = _INTENT_EVENTS.get(new), intent_body(after)
        case Charge(amount_refunded=old), Charge(amount_refunded=new) if new > old:
            type_, body = "charge.refunded", charge_body(after)
        case RecordedRefund(status=old), RecordedRefund(status="failed") if old != "failed":
            type_, body = "refund.failed", refund_body(after)
        case None, Dispute():
            type_, body = "charge.dispute.created", dispute_body(after)
        case _:
            return None
    if type_ is None:
        return None
    return {
        "id": new_id("evt"),
        "object": "event",
        "type": type_,
        "created": _seconds(at),
        "livemode": False,
        "pending_webhooks": 1,
        "data": {"object": body},
    }
