"""Payment providers and CRMs with the weaknesses that real ones have."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from oncely.domain.effect_outcomes import (
    Ambiguous,
    Anomalous,
    EffectOutcome,
    LookupFailed,
    NotFound,
    Prepared,
)
from oncely.domain.keys import IdempotencyKey, JobKey, idempotency_key
from oncely.domain.money import Money
from oncely.ports import Clock
from oncely.providers.fake_payments import FakeIntent, FakePayments
from oncely.providers.hubspot.fake import CrmFault, FakeCrm
from oncely.providers.interfaces import CrmPage, Payment
from tests.faults.expectations import KEY

PAGE_SIZE: Final = 2
LIMIT_DURATION: Final = timedelta(hours=2)
OUTAGE: Final = timedelta(hours=1)
TEN_MINUTES: Final = timedelta(minutes=10)


@dataclass
class ExpiringKeyPayments(FakePayments):
    wall: Clock | None = None
    window: timedelta = timedelta(minutes=30)
    first_used: dict[str, datetime] = field(default_factory=dict)

    def prepare(
        self, payment: Payment, *, idempotency_key: IdempotencyKey
    ) -> Prepared | EffectOutcome:
        self._expire_key(idempotency_key)
        return super().prepare(payment, idempotency_key=idempotency_key)

    def execute(
        self, ref: str, payment: Payment, *, idempotency_key: IdempotencyKey, verified: bool = False
    ) -> EffectOutcome:
        self._expire_key(idempotency_key)
        return super().execute(ref, payment, idempotency_key=idempotency_key, verified=verified)

    def _expire_key(self, key: str) -> None:
        assert self.wall is not None
        now = self.wall.now()
        if now - self.first_used.setdefault(key, now) >= self.window:
            self._by_key.pop(key, None)
            self.first_used[key] = now


@dataclass
class StaleReadPayments(FakePayments):
    wall: Clock | None = None
    lag: timedelta = timedelta(seconds=45)
    state_history: list[tuple[datetime, str, str]] = field(default_factory=list)

    def lookup(self, ref: str, payment: Payment) -> EffectOutcome:
        assert self.wall is not None
        shown = self.wall.now() - self.lag
        seen = [status for at, one, status in self.state_history if one == ref and at <= shown]
        if not seen:
            return NotFound(f"there is no {ref}, or not yet")
        now = self.intents[ref].status
        if seen[-1] == now:
            return super().lookup(ref, payment)
        return NotFound(f"{ref} was not confirmed, so nothing was charged")

    def _create(self, payment: Payment) -> Prepared:
        made = super()._create(payment)
        self._record_state(made.ref, "requires_confirmation")
        return made

    def complete(self, ref: str, *, status: str) -> None:
        super().complete(ref, status=status)
        self._record_state(ref, status)

    def _record_state(self, ref: str, status: str) -> None:
        assert self.wall is not None
        self.state_history.append((self.wall.now(), ref, status))


@dataclass
class SlowPayments(FakePayments):
    """A slow provider: an intent is processing first, and paid after ten minutes."""

    processes: bool = True
    wall: Clock | None = None
    confirmed: dict[str, datetime] = field(default_factory=dict)

    def lookup(self, ref: str, payment: Payment) -> EffectOutcome:
        self._decide()
        return super().lookup(ref, payment)

    def _confirm(self, ref: str) -> EffectOutcome:
        assert self.wall is not None
        self.confirmed.setdefault(ref, self.wall.now())
        self._decide()
        return super()._confirm(ref)

    def _decide(self) -> None:
        assert self.wall is not None
        for ref, at in self.confirmed.items():
            if self.intents[ref].status == "processing" and self.wall.now() - at >= TEN_MINUTES:
                self.complete(ref, status="succeeded")


@dataclass
class DeclineFirstPayments(FakePayments):
    def _confirm(self, ref: str) -> EffectOutcome:
        self.declines = not self.intents[ref].payment.job_key.endswith(":2")
        return super()._confirm(ref)


@dataclass
class DeclineFirstConfirmPayments(FakePayments):
    """Declines the first confirmation of a payment, and takes any later one.

    Such as a delayed confirmation, or a customer who authenticates late.
    """

    honors_idempotency_keys: bool = False
    tried: set[str] = field(default_factory=set)

    def _confirm(self, ref: str) -> EffectOutcome:
        self.declines = ref not in self.tried
        self.tried.add(ref)
        if self.intents[ref].status == "declined":
            self.complete(ref, status="requires_confirmation")
        return super()._confirm(ref)

    def late_confirmations_arrive(self) -> None:
        for intent in list(self.intents.values()):
            if intent.status == "declined":
                self.complete(intent.ref, status="succeeded")


@dataclass
class StrictPayments(FakePayments):
    used_for: dict[str, Payment] = field(default_factory=dict)

    def prepare(
        self, payment: Payment, *, idempotency_key: IdempotencyKey
    ) -> Prepared | EffectOutcome:
        if self.used_for.setdefault(idempotency_key, payment) != payment:
            return Anomalous(f"idempotency_error: {idempotency_key} was used for another payment")
        return super().prepare(payment, idempotency_key=idempotency_key)


@dataclass
class OutagePayments(ExpiringKeyPayments):
    """Charges, and then does not respond for an hour: an outage that begins with the response."""

    window: timedelta = timedelta(hours=24)
    down_since: datetime | None = None

    def prepare(
        self, payment: Payment, *, idempotency_key: IdempotencyKey
    ) -> Prepared | EffectOutcome:
        return (
            Ambiguous("timeout")
            if self._is_down()
            else super().prepare(payment, idempotency_key=idempotency_key)
        )

    def execute(
        self, ref: str, payment: Payment, *, idempotency_key: IdempotencyKey, verified: bool = False
    ) -> EffectOutcome:
        if self._is_down():
            return Ambiguous("timeout")
        answer = super().execute(ref, payment, idempotency_key=idempotency_key, verified=verified)
        if self.down_since is not None or self.wall is None:
            return answer
        self.down_since = self.wall.now()
        return Ambiguous("timeout")

    def lookup(self, ref: str, payment: Payment) -> EffectOutcome:
        return LookupFailed("timeout") if self._is_down() else super().lookup(ref, payment)

    def _is_down(self) -> bool:
        assert self.wall is not None
        return self.down_since is not None and self.wall.now() - self.down_since < OUTAGE


class SmallPages(FakeCrm):
    def _page(self, since: datetime | None, after: str | None) -> CrmPage:
        whole = super()._page(since, after)
        shown = whole.records[:PAGE_SIZE]
        more = len(whole.records) > PAGE_SIZE
        return CrmPage(shown, after=shown[-1].record_id if more else None)


@dataclass
class LimitedCrm(FakeCrm):
    """Its daily limit is used up, for longer than a job may age."""

    spent_since: datetime | None = None

    def _fault(self, step: str) -> CrmFault | None:
        now = self.clock.now()
        self.spent_since = self.spent_since or now
        self.daily_limit_exhausted = now - self.spent_since < LIMIT_DURATION
        return super()._fault(step)


def payments_charged_by_staging() -> FakePayments:
    payments = FakePayments()
    theirs = Payment(
        money=Money(1250, "eur"),
        customer="cus_7",
        method="pm_card_visa",
        job_key=KEY,
        order_id="18452",
        deployment="staging",
    )
    create, confirm = (
        idempotency_key(KEY, step, 1, deployment="staging") for step in ("create", "confirm")
    )
    made = payments.prepare(theirs, idempotency_key=create)
    assert isinstance(made, Prepared)
    payments.execute(made.ref, theirs, idempotency_key=confirm, verified=True)
    return payments


def payments_with_foreign_intent() -> FakePayments:
    """An unconfirmed payment of another customer, which must not pay our order."""
    theirs = Payment(
        money=Money(9900, "eur"),
        customer="cus_victim",
        method="pm_card_visa",
        job_key=JobKey("payment.charge:order_9"),
        order_id="9",
    )
    return FakePayments(intents={"pi_victim": FakeIntent("pi_victim", theirs)})
