"""Braintree's HTTP API: authentication, routing, and the life of a transaction."""

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar, Final

from oncely.providers.braintree.sandbox.ledger import (
    AUTHORIZED,
    PENDING,
    SETTLED,
    SUBMITTED,
    BraintreeLedger,
    RecordedTransaction,
)
from oncely.providers.braintree.sandbox.xml_messages import (
    dispute_content,
    empty_response,
    error_response,
    parse_xml,
    transaction_content,
    xml_response,
)
from oncely.testing.sandbox.faults import FaultKind
from oncely.testing.sandbox.http_messages import (
    SandboxHandler,
    SandboxRequest,
    SandboxResponse,
    new_id,
)
from oncely.testing.sandbox.provider_sandbox import ProviderSandbox, SandboxOptions

PAID_TOKEN: Final = "bt_visa"  # noqa: S105  # names of payment methods, not secrets
DECLINED_TOKEN: Final = "bt_insufficient_funds"  # noqa: S105  # as above
PENDING_TOKEN: Final = "bt_paypal_pending"  # noqa: S105  # as above
MISSING_TOKEN: Final = "bt_missing"  # noqa: S105  # as above
# What the processor answers for a payment method: code, text and type of the decline.
DECLINES: Final = {
    DECLINED_TOKEN: ("2001", "Insufficient Funds", "soft_declined"),
    "bt_stolen_card": ("2044", "Declined - Call Issuer", "hard_declined"),
}
REJECTIONS: Final = {"bt_fraud": "fraud", "bt_wrong_cvv": "cvv"}
UNREACHABLE_TOKEN: Final = "bt_processor_down"  # noqa: S105  # as above
DUPLICATE_WINDOW: Final = timedelta(seconds=30)
_MAX_TIME: Final = datetime.max.replace(tzinfo=UTC)
_BASE: Final = r"/merchants/oncely_merchant"
_TRANSACTION: Final = rf"{_BASE}/transactions/(bt[0-9a-f_]+)"


