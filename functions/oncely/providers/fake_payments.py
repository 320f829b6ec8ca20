"""A payment provider in memory, for tests. It passes the same conformance suite as the adapters."""

import re
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeAlias

from oncely.domain.effect_outcomes import (
    Ambiguous,
    Anomalous,
    Declined,
    EffectOutcome,
    Json,
    LookupFailed,
    NotFound,
    NotSent,
    Pending,
    Prepared,
    StillOpen,
    Succeeded,
)
from oncely.domain.keys import IdempotencyKey, JobKey
from oncely.domain.ledger import EntryKind, LedgerEntry, LedgerPage, PaymentOwner
from oncely.providers.fake_refunds import START, FakeRefunds
from oncely.providers.interfaces import Payment
from oncely.testing.provider_fault import ProviderFault

_Perform: TypeAlias = Callable[[], Prepared | EffectOutcome]
_LateRequest: TypeAlias = tuple[datetime, IdempotencyKey, _Perform]


@dataclass(frozen=True)
class FakeIntent:
    """A prepared payment."""

    ref: str
    payment: Payment
    status: str = "requires_confirmation"
    declined: bool = False  # kept after a cancel
    changed_at: datetime = START


@dataclass
class FakePayments(FakeRefunds):
    """Payments whose `charges` are the ledger that tests compare with."""

    honors_idempotency_keys: bool = True
    declines: bool = False
    processes: bool = False
    account: str = "test"
    intents: dict[str, FakeIntent] = field(default_factory=dict)
    charges: list[str] = field(default_factory=list)  # the intent of each
    calls: list[tuple[str, str]] = field(default_factory=list)  # step, key
    faults: dict[str, deque[ProviderFault]] = field(default_factory=dict)  # by step
    emails: dict[str, str] = field(default_factory=dict)  # of customers
    unlisted: set[str] = field(default_factory=set)  # intents that a list does not show yet
    lock: threading.RLock = field(default_factory=threading.RLock)
    _by_key: dict[str, Prepared | EffectOutcome] = field(default_factory=dict)
    _late: list[_LateRequest] = field(default_factory=list)

    def fail_next(self, step: str, *faults: ProviderFault) -> None:
        self.faults.setdefault(step, deque()).extend(faults)

    @property
    def ledger(self) -> "FakePaymentLedger":
        return FakePaymentLedger(self)

    def key_scope(self) -> str:
        return self.account

    def responds(self) -> bool:
        return True

    def prepare(
        self, payment: Payment, *, idempotency_key: IdempotencyKey
    ) -> Prepared | EffectOutcome:
        with self.lock:
            return self._step("prepare", idempotency_key, lambda: self._create(payment))

    def execute(
        self, ref: str, payment: Payment, *, idempotency_key: IdempotencyKey, verified: bool = False
    ) -> EffectOutcome:
        with self.lock:
            if not verified:
                self.calls.append(("verify", ref))
                known = self._state(ref, payment)
                if not isinstance(known, NotFound):
                    return known
            answer = self._step("execute", idempotency_key, lambda: self._confirm(ref))
            if isinstance(answer, Prepared):
                return Ambiguous("garbled")
            # A replayed decline is an error, so the intent's state is the outcome.
            return self._state(ref, payment) if isinstance(answer, StillOpen) else answer

    def lookup(self, ref: str, payment: Payment) -> EffectOutcome:
        with self.lock:
            self.calls.append(("lookup", ref))
            if self._fault("lookup"):
                return LookupFailed("timeout")
            if ref not in self.intents:
                return LookupFailed(f"there is no {ref}", unknown_reference=True)
            return self._flag_duplicates(self._state(ref, payment), ref, payment)

    def find(self, payment: Payment) -> Prepared | EffectOutcome:
        with self.lock:
            self.calls.append(("find", payment.job_key))
            if self._fault("find"):
                return LookupFailed("timeout")
            if not (made := self._of_job(payment)):
                return NotFound("the customer has no payment of this job", conclusive=True)
            far = {"succeeded": 0, "processing": 0, "requires_confirmation": 2}
            return Prepared(min(made, key=lambda one: far.get(one.status, 1)).ref)

    def close(self, ref: str, payment: Payment, *, verified: bool = False) -> EffectOutcome:
        del verified
        with self.lock:
            self.calls.append(("close", ref))
            fault = self._fault("close")
            if fault is ProviderFault.REFUSED_CONNECTION:
                return NotSent("connection refused")
            if fault is ProviderFault.TIMEOUT_BEFORE:
                return Ambiguous("timeout on close")
            known = self._state(ref, payment)
            if isinstance(known, StillOpen | NotFound):
                self.complete(ref, status="canceled")
                known = self._state(ref, payment)
            return Ambiguous("timeout on close") if fault is ProviderFault.TIMEOUT_AFTER else known

    def lookup_closed(
        self, ref: str, *, job_key: JobKey, deployment: str | None = None
    ) -> EffectOutcome:
        with self.lock:
            self.calls.append(("lookup_closed", ref))
            if self._fault("lookup_closed"):
                return LookupFailed("timeout")
            intent = self.intents.get(ref)
            if intent is None:
                return NotFound(f"there is no payment {ref}")
            if (intent.payment.deployment, intent.payment.job_key) != (deployment, job_key):
                return NotFound(f"{ref} is not this job's payment")
            match intent.status:
                case "refunded":
                    answer: EffectOutcome = Declined(f"{ref} was refunded in full", code="refunded")
                case "requires_confirmation":
                    answer = StillOpen(f"{ref} was not confirmed", "requires_confirmation")
                case _:
                    answer = self._state(ref, intent.payment)
            closed = isinstance(answer, Declined)
            return self._flag_duplicates(answer, ref, intent.payment) if closed else answer

    def _flag_duplicates(self, answer: EffectOutcome, ref: str, payment: Payment) -> EffectOutcome:
        others = [
            one.ref
            for one in self._of_job(payment)
            if one.ref != ref and one.status in {"succeeded", "processing", "disputed"}
        ]
        if not others or isinstance(answer, Pending):
            return answer
        if isinstance(answer, Anomalous) and not answer.effect_done:
            return answer
        return Anomalous(f"{answer.reason}; and {', '.join(others)} was made as well", ref)

    def _of_job(self, payment: Payment) -> list[FakeIntent]:
        ours = (payment.deployment, payment.job_key)
        made = self.intents.values()
        return [one for one in made if (one.payment.deployment, one.payment.job_key) == ours]

    def _step(
        self, step: str, idempotency_key: IdempotencyKey, perform: _Perform
    ) -> Prepared | EffectOutcome:
        self.calls.append((step, idempotency_key))
        self.deliver_late()
        fault = self._fault(step)
        match fault:
            case ProviderFault.REFUSED_CONNECTION:
                return NotSent("connection refused")
            case ProviderFault.UNAUTHORIZED:
                return NotSent("401: the API key is rejected", credentials_rejected=True)
            case ProviderFault.DECLINED:
                return Declined("card_declined: generic_decline", code="card_declined")
            case ProviderFault.TIMEOUT_BEFORE:
                return Ambiguous("timeout")
            case ProviderFault.SERVER_ERROR_UNSTORED:
                return Ambiguous("HTTP 500")
            case ProviderFault.ARRIVES_LATE:
                self._late.append((self.now() + self.late_by, idempotency_key, perform))
                return Ambiguous("timeout")
            case _:
                answer = self._perform_once(idempotency_key, perform, fault)
        return Ambiguous("timeout") if fault is ProviderFault.TIMEOUT_AFTER else answer

    def _perform_once(
        self, key: IdempotencyKey, perform: _Perform, fault: ProviderFault | None = None
    ) -> Prepared | EffectOutcome:
        if self.honors_idempotency_keys and key in self._by_key:
            stored = self._by_key[key]
            if isinstance(stored, Prepared | Ambiguous):
                return replace(stored, replayed=True)
            return stored
        server_error = Ambiguous("HTTP 500")
        answer = server_error if fault is ProviderFault.SERVER_ERROR else perform()
        if fault is ProviderFault.SERVER_ERROR_AFTER:
            answer = server_error
        self._by_key[key] = answer
        return answer

    def deliver_late(self, *, all_of_them: bool = False) -> None:
        """Perform the delayed requests whose time has come, or all of them."""
        due = [one for one in self._late if all_of_them or one[0] <= self.now()]
        for one in due:
            self._late.remove(one)
            self._perform_once(one[1], one[2])

    def _fault(self, step: str) -> ProviderFault | None:
        waiting = self.faults.get(step)
        return waiting.popleft() if waiting else None

    def _charged(self, charge_id: str) -> Payment | None:
        intent = self.intents.get(charge_id.removeprefix("ch_"))
        return intent.payment if intent and intent.status == "succeeded" else None

    def _create(self, payment: Payment) -> Prepared:
        ref = f"pi_{len(self.intents) + 1}"
        self.intents[ref] = FakeIntent(ref, payment)
        return Prepared(ref)

    def _confirm(self, ref: str) -> EffectOutcome:
        intent = self.intents[ref]
        if intent.status == "requires_confirmation":
            processed = "processing" if self.processes else "succeeded"
            self.complete(ref, status="declined" if self.declines else processed)
        # Confirming a paid intent is an error; the intent's state is still the outcome.
        return self._state(ref, intent.payment)

    def complete(self, ref: str, *, status: str) -> None:
        declined = self.intents[ref].declined or status == "declined"
        changes = {"status": status, "declined": declined, "changed_at": self.now()}
        self.intents[ref] = replace(self.intents[ref], **changes)  # type: ignore[arg-type]  # by name
        if status == "succeeded":
            self.charges.append(ref)

    def _state(self, ref: str, payment: Payment) -> EffectOutcome:
        intent = self.intents.get(ref)
        if intent is None:
            return Anomalous(f"there is no payment {ref}", ref)
        if _belongs_to(intent.payment) != _belongs_to(payment):
            return Anomalous(f"{ref} is not this job's payment", ref)
        result: dict[str, Json] = {
            "charge_id": f"ch_{ref}",
            "payment_intent": ref,
            "amount": payment.money.amount,
            "currency": payment.money.currency,
        }
        match intent.status:
            case "succeeded":
                return Succeeded(f"charged {payment.money} as ch_{ref}", ref, result)
            case "processing":
                return Pending(f"{ref} is processing")
            case "declined":
                return StillOpen("card_declined: generic_decline", code="card_declined")
            case "canceled" if intent.declined:
                return Declined("card_declined: generic_decline", code="card_declined")
            case "canceled":
                return Declined("canceled", code="canceled")
            case "refunded":
                return Anomalous(f"{ref} was charged and refunded", ref)
            case "disputed":
                reason = f"ch_{ref} was charged and is disputed"
                return Anomalous(reason, ref, result, effect_done=True)
            case _:
                return NotFound(f"{ref} was not confirmed, so nothing was charged")


