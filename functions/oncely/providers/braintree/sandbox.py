"""A model of Braintree: its XML API, the life of a transaction, and the ledger."""

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar, Final
from xml.etree import ElementTree as ET  # reads the requests of our own tests
from xml.sax.saxutils import escape

from oncely.core.money import Money
from oncely.testing.sandbox.faults import FaultKind
from oncely.testing.sandbox.http_messages import SandboxHandler, SandboxRequest, SandboxResponse
from oncely.testing.sandbox.ledger import EffectState, ProviderLedger, RecordedEffect, job_key_in
from oncely.testing.sandbox.provider_sandbox import ProviderSandbox, SandboxOptions

PAID_TOKEN: Final = "bt_visa"  # noqa: S105  # names of payment methods, not secrets
DECLINED_TOKEN: Final = "bt_insufficient_funds"  # noqa: S105  # as above
PENDING_TOKEN: Final = "bt_paypal_pending"  # noqa: S105  # as above
MISSING_TOKEN: Final = "bt_missing"  # noqa: S105  # as above
UNREACHABLE_TOKEN: Final = "bt_processor_down"  # noqa: S105  # as above

AUTHORIZED: Final = "authorized"
SUBMITTED: Final = "submitted_for_settlement"
PENDING: Final = "settlement_pending"
SETTLED: Final = "settled"
# The states of effects. Any other status of a sale that is no authorization is a decline.
_STATES: Final = {
    **dict.fromkeys((SUBMITTED, "settling", SETTLED, "settlement_confirmed"), EffectState.DONE),
    PENDING: EffectState.PENDING,
}
DUPLICATE_WINDOW: Final = timedelta(seconds=30)
MAX_REQUEST_KEY_LENGTH: Final = 255
_KEY_ERRORS: Final[Mapping[str, str]] = {
    "915230": "API request key is too long.",
    "915231": "API request key is not allowed.",
    "915232": "API request key can be reused only with the same request.",
    "915233": "API request key is in flight.",
    "915234": "API request key was used with a request that failed.",
    "915235": "API request key could not be checked.",
}
_MAX_TIME: Final = datetime.max.replace(tzinfo=UTC)
_BASE: Final = "/merchants/oncely_merchant/"


@dataclass(frozen=True, kw_only=True)
class RecordedTransaction:
    """A transaction. Each change creates a new version."""

    transaction_id: str
    money: Money
    merchant_account: str
    created: datetime
    status: str
    order_id: str
    customer: str
    token: str
    type: str = "sale"
    gateway_rejection_reason: str | None = None
    processor_code: str | None = None
    processor_text: str | None = None
    processor_type: str | None = None
    submissions: int = 0
    refund_ids: tuple[str, ...] = ()
    refunded_id: str | None = None
    disputes: tuple[tuple[str, datetime], ...] = ()  # ids and times
    voided_by: str | None = None  # the job in the key of the void


@dataclass(frozen=True, kw_only=True)
class UsedKey:
    """A key, its first request, and the transaction that it was about, if it did not fail."""

    key: str
    request: tuple[str, str, bytes]
    in_flight: bool = True
    transaction_id: str | None = None


# What becomes of an authorization with a payment method. With any other, it is authorized.
_REFUSALS: Final[Mapping[str, Mapping[str, str]]] = {
    DECLINED_TOKEN: {
        "status": "processor_declined",
        "processor_code": "2001",
        "processor_text": "Insufficient Funds",
        "processor_type": "soft_declined",
    },
    "bt_stolen_card": {
        "status": "processor_declined",
        "processor_code": "2044",
        "processor_text": "Declined - Call Issuer",
        "processor_type": "hard_declined",
    },
    "bt_fraud": {"status": "gateway_rejected", "gateway_rejection_reason": "fraud"},
    "bt_wrong_cvv": {"status": "gateway_rejected", "gateway_rejection_reason": "cvv"},
    UNREACHABLE_TOKEN: {"status": "failed", "processor_text": "Processor Network Unavailable"},
}
_REFUSED: Final = frozenset(one["status"] for one in _REFUSALS.values())
_DUPLICATE: Final = {"status": "gateway_rejected", "gateway_rejection_reason": "duplicate"}


