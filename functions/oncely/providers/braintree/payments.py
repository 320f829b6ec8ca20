"""Braintree through its official SDK: authorize, save the id, then submit for settlement."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from oncely.core.effect_outcomes import (
    Ambiguous,
    Anomalous,
    Declined,
    EffectOutcome,
    Json,
    LookupFailed,
    LookupOutcome,
    NotFound,
    NotSent,
    Pending,
    Prepared,
    ProviderState,
    Succeeded,
    after_send,
)
from oncely.core.keys import IdempotencyKey, JobKey
from oncely.providers.braintree.payment_ledger import BraintreePaymentLedger
from oncely.providers.braintree.refunds import BraintreeRefunds
from oncely.providers.braintree.request_keys import proves_nothing, send_with_key, void
from oncely.providers.braintree.responses import (
    REQUEST_ERRORS,
    Transaction,
    closed_outcome,
    describe_error,
    describe_rejection,
    error_outcome,
    flag_duplicates,
    flag_open,
    has_settled,
    is_charged,
    is_duplicate_rejection,
    is_open,
    is_unknown_id,
    not_sent_outcome,
    order_id_of,
    outcome_from_transaction,
    rejects_api_key,
)
from oncely.providers.braintree.sdk import TransactionSearch
from oncely.providers.interfaces import Payment


@dataclass(frozen=True, kw_only=True)
class BraintreePayments(BraintreeRefunds):
    """Charges through transactions. Braintree settles the same transaction only once."""

    accounts: Mapping[str, str]  # merchant accounts by currency
    scope: str

    @property
    def ledger(self) -> BraintreePaymentLedger:
        return BraintreePaymentLedger(self.gateway)

    def key_scope(self) -> str:
        return self.scope

    def prepare(
        self, payment: Payment, *, idempotency_key: IdempotencyKey
    ) -> Prepared | EffectOutcome:
        """Authorize the payment, which holds the money and does not take it."""
        currency = payment.money.currency
        if (account := self.accounts.get(currency)) is None:
            return Anomalous(
                f"no merchant account takes {currency}: add it to braintree_merchant_accounts, and "
                "deploy again"
            )
        sale = {
            "amount": payment.money.decimal_text,
            "customer_id": payment.customer,
            "payment_method_token": payment.method,
            "merchant_account_id": account,
            "order_id": order_id_of(payment.deployment, payment.job_key),
            "options": {"submit_for_settlement": False},
        }
        try:
            result = send_with_key(
                lambda key: self.gateway.transaction.sale({**sale, **key}), idempotency_key
            )
        except REQUEST_ERRORS as error:
            return error_outcome(error)
        if result is None:
            return Ambiguous("authorizing the payment: the response is malformed")
        if proves_nothing(result):
            return Ambiguous(f"authorizing the payment: {describe_rejection(result)}")
        if result.transaction is None:
            return Anomalous(f"Braintree rejects the payment: {describe_rejection(result)}")
        return _prepared_outcome(result.transaction, payment)

    def execute(
        self, ref: str, payment: Payment, *, idempotency_key: IdempotencyKey, verified: bool = False
    ) -> EffectOutcome:
        """Submit the transaction. After an error, its status is the outcome."""
        if not verified:
            state = self._verify(ref, payment)
            if isinstance(state, NotFound | Declined) and (
                obstacle := self._void_others(ref, payment, state)
            ):
                return obstacle
            if not isinstance(state, NotFound):
                return state
        try:
            result = send_with_key(
                lambda key: self.gateway.transaction.submit_for_settlement(
                    ref, payment.money.decimal_text, key
                ),
                idempotency_key,
            )
        except REQUEST_ERRORS as error:
            return self._outcome_after_error(error, ref, payment)
        if result is None:
            return self._outcome_after_error(ValueError("garbled response"), ref, payment)
        if result.is_success:
            return after_send(outcome_from_transaction(result.transaction, payment))
        match self._read(ref, payment):
            case NotFound() if proves_nothing(result):
                return Ambiguous(f"submitting {ref}: {describe_rejection(result)}")
            case NotFound():
                reason = f"Braintree rejects the settlement of {ref}: {describe_rejection(result)}"
                return Anomalous(reason, ref)
            case LookupFailed():
                return Ambiguous(f"submitting {ref}: {describe_rejection(result)}")
            case outcome:
                return outcome

    def lookup(self, ref: str, payment: Payment) -> LookupOutcome:
        """Read the transaction, and search for another one of the same job."""
        outcome = self._read(ref, payment)
        if isinstance(outcome, LookupFailed | Pending):
            return outcome
        if isinstance(outcome, Anomalous) and not outcome.effect_done:
            return outcome
        try:
            others = self._others(ref, order_id_of(payment.deployment, payment.job_key))
            return _with_others(outcome, ref, self._not_closed(others))
        except REQUEST_ERRORS as error:
            return _search_failed(error)

    def find(self, payment: Payment) -> Prepared | LookupOutcome:
        """Find this job's transaction by its order id. Of several, return the furthest along."""
        try:
            found = self._search(order_id_of(payment.deployment, payment.job_key))
        except REQUEST_ERRORS as error:
            return _search_failed(error)
        if not found:
            return NotFound("Braintree's search shows no transaction of this job")
        return Prepared(min(found, key=_progress_rank).id)

    def close(self, ref: str, payment: Payment, *, verified: bool = False) -> EffectOutcome:
        """Void every authorization of the job. Only then can it never take money."""
        del verified  # read it in any case: a void would undo a transaction that was submitted
        state = self._verify(ref, payment)
        if not isinstance(state, NotFound | Declined):
            return state
        if obstacle := self._void_others(ref, payment, state):
            return obstacle
        if isinstance(state, Declined):
            return state
        try:
            result = self._void(ref, payment)
        except REQUEST_ERRORS as error:
            return not_sent_outcome(error) or self._close_outcome_after_error(error, ref, payment)
        if result is None or not result.is_success:
            rejected = ValueError("Braintree did not void it")
            return self._close_outcome_after_error(rejected, ref, payment)
        return after_send(outcome_from_transaction(result.transaction, payment))

    def lookup_closed(
        self, ref: str, *, job_key: JobKey, deployment: str | None = None
    ) -> LookupOutcome:
        try:
            transaction = self.gateway.transaction.find(ref)
            order_id = order_id_of(deployment, job_key)
            if getattr(transaction, "order_id", None) != order_id:
                return NotFound(f"{ref} is not this job's payment")
            outcome = self._closed_outcome(transaction)
            if not isinstance(outcome, Declined):
                return outcome
            others = self._not_closed(self._others(ref, order_id))
        except REQUEST_ERRORS as error:
            if is_unknown_id(error):
                return NotFound(f"Braintree has no transaction {ref}")
            return LookupFailed(f"reading {ref} failed: {describe_error(error)}")
        return _with_others(outcome, ref, others)

    def _not_closed(self, transactions: list[Transaction]) -> list[Transaction]:
        # A fully refunded payment does not count.
        return [one for one in transactions if not isinstance(self._closed_outcome(one), Declined)]

    def _closed_outcome(self, transaction: Transaction) -> ProviderState:
        if self._is_refunded(transaction):
            result: dict[str, Json] = {"charge_id": transaction.id}
            return Declined(f"{transaction.id} was refunded in full", "refunded", result)
        return closed_outcome(transaction)

    def _is_refunded(self, transaction: Transaction) -> bool:
        refunds = self._refunds(transaction)
        # A refund may be declined or voided, and then gave nothing back.
        given_back = sum((one.amount for one in refunds if has_settled(one)), start=Decimal(0))
        return bool(refunds) and given_back >= transaction.amount

    def _search(self, order_id: str) -> list[Transaction]:
        found = self.gateway.transaction.search(TransactionSearch.order_id == order_id)
        return [
            one
            for one in found.items
            if getattr(one, "order_id", None) == order_id
            and getattr(one, "type", None) == "sale"
            and not is_duplicate_rejection(one)
        ]

    def _others(self, ref: str, order_id: str) -> list[Transaction]:
        return [one for one in self._search(order_id) if one.id != ref]

    def _void_others(
        self, ref: str, payment: Payment, state: NotFound | Declined
    ) -> NotSent | Anomalous | None:
        """Void what an earlier run authorized but could not save.

        Returns why the job must not go on: one could not be voided, or has taken the money.
        """
        try:
            others = self._others(ref, order_id_of(payment.deployment, payment.job_key))
            if charged := self._not_closed([one for one in others if is_charged(one)]):
                return flag_duplicates(state, ref, charged)
            for one in filter(is_open, others):
                result = self._void(one.id, payment)
                if result is None or not result.is_success:
                    return NotSent(f"{one.id}, another authorization of this job, was not voided")
        except REQUEST_ERRORS as error:
            reason = f"voiding other authorizations of this job: {describe_error(error)}"
            return not_sent_outcome(error) or NotSent(reason)
        return None

    def _void(self, ref: str, payment: Payment) -> Any:  # noqa: ANN401  # the SDK has no types
        return void(self.gateway, ref, job_key=payment.job_key, deployment=payment.deployment)

    def _find(self, ref: str, payment: Payment) -> ProviderState | NotFound:
        transaction = self.gateway.transaction.find(ref)
        outcome = outcome_from_transaction(transaction, payment)
        if (
            isinstance(outcome, Anomalous)
            and outcome.effect_done
            and self._is_refunded(transaction)
        ):
            reason = f"{ref} was charged and refunded"
            return replace(outcome, reason=reason, effect_done=False, undone=True)
        return outcome

    def _verify(self, ref: str, payment: Payment) -> ProviderState | NotFound | NotSent:
        try:
            return self._find(ref, payment)
        except REQUEST_ERRORS as error:
            reason = f"reading {ref} before the next step: {describe_error(error)}"
            if is_unknown_id(error):
                return Anomalous(reason, ref)
            return not_sent_outcome(error) or NotSent(reason)

    def _read(self, ref: str, payment: Payment) -> ProviderState | NotFound | LookupFailed:
        try:
            return self._find(ref, payment)
        except REQUEST_ERRORS as error:
            reason = f"reading {ref} failed: {describe_error(error)}"
            return LookupFailed(reason, unknown_reference=is_unknown_id(error))

    def _outcome_after_error(
        self, error: BaseException, ref: str, payment: Payment
    ) -> EffectOutcome:
        unsent = not_sent_outcome(error)
        # A rejected API key does not prove that a request in flight was not performed.
        if unsent is not None and not rejects_api_key(error):
            return unsent
        match self._read(ref, payment):
            case NotFound() if unsent is not None:
                return unsent
            case NotFound() | LookupFailed():
                return Ambiguous(f"submitting {ref}: {describe_error(error)}")
            case outcome:
                return outcome

    def _close_outcome_after_error(
        self, error: BaseException, ref: str, payment: Payment
    ) -> EffectOutcome:
        match self._read(ref, payment):
            case NotFound() | LookupFailed():
                return Ambiguous(f"voiding {ref}: {describe_error(error)}")
            case outcome:
                return outcome


