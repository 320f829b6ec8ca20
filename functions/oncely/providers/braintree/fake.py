"""Braintree in memory: no idempotency keys, declines on authorization, and a search that lags."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from oncely.domain.effect_outcomes import Declined, EffectOutcome, NotFound, Prepared, StillOpen
from oncely.domain.keys import IdempotencyKey
from oncely.ports import Clock
from oncely.providers.fake_payments import FakeIntent, FakePayments
from oncely.providers.interfaces import Payment

_AUTHORIZED = "requires_confirmation"


@dataclass
class FakeBraintree(FakePayments):
    """Transactions whose `charges` are the ledger that tests compare with."""

    honors_idempotency_keys: bool = False
    wall: Clock | None = None
    lag: timedelta = timedelta(0)  # how late a search shows a transaction
    made_at: dict[str, datetime] = field(default_factory=dict)

    @property
    def held(self) -> list[str]:
        """Authorizations and charges. A second one for a job is a violation."""
        live = {_AUTHORIZED, "processing", "succeeded"}
        return [one.ref for one in self.intents.values() if one.status in live]

    def execute(
        self, ref: str, payment: Payment, *, idempotency_key: IdempotencyKey, verified: bool = False
    ) -> EffectOutcome:
        with self.lock:
            if not verified and isinstance(self._state(ref, payment), NotFound):
                self._void_others(ref, payment)
            return super().execute(ref, payment, idempotency_key=idempotency_key, verified=verified)

    def find(self, payment: Payment) -> Prepared | EffectOutcome:
        found = super().find(payment)
        return replace(found, conclusive=False) if isinstance(found, NotFound) else found

    def close(self, ref: str, payment: Payment, *, verified: bool = False) -> EffectOutcome:
        with self.lock:
            self._void_others(ref, payment)
            return super().close(ref, payment, verified=verified)

    def lookup(self, ref: str, payment: Payment) -> EffectOutcome:
        with self.lock:
            outcome = super().lookup(ref, payment)
            if isinstance(outcome, NotFound):
                return replace(outcome, conclusive=True)
            if isinstance(outcome, Declined) and self._authorized_others(ref, payment):
                return StillOpen(f"{outcome.reason}; another is authorized", outcome.code)
            return outcome

    def _create(self, payment: Payment) -> Prepared | EffectOutcome:  # type: ignore[override]  # it may decline here
        made = super()._create(payment)
        if self.wall is not None:
            self.made_at[made.ref] = self.wall.now()
        if not self.declines:
            return made
        self.complete(made.ref, status="declined")
        return self._state(made.ref, payment)

    def _state(self, ref: str, payment: Payment) -> EffectOutcome:
        known = super()._state(ref, payment)
        # A declined authorization can never be submitted.
        return Declined(known.reason, known.code) if isinstance(known, StillOpen) else known

    def _of_job(self, payment: Payment) -> list[FakeIntent]:
        made = super()._of_job(payment)
        if self.wall is None:
            return made
        shown = self.wall.now() - self.lag
        return [one for one in made if self.made_at[one.ref] <= shown]

    def _authorized_others(self, ref: str, payment: Payment) -> list[str]:
        made = self._of_job(payment)
        return [one.ref for one in made if one.ref != ref and one.status == _AUTHORIZED]

    def _void_others(self, ref: str, payment: Payment) -> None:
        for other in self._authorized_others(ref, payment):
            self.complete(other, status="canceled")