class BraintreeLedger(ProviderLedger):
    """What happened at Braintree."""

    @property
    def transactions(self) -> tuple[RecordedTransaction, ...]:
        return self.all(RecordedTransaction)

    @property
    def held(self) -> list[str]:
        """The sales that hold or took money. A second one of a job is a violation."""
        holds = {AUTHORIZED, *_STATES}
        sales = (one for one in self.transactions if one.type == "sale")
        return [one.transaction_id for one in sales if one.status in holds]

    def save(self, transaction: RecordedTransaction) -> RecordedTransaction:
        self.put(transaction.transaction_id, transaction)
        return transaction

    def effects(self) -> Iterator[RecordedEffect]:
        by_id = {one.transaction_id: one for one in self.transactions}
        for one in self.transactions:
            state, own_job = _STATES.get(one.status, EffectState.DECLINED), _job_of(one)
            if one.refunded_id is not None:
                # A refund made by hand has the order id of the sale, and belongs to no job.
                if own_job != _job_of(by_id[one.refunded_id]):
                    yield _effect("refunds", one, own_job, state)
            elif one.voided_by not in {None, own_job}:
                # Another job gave back what this one had taken.
                yield _effect("charges", one, own_job, EffectState.DONE)
                yield _effect("refunds", one, str(one.voided_by), EffectState.DONE)
            elif one.status != AUTHORIZED:  # an authorization takes nothing
                yield from [_effect("charges", one, own_job, state)] * max(1, one.submissions)


def _job_of(one: RecordedTransaction) -> str:
    return one.order_id.partition(":")[2]


def _effect(kind: str, one: RecordedTransaction, job: str, state: EffectState) -> RecordedEffect:
    return RecordedEffect(
        kind=kind,
        key=job,
        reference=one.transaction_id,
        state=state,
        amount=one.money.amount,
        currency=one.money.currency,
    )


