"""Refunds in memory, for tests. Part of `FakePayments`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

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
    Succeeded,
)
from oncely.domain.keys import IdempotencyKey
from oncely.domain.provider_events import ChangeKind, EffectChange
from oncely.providers.interfaces import ChargeState, Payment, Refund, absent_refund
from oncely.testing.provider_fault import ProviderFault

START: Final = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class FakeRefund:
    """A refund at the provider."""

    ref: str
    refund: Refund
    status: str = "succeeded"
    made_at: datetime = START


@dataclass(kw_only=True)
class FakeRefunds(ABC):
    """Refunds whose `refunds` are the ledger that tests compare with."""

    refunds_pend: bool = False
    disputed: bool = False
    respond_by: datetime | None = None  # the deadline of disputes
    refunds: dict[str, FakeRefund] = field(default_factory=dict)  # by reference
    now: Callable[[], datetime] = lambda: START
    # Stripe refuses more than was captured. Without that, only Oncely's own rules limit refunds.
    limits_refunds: bool = True
    # How late a new refund appears in the list, and in the charge's own sum.
    list_lag: timedelta = timedelta(0)
    charge_lag: timedelta = timedelta(0)
    late_by: timedelta = timedelta(minutes=10)  # of a request that arrives late

    @abstractmethod
    def _charged(self, charge_id: str) -> Payment | None:
        """Return the payment of a charge. Returns None if there is no such charge."""

    @abstractmethod
    def _fault(self, step: str) -> ProviderFault | None:
        """Return the fault of this call, if it has one."""

    @abstractmethod
    def _step(self, step: str, idempotency_key: IdempotencyKey, perform: Callable[[], Any]) -> Any:  # noqa: ANN401  # the outcome of `perform`
        """Perform a step once for each key."""

    @abstractmethod
    def deliver_late(self) -> None:
        """Perform the delayed requests whose time has come."""

    def refunded(self, charge_id: str) -> int:
        """Return how much of a charge was refunded or is being refunded."""
        return _total(self._made(charge_id))

    def complete_refund(self, ref: str, *, status: str) -> None:
        self.refunds[ref] = replace(self.refunds[ref], status=status)

    def read_charge(self, charge_id: str) -> ChargeState | NotFound | NotSent:
        self.deliver_late()
        if self._fault("read_charge"):
            return NotSent("timeout")
        return self._charge_state(charge_id)

    def read_change(self, object_id: str) -> EffectChange | NotFound | LookupFailed:
        """`dp_1` is a dispute of `ch_1`, whose intent is `1`."""
        if self._fault("read_change"):
            return LookupFailed("timeout")
        prefix, _, ref = object_id.partition("_")
        charge_id = f"ch_{ref}"
        payment = self._charged(charge_id)
        is_dispute = prefix == "dp"
        refunded = self.refunded(charge_id)
        if payment is None or not (self.disputed if is_dispute else refunded):
            return NotFound(f"there is no {object_id}")
        made = [one.refund for one in self.refunds.values() if one.refund.charge_id == charge_id]
        amount = payment.money.amount if is_dispute else refunded
        return EffectChange(
            kind=ChangeKind.DISPUTED if is_dispute else ChangeKind.REFUNDED,
            deployment=payment.deployment,
            job_key=payment.job_key,
            ref=ref,
            summary=f"{object_id} over {amount} {payment.money.currency}",
            by_us=not is_dispute and all(one.deployment == payment.deployment for one in made),
            respond_by=self.respond_by if is_dispute else None,
            details={"charge_id": charge_id, "amount": amount},
        )

    def refund(self, refund: Refund, *, idempotency_key: IdempotencyKey) -> EffectOutcome:
        answer: EffectOutcome = self._step("refund", idempotency_key, lambda: self._give(refund))
        if isinstance(answer, NotSent | Ambiguous):
            return answer
        # A replayed response is old, and a decline may be about our own refund.
        match self._listed_outcome(refund):
            case LookupFailed(reason=reason) if isinstance(answer, Declined):
                return Ambiguous(reason)
            case NotFound() | LookupFailed():
                return answer
            case known:
                return known

    def lookup_refund(self, refund: Refund) -> EffectOutcome:
        self.deliver_late()
        if self._fault("lookup_refund"):
            return LookupFailed("timeout")
        return self._listed_outcome(refund)

    def _give(self, refund: Refund) -> EffectOutcome:
        payment = self._charged(refund.charge_id)
        left = payment.money.amount - self.refunded(refund.charge_id) if payment else 0
        if payment is None or (self.limits_refunds and refund.money.amount > left):
            return Declined("already refunded", code="charge_already_refunded")
        ref = f"re_{len(self.refunds) + 1}"
        status = "pending" if self.refunds_pend else "succeeded"
        self.refunds[ref] = FakeRefund(ref, refund, status, self.now())
        return _outcome(self.refunds[ref])

    def _charge_state(self, charge_id: str) -> ChargeState | NotFound:
        payment = self._charged(charge_id)
        if payment is None:
            return NotFound(f"there is no charge {charge_id}")
        return ChargeState(
            captured=payment.money,
            refunded=_total(self._made(charge_id, lag=self.charge_lag)),
            disputed=self.disputed,
            order_id=payment.order_id,
            deployment=payment.deployment,
        )

    def _made(self, charge_id: str, lag: timedelta = timedelta(0)) -> list[FakeRefund]:
        shown = self.now() - lag
        made = self.refunds.values()
        return [one for one in made if one.refund.charge_id == charge_id and one.made_at <= shown]

    def _listed_outcome(self, refund: Refund) -> EffectOutcome:
        owner = (refund.deployment, refund.job_key)
        listed = self._made(refund.charge_id, lag=self.list_lag)
        match [one for one in listed if (one.refund.deployment, one.refund.job_key) == owner]:
            case []:
                charge = self._charge_state(refund.charge_id)
                return absent_refund(refund, charge, listed=_total(listed))
            case [one]:
                return _outcome(one)
            case several:
                return Anomalous(f"{refund.charge_id} has {len(several)} refunds of this job")


def _total(refunds: Iterable[FakeRefund]) -> int:
    return sum(one.refund.money.amount for one in refunds if one.status != "failed")


def _outcome(one: FakeRefund) -> EffectOutcome:
    result: dict[str, Json] = {"refund": one.ref, "charge_id": one.refund.charge_id}
    match one.status:
        case "pending":
            return Pending(f"{one.ref} is pending")
        case "failed":
            return Declined(f"{one.ref} failed", code="failed", result=result)
        case _:
            return Succeeded(f"refunded {one.refund.money} as {one.ref}", one.ref, result)
