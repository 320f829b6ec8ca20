"""Payment providers and CRMs with the weaknesses that real ones have."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from oncely.domain.answers import Absent, Answer, Odd, Prepared, Unclear, Unreachable
from oncely.domain.keys import ProviderKey
from oncely.ports import Clock
from oncely.providers import Page, Payment
from tests.support.crm import FakeCrm, Trouble
from tests.support.payments import FakePayments

PAGE: Final = 2


@dataclass
class ForgetfulPayments(FakePayments):
    """Remembers a key for a while only."""

    wall: Clock | None = None
    window: timedelta = timedelta(minutes=30)
    first_used: dict[str, datetime] = field(default_factory=dict)

    def prepare(self, payment: Payment, *, key: ProviderKey) -> Prepared | Answer:
        self._forget(key)
        return super().prepare(payment, key=key)

    def execute(
        self, ref: str, payment: Payment, *, key: ProviderKey, verified: bool = False
    ) -> Answer:
        self._forget(key)
        return super().execute(ref, payment, key=key, verified=verified)

    def _forget(self, key: str) -> None:
        assert self.wall is not None
        now = self.wall.now()
        if now - self.first_used.setdefault(key, now) >= self.window:
            self._by_key.pop(key, None)
            self.first_used[key] = now


@dataclass
class LaggingPayments(FakePayments):
    """Shows a payment as it was some seconds ago."""

    wall: Clock | None = None
    lag: timedelta = timedelta(seconds=45)
    past: list[tuple[datetime, str, str]] = field(default_factory=list)

    def look_up(self, ref: str, payment: Payment) -> Answer:
        assert self.wall is not None
        shown = self.wall.now() - self.lag
        seen = [status for at, one, status in self.past if one == ref and at <= shown]
        if not seen:
            return Absent(f"there is no {ref}, or not yet")
        now = self.intents[ref].status
        if seen[-1] == now:
            return super().look_up(ref, payment)
        return Absent(f"{ref} was not confirmed, so nothing was charged")

    def _create(self, payment: Payment) -> Prepared:
        made = super()._create(payment)
        self._remember(made.ref, "requires_confirmation")
        return made

    def _become(self, ref: str, status: str) -> None:
        super()._become(ref, status)
        self._remember(ref, status)

    def _remember(self, ref: str, status: str) -> None:
        assert self.wall is not None
        self.past.append((self.wall.now(), ref, status))


@dataclass
class SlowPayments(FakePayments):
    """Takes its time to decide: an intent is processing first, and paid after ten minutes."""

    processes: bool = True
    wall: Clock | None = None
    confirmed: dict[str, datetime] = field(default_factory=dict)

    def look_up(self, ref: str, payment: Payment) -> Answer:
        self._decide()
        return super().look_up(ref, payment)

    def _confirm(self, ref: str) -> Answer:
        assert self.wall is not None
        self.confirmed.setdefault(ref, self.wall.now())
        self._decide()
        return super()._confirm(ref)

    def _decide(self) -> None:
        assert self.wall is not None
        for ref, at in self.confirmed.items():
            if self.intents[ref].status == "processing" and self.wall.now() - at >= TEN_MINUTES:
                self.settle(ref, status="succeeded")


TEN_MINUTES: Final = timedelta(minutes=10)


@dataclass
class PickyPayments(FakePayments):
    """Declines the first business attempt, and takes the second."""

    def _confirm(self, ref: str) -> Answer:
        self.declines = not self.intents[ref].payment.job_key.endswith(":2")
        return super()._confirm(ref)


@dataclass
class FicklePayments(FakePayments):
    """Declines the first confirmation of a payment, and takes any later one.

    Such as one that was under way for long, or a customer who authenticates after all.
    """

    honours_keys: bool = False
    tried: set[str] = field(default_factory=set)

    def _confirm(self, ref: str) -> Answer:
        self.declines = ref not in self.tried
        self.tried.add(ref)
        if self.intents[ref].status == "declined":
            self._become(ref, "requires_confirmation")
        return super()._confirm(ref)

    def late_confirmations_arrive(self) -> None:
        """Whatever was declined and is still open is paid in the end."""
        for intent in list(self.intents.values()):
            if intent.status == "declined":
                self._become(intent.ref, "succeeded")


@dataclass
class StrictPayments(FakePayments):
    """Takes a key again for the same payment only, as Stripe does."""

    used_for: dict[str, Payment] = field(default_factory=dict)

    def prepare(self, payment: Payment, *, key: ProviderKey) -> Prepared | Answer:
        if self.used_for.setdefault(key, payment) != payment:
            return Odd(f"idempotency_error: {key} was used for another payment")
        return super().prepare(payment, key=key)


@dataclass
class DroppingPayments(ForgetfulPayments):
    """Charges, and then says nothing for an hour: an outage that begins with the answer."""

    window: timedelta = timedelta(hours=24)
    down_since: datetime | None = None

    def prepare(self, payment: Payment, *, key: ProviderKey) -> Prepared | Answer:
        return Unclear("timeout") if self._is_down() else super().prepare(payment, key=key)

    def execute(
        self, ref: str, payment: Payment, *, key: ProviderKey, verified: bool = False
    ) -> Answer:
        if self._is_down():
            return Unclear("timeout")
        answer = super().execute(ref, payment, key=key, verified=verified)
        if self.down_since is not None or self.wall is None:
            return answer
        self.down_since = self.wall.now()
        return Unclear("timeout")

    def look_up(self, ref: str, payment: Payment) -> Answer:
        return Unreachable("timeout") if self._is_down() else super().look_up(ref, payment)

    def _is_down(self) -> bool:
        assert self.wall is not None
        return self.down_since is not None and self.wall.now() - self.down_since < OUTAGE


OUTAGE: Final = timedelta(hours=1)


class SmallPages(FakeCrm):
    """Lists two contacts at a time."""

    def _page(self, *, since: datetime | None, after: str | None) -> Page:
        whole = super()._page(since=since, after=after)
        shown = whole.records[:PAGE]
        more = len(whole.records) > PAGE
        return Page(shown, after=shown[-1].record_id if more else None)


@dataclass
class LimitedCrm(FakeCrm):
    """Has used up its requests of the day: for longer than a job may age."""

    spent_since: datetime | None = None

    def _fault(self, step: str) -> Trouble | None:
        now = self.clock.now()
        self.spent_since = self.spent_since or now
        self.daily_limit_is_spent = now - self.spent_since < LIMITED
        return super()._fault(step)


LIMITED: Final = timedelta(hours=2)