class BraintreeSandbox(ProviderSandbox):
    """The part of Braintree that payment jobs use."""

    path_prefix = "/merchants/"
    requests: ClassVar = {
        "prepare": {"method": "POST", "path": "/merchants/*/transactions"},
        "execute": {"method": "PUT", "path": "/merchants/*/transactions/*/submit_for_settlement"},
        "lookup": {"method": "GET", "path": "/merchants/*/transactions/*"},
        "find": {"method": "POST", "path": "/merchants/*/transactions/advanced_search*"},
        "close": {"method": "PUT", "path": "/merchants/*/transactions/*/void"},
        "refund": {"method": "POST", "path": "/merchants/*/transactions/*/refund"},
    }
    reads_before: ClassVar = {"close": 1}
    api_key = "oncely_public:oncely_private"
    settings: ClassVar = {
        "environment": "sandbox",
        "merchant_id": "oncely_merchant",
        "merchant_accounts": "eur=oncely_eur,usd=oncely_usd",
    }
    samples: ClassVar = {"paid": PAID_TOKEN, "declined": DECLINED_TOKEN, "pending": PENDING_TOKEN}
    # No fault loses an authorization request before it is executed: its absence is certain only
    # after the lag of the search, and a demo does not wait for that more often than it must.
    fault_rates = (
        (FaultKind.ACCEPT_THEN_DROP, "prepare", 3),
        (FaultKind.ERROR_AFTER, "prepare", 2),
        (FaultKind.GARBLED, "prepare", 1),
        (FaultKind.TRUNCATED, "prepare", 1),
        (FaultKind.RATE_LIMIT, "prepare", 2),
        (FaultKind.ACCEPT_THEN_DROP, "execute", 4),
        (FaultKind.ERROR_AFTER, "execute", 2),
        (FaultKind.ERROR_BEFORE, "execute", 1),
        (FaultKind.GARBLED, "execute", 1),
        (FaultKind.TRUNCATED, "execute", 1),
        (FaultKind.SLOW, "execute", 2),
        (FaultKind.OUTAGE, "lookup", 20),  # the lookup after an error often fails too
        (FaultKind.OUTAGE, "find", 10),
        (FaultKind.ACCEPT_THEN_DROP, "refund", 10),
        (FaultKind.ERROR_AFTER, "refund", 4),
        (FaultKind.ACCEPT_THEN_DROP, "close", 10),
        (FaultKind.ERROR_AFTER, "close", 4),
    )
    hanging_call = "execute"

    # The payment method whose outcome every other one has. None if each has its own.
    acts_as: str | None = None
    # How late a search shows a transaction.
    search_lag = timedelta(0)
    # When a pending settlement is decided. None if only `complete_pending` decides it.
    pending_for: timedelta | None = None
    # When a submitted sale is settled. None if only `set_status` does it.
    settled_after: timedelta | None = None
    refund_status = SUBMITTED  # of new refunds
    # How late a sale lists its refunds.
    refund_ids_lag = timedelta(0)
    # What Braintree enforces. A test turns a rule off to see that Oncely does not depend on it.
    rejects_second_submission = True
    limits_settlement = True
    limits_refunds = True  # to the amount of the sale
    checks_duplicates = False  # options of the merchant at Braintree: this one,
    accepts_keys = True  # and whether it may send keys
    # The currency of a merchant account is set at Braintree.
    currencies: ClassVar[Mapping[str, str]] = {"oncely_eur": "eur", "oncely_usd": "usd"}

    def __init__(self, options: SandboxOptions) -> None:
        super().__init__(options)
        self.honors_keys = options.honors_idempotency_keys
        self.ledger: BraintreeLedger = BraintreeLedger()
        self.emails: dict[str, str] = {}  # of customers

    def error_response(self, request: SandboxRequest, *, status: int) -> SandboxResponse:
        """Build a response without a body: the SDK reads only the status of an error."""
        del request
        return _response("", status=status)

    def handle(
        self, request: SandboxRequest, *, wrap: Callable[[SandboxHandler], SandboxResponse]
    ) -> SandboxResponse:
        credentials = base64.b64encode(self.api_key.encode()).decode()
        if request.headers.get("authorization") != f"Basic {credentials}":
            return self.error_response(request, status=401)

        body = _parse_xml(request.body)

        def execute() -> SandboxResponse:
            with self.ledger.lock:
                if self.pending_for is not None:
                    self.complete_pending_since(self.options.clock() - self.pending_for)
                if self.settled_after is not None:
                    self.complete_submitted_since(self.options.clock() - self.settled_after)
                try:
                    return self._execute(request, body)
                except KeyError:  # an unknown transaction
                    return self.error_response(request, status=404)

        key = body.get("transaction", {}).get("api_request_key")
        return wrap(execute) if key is None else self._once(key, request, lambda: wrap(execute))

    def _once(self, key: str, request: SandboxRequest, execute: SandboxHandler) -> SandboxResponse:
        """Execute a request under its key, or return its transaction as it is now."""
        if not self.accepts_keys:
            return key_error("915231")
        if len(key) > MAX_REQUEST_KEY_LENGTH:
            return key_error("915230")
        if not self.honors_keys:
            return execute()
        first = UsedKey(key=key, request=(request.method, request.path, request.body))
        with self.ledger.lock:
            if (used := self.ledger.find(UsedKey, key)) is not None:
                return self._repeated(used, first)
            self.ledger.put(key, first)
        response = execute()
        self.ledger.put(
            key, replace(first, in_flight=False, transaction_id=_transaction_id(response))
        )
        return response

    def _repeated(self, used: UsedKey, again: UsedKey) -> SandboxResponse:
        if used.request != again.request:
            return key_error("915232")
        if used.in_flight:
            return key_error("915233")
        if used.transaction_id is None:
            return key_error("915234")
        return self._made(self._get(used.transaction_id))

    def complete_pending(self, transaction_id: str, *, succeeded: bool) -> None:
        self.set_status(transaction_id, SETTLED if succeeded else "settlement_declined")

    def complete_pending_since(self, moment: datetime) -> None:
        for one in self.ledger.transactions:
            if one.status == PENDING and one.created < moment:
                self.complete_pending(one.transaction_id, succeeded=True)

    def complete_submitted_since(self, moment: datetime) -> None:
        """Complete the settlement of the sales that were submitted before then."""
        for one in self.ledger.transactions:
            if (one.type, one.status) == ("sale", SUBMITTED) and one.created <= moment:
                self.set_status(one.transaction_id, SETTLED)

    def refund(self, transaction_id: str, *, share: int = 1) -> None:
        """Refund a transaction in full, or a share of it, as a user does."""
        paid = self._get(transaction_id)
        money = Money(paid.money.amount // share, paid.money.currency)
        self._save_refund(paid, money, status=SETTLED, order_id=paid.order_id)

    def _save_refund(
        self, paid: RecordedTransaction, money: Money, *, status: str, order_id: str
    ) -> RecordedTransaction:
        refund = replace(
            paid,
            transaction_id=self.options.new_id("bt"),
            money=money,
            type="credit",
            status=status,
            order_id=order_id,
            created=self.options.clock(),
            refunded_id=paid.transaction_id,
            refund_ids=(),
            disputes=(),
        )
        self.ledger.save(replace(paid, refund_ids=(*paid.refund_ids, refund.transaction_id)))
        return self.ledger.save(refund)

    def dispute(self, transaction_id: str) -> None:
        """Dispute a transaction in full, as the customer's bank does."""
        paid = self._get(transaction_id)
        opened = (self.options.new_id("dp"), self.options.clock())
        self.ledger.save(replace(paid, disputes=(*paid.disputes, opened)))

    def set_email(self, customer: str, email: str) -> None:
        """Give a customer an email address."""
        self.emails[customer] = email

    def set_status(self, transaction_id: str, status: str) -> None:
        """Change a transaction as Braintree or its processor does later."""
        self.ledger.save(replace(self._get(transaction_id), status=status))

    def _execute(  # noqa: C901  # one case for each endpoint
        self, request: SandboxRequest, body: Mapping[str, Any]
    ) -> SandboxResponse:
        match request.method, *request.path.removeprefix(_BASE).split("/"):
            case "POST", "transactions":
                return self._sale(body["transaction"])
            case "POST", "transactions", "advanced_search_ids":
                ids = [one.transaction_id for one in self._matching(body["search"])]
                return _response(_xml("search-results", {"page-size": 50, "ids": ids}))
            case "POST", "transactions", "advanced_search":
                shown = {one.transaction_id: one for one in self._matching(body["search"])}
                found = [_transaction_xml(shown[one]) for one in body["search"]["ids"]]
                return _page("credit-card-transactions", found)
            case "GET", "transactions", transaction_id:
                return _response(_transaction_xml(self._shown(self._get(transaction_id))))
            case "PUT", "transactions", transaction_id, "submit_for_settlement":
                return self._submit(self._get(transaction_id), body["transaction"]["amount"])
            case "PUT", "transactions", transaction_id, "void":
                key = body.get("transaction", {}).get("api_request_key")
                return self._void(self._get(transaction_id), key=key)
            case "POST", "transactions", transaction_id, "refund":
                return self._refund(self._get(transaction_id), body["transaction"])
            case "POST", "disputes", "advanced_search":
                days = body["search"]["received_date"]
                first, last = days["min"][:10], days["max"][:10]
                received = [xml for _, at, xml in self._disputes() if first <= f"{at:%F}" <= last]
                return _page("disputes", received)
            case "GET", "disputes", dispute_id:
                return _response({known: xml for known, _, xml in self._disputes()}[dispute_id])
            case "GET", "merchant_accounts", account:
                currency = self.currencies[account].upper()
                return _response(
                    _xml("merchant-account", {"id": account, "currency-iso-code": currency})
                )
            case _:
                return self.error_response(request, status=404)

    def _sale(self, sale: Mapping[str, Any]) -> SandboxResponse:
        account = sale["merchant_account_id"]
        if account not in self.currencies:
            return _error("Merchant account ID is invalid.", code="91513")
        token = self.acts_as or sale["payment_method_token"]
        if token == MISSING_TOKEN:
            return _error("Payment method token is invalid.", code="91518")
        asked = RecordedTransaction(
            transaction_id=self.options.new_id("bt"),
            money=Money.from_decimal(Decimal(sale["amount"]), self.currencies[account]),
            merchant_account=account,
            created=self.options.clock(),
            status=AUTHORIZED,
            order_id=sale["order_id"],
            customer=sale["customer_id"],
            token=token,
        )
        changes = _DUPLICATE if self._is_duplicate(asked) else _REFUSALS.get(asked.token, {})
        made = self.ledger.save(replace(asked, **changes))  # type: ignore[arg-type]  # by name
        if made.status == AUTHORIZED and sale["options"]["submit_for_settlement"] == "true":
            return self._submit(made, sale["amount"])
        return self._made(made)

    def _made(self, one: RecordedTransaction) -> SandboxResponse:
        if one.status in _REFUSED:
            return _error(one.processor_text or "Gateway Rejected", transaction=one)
        return _response(_transaction_xml(one), status=201)

    def _is_duplicate(self, asked: RecordedTransaction) -> bool:
        return self.checks_duplicates and any(
            (one.order_id, one.money) == (asked.order_id, asked.money)
            and asked.created - one.created < DUPLICATE_WINDOW
            for one in self.ledger.transactions
        )

    def _submit(self, one: RecordedTransaction, amount: str) -> SandboxResponse:
        again = one.status in _STATES and not self.rejects_second_submission
        if one.status != AUTHORIZED and not again:
            message = "Cannot submit for settlement unless status is authorized."
            return _error(message, code="91507")
        money = Money.from_decimal(Decimal(amount), one.money.currency)
        if self.limits_settlement and money.amount > one.money.amount:
            return _error("Settlement amount is too large.", code="91522")
        status = PENDING if one.token == PENDING_TOKEN else SUBMITTED
        submitted = replace(one, money=money, status=status, submissions=one.submissions + 1)
        return _response(_transaction_xml(self.ledger.save(submitted)))

    def _void(self, one: RecordedTransaction, *, key: str | None) -> SandboxResponse:
        if one.status not in {AUTHORIZED, SUBMITTED, PENDING}:
            message = "Transaction can only be voided if status is authorized or submitted."
            return _error(message, code="91504")
        by = None if key is None else job_key_in(key)
        voided = replace(one, status="voided", voided_by=by)
        return _response(_transaction_xml(self.ledger.save(voided)))

    def _refund(self, paid: RecordedTransaction, asked: Mapping[str, Any]) -> SandboxResponse:
        if paid.status not in {"settling", SETTLED, "settlement_confirmed"}:
            return _error("Cannot refund transaction unless it is settled.", code="91506")
        money = Money.from_decimal(Decimal(asked["amount"]), paid.money.currency)
        left = paid.money.amount - self.returned(paid.transaction_id)
        if self.limits_refunds and not left:
            return _error("Transaction has already been completely refunded.", code="91512")
        if self.limits_refunds and money.amount > left:
            return _error("Refund amount is too large.", code="91521")
        return self._made(
            self._save_refund(paid, money, status=self.refund_status, order_id=asked["order_id"])
        )

    def _shown(self, sale: RecordedTransaction) -> RecordedTransaction:
        shown_until = self.options.clock() - self.refund_ids_lag
        refunds = (self._get(one) for one in sale.refund_ids)
        ids = tuple(one.transaction_id for one in refunds if one.created <= shown_until)
        return replace(sale, refund_ids=ids)

    def returned(self, transaction_id: str) -> int:
        """How much of a sale was given back, or is being given back."""
        paid = self._get(transaction_id)
        if paid.status == "voided":
            return paid.money.amount
        refunds = (self._get(one) for one in paid.refund_ids)
        return sum(one.money.amount for one in refunds if one.status in _STATES)

    def _matching(self, search: Mapping[str, Any]) -> list[RecordedTransaction]:
        order_id, customer, email = (
            search.get(name, {}).get("is") for name in ("order_id", "customer_id", "customer_email")
        )
        types = search.get("type") or [None]
        created = search.get("created_at", {})
        first, last = (_moment(created.get(name)) for name in ("min", "max"))
        shown = min(self.options.clock() - self.search_lag, last or _MAX_TIME)
        return [
            one
            for one in self.ledger.transactions
            if order_id in {None, one.order_id}
            and types[0] in {None, one.type}
            and customer in {None, one.customer}
            and email in {None, self.emails.get(one.customer)}
            and (first or one.created) <= one.created <= shown
        ]

    def _disputes(self) -> Iterator[tuple[str, datetime, str]]:
        """The id and the time of each dispute, and its XML."""
        for one in self.ledger.transactions:
            sale = {"id": one.transaction_id, "order-id": one.order_id}
            for content in _dispute_contents(one):
                whole = _xml("dispute", {**content, "transaction": sale})
                yield content["id"], content["created-at"], whole

    def _get(self, transaction_id: str) -> RecordedTransaction:
        if (found := self.ledger.find(RecordedTransaction, transaction_id)) is None:
            raise KeyError(transaction_id)
        return found


def key_error(code: str) -> SandboxResponse:
    """The rejection of a key."""
    return _error(_KEY_ERRORS[code], code=code)


def _parse_xml(body: bytes) -> dict[str, Any]:
    if not body.strip():
        return {}
    root = ET.fromstring(body)  # noqa: S314  # as above
    return {root.tag: _value(root)}


def _transaction_id(response: SandboxResponse) -> str | None:
    """The transaction in a response. Returns None if the request failed without one."""
    if response.status >= 500:  # noqa: PLR2004  # server errors
        return None
    parsed = _parse_xml((response.text or "").encode())
    error = parsed.get("api-error-response", {})
    found = parsed.get("transaction") or error.get("transaction") or {}
    return found.get("id")


def _value(node: ET.Element) -> Any:  # noqa: ANN401  # text, list or mapping
    if node.get("type") == "array":
        return [_value(inner) for inner in node]
    return {inner.tag: _value(inner) for inner in node} if len(node) else node.text or ""


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _response(xml: str, *, status: int = 200) -> SandboxResponse:
    return SandboxResponse(status, {}, text=xml, content_type="application/xml; charset=utf-8")


def _error(
    message: str, *, code: str | None = None, transaction: RecordedTransaction | None = None
) -> SandboxResponse:
    """The response to an invalid request or a declined transaction."""
    errors = [] if code is None else [{"code": code, "attribute": "base", "message": message}]
    content: dict[str, object] = {
        "errors": {"errors": [], "transaction": {"errors": errors}},
        "message": message,
    }
    if transaction is not None:
        content["transaction"] = _transaction_content(transaction)
    return _response(_xml("api-error-response", content), status=422)


def _page(name: str, items: Sequence[str]) -> SandboxResponse:
    page = {"current-page-number": 1, "page-size": max(50, len(items)), "total-items": len(items)}
    return _response(f"<{name}>{_inner_xml(page)}{''.join(items)}</{name}>")


def _transaction_xml(one: RecordedTransaction) -> str:
    return _xml("transaction", _transaction_content(one))


def _transaction_content(one: RecordedTransaction) -> dict[str, object]:
    """The fields of a transaction that Oncely reads, with Braintree's names."""
    return {
        "id": one.transaction_id,
        "type": one.type,
        "amount": one.money.decimal_text,
        "status": one.status,
        "order-id": one.order_id,
        "currency-iso-code": one.money.currency.upper(),
        "merchant-account-id": one.merchant_account,
        "customer": {"id": one.customer},
        "gateway-rejection-reason": one.gateway_rejection_reason,
        "processor-response-code": one.processor_code,
        "processor-response-text": one.processor_text,
        "processor-response-type": one.processor_type,
        "created-at": one.created,
        "refund-ids": one.refund_ids,
        "refunded-transaction-id": one.refunded_id,
        "disputes": _dispute_contents(one),
    }


def _dispute_contents(one: RecordedTransaction) -> list[dict[str, Any]]:
    """The fields of its disputes that Oncely reads, with Braintree's names."""
    money = {
        "amount-disputed": one.money.decimal_text,
        "currency-iso-code": one.money.currency.upper(),
    }
    return [{"id": known, "created-at": at, **money} for known, at in one.disputes]


def _xml(name: str, content: object) -> str:
    match content:
        case None:
            return f'<{name} nil="true"/>'
        case str():
            return f"<{name}>{escape(content)}</{name}>"
        case int():
            return f'<{name} type="integer">{content}</{name}>'
        case datetime():
            return f'<{name} type="datetime">{content:%Y-%m-%dT%H:%M:%SZ}</{name}>'
        case Mapping():
            return f"<{name}>{_inner_xml(content)}</{name}>"
        case Sequence():
            items = "".join(_xml("item", one) for one in content)
            return f'<{name} type="array">{items}</{name}>'
        case _:
            raise TypeError(f"{name} is {type(content).__name__}")


def _inner_xml(content: Mapping[str, object]) -> str:
    return "".join(_xml(name, value) for name, value in content.items())
