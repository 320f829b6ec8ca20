"""A payment provider in memory. It passes the same conformance suite as Stripe."""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

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
from oncely.providers.interfaces import Payment
from oncely.testing.provider_fault import ProviderFault


@dataclass(frozen=True)
class FakeIntent:
    """A prepared payment."""

    ref: str
    payment: Payment
    status: str = "requires_confirmation"
    declined: bool = False  # kept after a cancel


@dataclass
class FakePayments:
    """Payments whose `charges` are the ledger that tests compare with."""

    honors_idempotency_keys: bool = True
    declines: bool = False
    processes: bool = False
    account: str = "test"
    intents: dict[str, FakeIntent] = field(default_factory=dict)
    charges: list[str] = field(default_factory=list)  # the intent of each
    calls: list[tuple[str, str]] = field(default_factory=list)  # step, key
    faults: dict[str, deque[ProviderFault]] = field(default_factory=dict)  # by step
    lock: threading.RLock = field(default_factory=threading.RLock)
    _by_key: dict[str, Prepared | EffectOutcome] = field(default_factory=dict)

    def fail_next(self, step: str, *faults: ProviderFault) -> None:
        self.faults.setdefault(step, deque()).extend(faults)

    def complete(self, ref: str, *, status: str) -> None:
        self._become(ref, status)

    def key_scope(self) -> str:
        return self.account

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
            return self._flag_duplicates(self._state(ref, payment), ref, payment)

    def find(self, payment: Payment) -> Prepared | EffectOutcome:
        with self.lock:
            self.calls.append(("find", payment.job_key))
            if self._fault("find"):
                return LookupFailed("timeout")
            ours = (payment.deployment, payment.job_key)
            made = [
                one
                for one in self.intents.values()
                if (one.payment.deployment, one.payment.job_key) == ours
            ]
            if not made:
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
                self._become(ref, "canceled")
                known = self._state(ref, payment)
            return Ambiguous("timeout on close") if fault is ProviderFault.TIMEOUT_AFTER else known

    def lookup_closed(
        self, ref: str, *, job_key: JobKey, deployment: str | None = None
    ) -> EffectOutcome:
        with self.lock:
            self.calls.append(("lookup_closed", ref))
            intent = self.intents[ref]
            if self._fault("lookup_closed"):
                return LookupFailed("timeout")
            if (intent.payment.deployment, intent.payment.job_key) != (deployment, job_key):
                return Declined(f"{ref} is not this job's payment", code="not_ours")
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
            for one in self.intents.values()
            if one.ref != ref
            and one.payment.job_key == payment.job_key
            and one.payment.deployment == payment.deployment
            and one.status in {"succeeded", "processing"}
        ]
        if not others or isinstance(answer, Anomalous | Pending):
            return answer
        return Anomalous(f"{answer.reason}; and {', '.join(others)} was made as well", ref)

    def _step(
        self,
        step: str,
        idempotency_key: IdempotencyKey,
        perform: Callable[[], Prepared | EffectOutcome],
    ) -> Prepared | EffectOutcome:
        self.calls.append((step, idempotency_key))
        fault = self._fault(step)
        if fault is ProviderFault.REFUSED_CONNECTION:
            return NotSent("connection refused")
        if fault is ProviderFault.UNAUTHORIZED:
            return NotSent("401: the API key is rejected", credentials_rejected=True)
        if fault is ProviderFault.DECLINED:
            return Declined("card_declined: generic_decline", code="card_declined")
        if fault is ProviderFault.TIMEOUT_BEFORE:
            return Ambiguous("timeout")
        if self.honors_idempotency_keys and idempotency_key in self._by_key:
            answer = self._by_key[idempotency_key]
            if isinstance(answer, Prepared):
                answer = replace(answer, replayed=True)
        else:
            answer = self._by_key[idempotency_key] = perform()
        return Ambiguous("timeout") if fault is ProviderFault.TIMEOUT_AFTER else answer

    def _fault(self, step: str) -> ProviderFault | None:
        waiting = self.faults.get(step)
        return waiting.popleft() if waiting else None

    def _create(self, payment: Payment) -> Prepared:
        ref = f"pi_{len(self.intents) + 1}"
        self.intents[ref] = FakeIntent(ref, payment)
        return Prepared(ref)

    def _confirm(self, ref: str) -> EffectOutcome:
        intent = self.intents[ref]
        if intent.status == "requires_confirmation":
            if self.declines:
                self._become(ref, "declined")
            elif self.processes:
                self._become(ref, "processing")
            else:
                self._become(ref, "succeeded")
        # Confirming a paid intent is an error; the intent's state is still the outcome.
        return self._state(ref, intent.payment)

    def _become(self, ref: str, status: str) -> None:
        was = self.intents[ref]
        declined = was.declined or status == "declined"
        self.intents[ref] = replace(was, status=status, declined=declined)
        if status == "succeeded":
            self.charges.append(ref)

    def _state(self, ref: str, payment: Payment) -> EffectOutcome:
        intent = self.intents[ref]
        if _belongs_to(intent.payment) != _belongs_to(payment):
            return Anomalous(f"{ref} is not this job's payment", ref)
        match intent.status:
            case "succeeded":
                result: dict[str, Json] = {
                    "charge_id": f"ch_{ref}",
                    "payment_intent": ref,
                    "amount": payment.money.amount,
                    "currency": payment.money.currency,
                }
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
            case _:
                return NotFound(f"{ref} was not confirmed, so nothing was charged")


def _belongs_to(payment: Payment) -> tuple[object, ...]:
    return (payment.deployment, payment.job_key, payment.customer, payment.money)