class BraintreeSandbox(ProviderSandbox):
    """The part of Braintree that payment jobs use."""

    requests: ClassVar = {
        "prepare": {"method": "POST", "path": "/merchants/*/transactions"},
        "execute": {"method": "PUT", "path": "/merchants/*/transactions/*/submit_for_settlement"},
        "lookup": {"method": "GET", "path": "/merchants/*/transactions/*"},
        "find": {"method": "POST", "path": "/merchants/*/transactions/advanced_search*"},
        "close": {"method": "PUT", "path": "/merchants/*/transactions/*/void"},
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
    )
    hanging_call = "execute"

    # How late a search shows a transaction, and whether the gateway rejects duplicates.
    search_lag = timedelta(0)
    checks_duplicates = False
    # The currency of a merchant account is set at Braintree.
    currencies: ClassVar[Mapping[str, str]] = {"oncely_eur": "eur", "oncely_usd": "usd"}

    def __init__(self, options: SandboxOptions) -> None:
        super().__init__(options)
        self.ledger: BraintreeLedger = BraintreeLedger()
        self.emails: dict[str, str] = {}  # of customers
        self._routes: list[tuple[str, str, Callable[..., SandboxResponse]]] = [
            ("POST", rf"{_BASE}/transactions", self._sale),
            ("POST", rf"{_BASE}/transactions/advanced_search_ids", self._search_ids),
            ("POST", rf"{_BASE}/transactions/advanced_search", self._search),
            ("POST", rf"{_BASE}/disputes/advanced_search", self._search_disputes),
            ("GET", rf"{_BASE}/disputes/(\w+)", self._find_dispute),
            ("GET", _TRANSACTION, self._find),
            ("PUT", rf"{_TRANSACTION}/submit_for_settlement", self._submit),
            ("PUT", rf"{_TRANSACTION}/void", self._void),
            ("GET", rf"{_BASE}/merchant_accounts/(\w+)", self._account),
        ]

    def serves(self, path: str) -> bool:
        return path.startswith("/merchants/")

    def error_response(self, request: SandboxRequest, *, status: int) -> SandboxResponse:
        del request
        return empty_response(status)

    def handle(
        self, request: SandboxRequest, *, wrap: Callable[[SandboxHandler], SandboxResponse]
    ) -> SandboxResponse:
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        expected = base64.b64encode(self.api_key.encode()).decode()
        if (scheme, credentials) != ("Basic", expected):
            return empty_response(401)
        for method, pattern, endpoint in self._routes:
            address = re.fullmatch(pattern, request.path)
            if address and method == request.method:
                return wrap(self._locked(endpoint, parse_xml(request.body), address.groups()))
        return empty_response(404)

    def complete_pending(self, transaction_id: str, *, succeeded: bool) -> RecordedTransaction:
        return self._change(transaction_id, SETTLED if succeeded else "settlement_declined")

    def complete_pending_since(self, moment: datetime) -> None:
        for one in self.ledger.transactions:
            if one.status == PENDING and one.created < moment:
                self.complete_pending(one.transaction_id, succeeded=True)

    def refund(self, transaction_id: str, *, share: int = 1) -> None:
        """Refund a transaction in full, or a share of it, as a user does."""
        paid = self._get(transaction_id)
        refund = replace(
            paid,
            transaction_id=new_id("bt"),
            amount=paid.amount / share,
            type="credit",
            status=SETTLED,
            created=self.options.clock(),
            refunded_id=transaction_id,
        )
        self.ledger.save(refund)
        self.ledger.save(replace(paid, refund_ids=(*paid.refund_ids, refund.transaction_id)))

    def dispute(self, transaction_id: str) -> None:
        """Dispute a transaction in full, as the customer's bank does."""
        paid, opened = self._get(transaction_id), (new_id("dp"), self.options.clock())
        self.ledger.save(replace(paid, disputes=(*paid.disputes, opened)))

    def set_email(self, customer: str, email: str) -> None:
        """Give a customer an email address."""
        self.emails[customer] = email

    def set_status(self, transaction_id: str, status: str) -> None:
        """Change a transaction as Braintree or its processor does later."""
        self._change(transaction_id, status)

    def _locked(
        self,
        endpoint: Callable[..., SandboxResponse],
        body: Mapping[str, Any],
        ids: tuple[str, ...],
    ) -> SandboxHandler:
        def execute() -> SandboxResponse:
            with self.ledger.lock:
                try:
                    return endpoint(body, *ids)
                except KeyError:  # an unknown transaction
                    return empty_response(404)

        return execute

    def _sale(self, body: Mapping[str, Any]) -> SandboxResponse:
        sale = body["transaction"]
        account = sale["merchant_account_id"]
        if account not in self.currencies:
            return error_response("Merchant account ID is invalid.", code="91513")
        if sale["payment_method_token"] == MISSING_TOKEN:
            return error_response("Payment method token is invalid.", code="91518")
        made = self._authorize(
            RecordedTransaction(
                transaction_id=new_id("bt"),
                amount=Decimal(sale["amount"]),
                currency=self.currencies[account],
                merchant_account=account,
                created=self.options.clock(),
                status=AUTHORIZED,
                order_id=sale["order_id"],
                customer=sale["customer_id"],
                token=sale["payment_method_token"],
            )
        )
        self.ledger.save(made)
        if made.status == AUTHORIZED:
            return xml_response("transaction", transaction_content(made), status=201)
        return error_response(made.processor_text or "Gateway Rejected", transaction=made)

    def _authorize(self, asked: RecordedTransaction) -> RecordedTransaction:
        if self.checks_duplicates and any(
            (one.order_id, one.amount) == (asked.order_id, asked.amount)
            and asked.created - one.created < DUPLICATE_WINDOW
            for one in self.ledger.transactions
        ):
            return replace(asked, status="gateway_rejected", gateway_rejection_reason="duplicate")
        if asked.token in DECLINES:
            code, text, kind = DECLINES[asked.token]
            declined = replace(asked, processor_code=code, processor_text=text, processor_type=kind)
            return replace(declined, status="processor_declined")
        if asked.token in REJECTIONS:
            reason = REJECTIONS[asked.token]
            return replace(asked, status="gateway_rejected", gateway_rejection_reason=reason)
        if asked.token == UNREACHABLE_TOKEN:
            return replace(asked, status="failed", processor_text="Processor Network Unavailable")
        return asked

    def _submit(self, body: Mapping[str, Any], transaction_id: str) -> SandboxResponse:
        one = self._get(transaction_id)
        if one.status != AUTHORIZED:
            message = "Cannot submit for settlement unless status is authorized."
            return error_response(message, code="91507")
        if Decimal(body["transaction"]["amount"]) > one.amount:
            return error_response("Settlement amount is too large.", code="91522")
        status = PENDING if one.token == PENDING_TOKEN else SUBMITTED
        return self._transaction(self._change(transaction_id, status))

    def _void(self, body: Mapping[str, Any], transaction_id: str) -> SandboxResponse:
        del body
        if self._get(transaction_id).status not in {AUTHORIZED, SUBMITTED}:
            message = "Transaction can only be voided if status is authorized or submitted."
            return error_response(message, code="91504")
        return self._transaction(self._change(transaction_id, "voided"))

    def _find(self, body: Mapping[str, Any], transaction_id: str) -> SandboxResponse:
        del body
        return self._transaction(self._get(transaction_id))

    def _search_ids(self, body: Mapping[str, Any]) -> SandboxResponse:
        ids = [one.transaction_id for one in self._matching(body)]
        return xml_response("search-results", {"page-size": 50, "ids": ids})

    def _search(self, body: Mapping[str, Any]) -> SandboxResponse:
        wanted = set(body["search"]["ids"])
        found = [one for one in self._matching(body) if one.transaction_id in wanted]
        return _page("credit-card-transactions", [self._transaction(one) for one in found])

    def _search_disputes(self, body: Mapping[str, Any]) -> SandboxResponse:
        days = body["search"]["received_date"]
        found = [
            xml_response("dispute", dispute_content(one, dispute_id, at))
            for one in self.ledger.transactions
            for dispute_id, at in one.disputes
            if days["min"][:10] <= f"{at:%F}" <= days["max"][:10]
        ]
        return _page("disputes", found)

    def _find_dispute(self, body: Mapping[str, Any], dispute_id: str) -> SandboxResponse:
        del body
        found = (
            xml_response("dispute", dispute_content(one, dispute_id, at))
            for one in self.ledger.transactions
            for known, at in one.disputes
            if known == dispute_id
        )
        return next(found, empty_response(404))

    def _matching(self, body: Mapping[str, Any]) -> list[RecordedTransaction]:
        search = body["search"]
        order_id = search.get("order_id", {}).get("is")
        customer = search.get("customer_id", {}).get("is")
        email = search.get("customer_email", {}).get("is")
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

    def _account(self, body: Mapping[str, Any], account: str) -> SandboxResponse:
        del body
        currency = self.currencies[account].upper()
        return xml_response("merchant-account", {"id": account, "currency-iso-code": currency})

    def _transaction(self, one: RecordedTransaction) -> SandboxResponse:
        return xml_response("transaction", transaction_content(one))

    def _get(self, transaction_id: str) -> RecordedTransaction:
        if (found := self.ledger.transaction(transaction_id)) is None:
            raise KeyError(transaction_id)
        return found

    def _change(self, transaction_id: str, status: str) -> RecordedTransaction:
        return self.ledger.save(replace(self._get(transaction_id), status=status))


def _page(name: str, items: list[SandboxResponse]) -> SandboxResponse:
    page = {"current-page-number": 1, "page-size": max(50, len(items)), "total-items": len(items)}
    response, end = xml_response(name, page), f"</{name}>"
    inner = "".join(str(one.text) for one in items)
    return replace(response, text=str(response.text).replace(end, inner + end))


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