def _belongs_to(payment: Payment) -> tuple[object, ...]:
    return (payment.deployment, payment.job_key, payment.customer, payment.money)


# The states of intents that make up each kind of entry.
_LISTED = {
    EntryKind.CHARGE: {"succeeded", "refunded", "disputed"},
    EntryKind.REFUND: {"refunded"},
    EntryKind.DISPUTE: {"disputed"},
}
_PREFIXES = {EntryKind.CHARGE: "ch", EntryKind.REFUND: "re", EntryKind.DISPUTE: "dp"}


@dataclass
class FakePaymentLedger:
    """The fake's list of payments, in pages of two."""

    payments: FakePayments
    page_size: int = 2

    def list_entries(
        self, kind: EntryKind, *, since: datetime, until: datetime, after: str | None
    ) -> LedgerPage | LookupFailed:
        self.payments.calls.append((f"list_{kind}", after or ""))
        if self.payments._fault("list"):  # noqa: SLF001  # its own ledger
            return LookupFailed("timeout")
        start = int(after or 0)
        end = start + self.page_size
        shown = (one for one in self._entries(kind) if one.ref not in self.payments.unlisted)
        found = [one for one in shown if since <= one.at < until]
        return LedgerPage(
            entries=tuple(found[start:end]),
            after=str(end) if end < len(found) else None,
            reached=until,
        )

    def find_charge(self, ref: str) -> LedgerEntry | LookupFailed | None:
        self.payments.calls.append(("find_charge", ref))
        if self.payments._fault("list"):  # noqa: SLF001  # its own ledger
            return LookupFailed("timeout")
        found = (one for one in self._entries(EntryKind.CHARGE) if one.ref == ref)
        return next(found, None)

    def find_refund(self, ref: str) -> LedgerEntry | LookupFailed | None:
        self.payments.calls.append(("find_refund", ref))
        found = (one for one in self._entries(EntryKind.REFUND) if one.entry_id == ref)
        return next(found, None)

    def find_owners(self, text: str) -> tuple[PaymentOwner, ...] | LookupFailed | None:
        if not re.fullmatch(r"(pi|ch|re|dp|cus)_\w+|\S+@\S+", text):
            return None
        if self.payments._fault("list"):  # noqa: SLF001  # its own ledger
            return LookupFailed("timeout")
        emails = self.payments.emails
        return tuple(
            PaymentOwner(
                deployment=one.payment.deployment, job_label=one.payment.job_key, ref=one.ref
            )
            for one in self.payments.intents.values()
            if text
            in {one.ref, f"ch_{one.ref}", f"re_{one.ref}", f"dp_{one.ref}", one.payment.customer}
            or emails.get(one.payment.customer) == text
        )

    def job_label(self, job_key: str) -> str:
        return job_key

    def _entries(self, kind: EntryKind) -> Iterator[LedgerEntry]:
        for made in self.payments.refunds.values() if kind is EntryKind.REFUND else ():
            if made.status == "succeeded":
                yield LedgerEntry(
                    kind=kind,
                    entry_id=made.ref,
                    ref=made.refund.charge_id.removeprefix("ch_"),
                    money=made.refund.money,
                    at=self.payments.now(),
                    deployment=made.refund.deployment,
                    job_label=made.refund.job_key,
                )
        for one in self.payments.intents.values():
            if one.status in _LISTED[kind]:
                yield LedgerEntry(
                    kind=kind,
                    entry_id=f"{_PREFIXES[kind]}_{one.ref}",
                    ref=one.ref,
                    money=one.payment.money,
                    at=one.changed_at,
                    deployment=one.payment.deployment,
                    job_label=one.payment.job_key,
                )