def _prepared_outcome(transaction: Transaction, payment: Payment) -> Prepared | EffectOutcome:
    if is_duplicate_rejection(transaction):
        return Ambiguous("Braintree rejects it as a duplicate, so another one of this job exists")
    outcome = outcome_from_transaction(transaction, payment)
    return Prepared(transaction.id) if isinstance(outcome, NotFound) else outcome


def _with_others(
    outcome: ProviderState | NotFound, ref: str, others: list[Transaction]
) -> ProviderState | NotFound:
    if charged := [one for one in others if is_charged(one)]:
        return flag_duplicates(outcome, ref, charged)
    held = [one for one in others if is_open(one)]
    if held and isinstance(outcome, Succeeded):
        # A lookup performs nothing: an operator voids it, or it expires.
        ids = ", ".join(str(one.id) for one in held)
        return replace(outcome, reason=f"{outcome.reason}; {ids} still holds money: void it")
    return flag_open(outcome, held) if held and isinstance(outcome, Declined) else outcome


def _progress_rank(transaction: Transaction) -> tuple[bool, bool]:
    # First one that takes money, then a declined or voided one, which ended the job.
    return not is_charged(transaction), is_open(transaction)


def _search_failed(error: BaseException) -> LookupFailed:
    return LookupFailed(f"searching for the job's transactions failed: {describe_error(error)}")
