"""Repairs by an operator while a request of a worker may still arrive."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from oncely.domain.effect_outcomes import EffectOutcome, Prepared
from oncely.domain.jobs import Job, new_job
from oncely.domain.keys import JobKey, fingerprint
from oncely.domain.lifecycle import Status
from oncely.domain.money import Money
from oncely.domain.profiles import RetryLimits, RetrySafety
from oncely.domain.repairs import Repair
from oncely.jobs.payment_charge import PaymentCharge
from oncely.ports import Clock
from oncely.providers.fake_payments import FakeIntent, FakePayments
from oncely.providers.interfaces import Payment
from oncely.testing import Scenario
from oncely.testing.scenario import PlannedRepair
from oncely.testing.tasks import START
from tests.faults.expectations import KEY, ORDER
from tests.faults.safety_classes import MESSAGE, EffectLog, contract_for_safety, safety_scenario

# When the worker's lease ends, and when its last request arrives, just before its timeout.
LEASE: Final = timedelta(seconds=60)
ARRIVAL: Final = timedelta(seconds=65)
INVENTED: Final = "pi_invented"


@dataclass
class LateConfirmPayments(FakePayments):
    """A confirmation is in flight, and arrives a minute later, unless the intent is closed."""

    wall: Clock | None = None

    def __post_init__(self) -> None:
        payment = Payment(
            money=Money(1250, "eur"),
            customer="cus_7",
            method="pm_card_visa",
            job_key=KEY,
            order_id="18452",
            deployment="dev",
        )
        self.intents["pi_1"] = FakeIntent("pi_1", payment)

    def lookup(self, ref: str, payment: Payment) -> EffectOutcome:
        self.arrive()
        return super().lookup(ref, payment)

    def lookup_closed(
        self, ref: str, *, job_key: JobKey, deployment: str | None = None
    ) -> EffectOutcome:
        self.arrive()
        return super().lookup_closed(ref, job_key=job_key, deployment=deployment)

    def find(self, payment: Payment) -> Prepared | EffectOutcome:
        self.arrive()
        return super().find(payment)

    def close(self, ref: str, payment: Payment, *, verified: bool = False) -> EffectOutcome:
        self.arrive()
        return super().close(ref, payment, verified=verified)

    def arrive(self) -> None:
        assert self.wall is not None
        waits = self.intents["pi_1"].status == "requires_confirmation"
        if waits and self.wall.now() >= START + ARRIVAL:
            self.complete("pi_1", status="succeeded")


@dataclass
class LateEffectLog(EffectLog):
    """A request is in flight, and arrives a minute later, whatever happens to its job."""

    def find(self, name: str) -> EffectOutcome:
        self.arrive()
        return super().find(name)

    def arrive(self) -> None:
        at = START + ARRIVAL
        if self.clock.now() >= at and not self.effects:
            self.effects.append((at, str(MESSAGE["name"])))


class ImpatientCharge(PaymentCharge):
    """Needs review soon after a lost response, instead of after a day."""

    policy = replace(PaymentCharge.policy, limits=RetryLimits(max_age=timedelta(seconds=30)))


def _review(key: JobKey, message: dict[str, Any], **changes: Any) -> Job:  # noqa: ANN401  # fields
    row = new_job(
        key,
        str(message["job"]),
        message,
        now=START,
        due_at=START,
        actor="producer",
        reason="enqueued",
    )
    claimed = {"owner": "w0.1", "fence": 1, "attempts": 1, "claimed_at": START}
    times = {"lease_until": START + LEASE, "due_at": START, "since": START}
    return replace(row, status=Status.NEEDS_REVIEW, **{**claimed, **times, **changes})


CHARGE_REVIEW: Final = _review(
    KEY,
    {"job": "payment.charge", "v": 1, **ORDER},
    provider_ref="pi_1",
    deployment="dev",
    amount=1250,
    currency="eur",
    fingerprint=fingerprint(
        {
            **ORDER,
            "customer_id": "customer_7",
            "amount": 1250,
            "currency": "eur",
            "attempt": 1,
            "payment_provider": "stripe",
        }
    ),
    provider="stripe",
)


def _plan(*repairs: tuple[int, Repair, str | None]) -> tuple[PlannedRepair, ...]:
    return tuple(
        PlannedRepair(after=timedelta(seconds=after), repair=repair, reference=reference)
        for after, repair, reference in repairs
    )


def count_late(ended: Any) -> int:  # noqa: ANN401  # the final state
    payments = ended.providers["stripe"]
    payments.arrive()
    return len(payments.charges)


FINISH_THEN_FAIL: Final = _plan(
    (0, Repair.MARK_FINISHED, INVENTED),
    (50, Repair.MARK_FINISHED, None),
    (64, Repair.MARK_FAILED, None),
    (200, Repair.MARK_FINISHED, None),
)
FAIL_AT_ONCE: Final = _plan((0, Repair.MARK_FAILED, None), (64, Repair.MARK_FINISHED, "ch_pi_1"))


def repair_scenarios(charging: Callable[..., Scenario]) -> tuple[Scenario, ...]:
    """An operator marks a payment whose confirmation is in flight or lost, or any other effect."""

    def late(clock: Clock) -> LateConfirmPayments:
        return LateConfirmPayments(wall=clock)

    reviewed = {"jobs": (CHARGE_REVIEW,), "count_effects": count_late}
    return (
        charging("repaired-late-confirm", late, repairs=FINISH_THEN_FAIL, **reviewed),
        charging("failed-late-confirm", late, repairs=FAIL_AT_ONCE, **reviewed),
        charging(
            "repaired-absent",
            lambda _: FakePayments(),
            ImpatientCharge,
            fixed_prefix="w1:stripe.execute!fail",
            repairs=_plan(
                (90, Repair.MARK_FINISHED, INVENTED),
                (120, Repair.MARK_FAILED, None),
                (150, Repair.MARK_FINISHED, None),
            ),
        ),
        _effect_scenario(),
    )


def _effect_scenario() -> Scenario:
    base = safety_scenario("repaired-late-effect", RetrySafety.LOOKUP, lag=timedelta(0))
    contract = contract_for_safety(RetrySafety.LOOKUP, lag=timedelta(0))
    key = JobKey("test.effect:seven")
    review = _review(key, dict(MESSAGE), fingerprint=fingerprint({"name": "seven"}))
    name = contract.resources.providers[0].name

    def providers(clock: Clock) -> Any:  # noqa: ANN401  # as the base's
        (spec,) = base.providers(clock).values()
        assert spec is not None
        return {name: replace(spec, target=LateEffectLog(clock))}

    def count(ended: Any) -> int:  # noqa: ANN401  # the final state
        outside = ended.providers[name]
        outside.arrive()
        return len(outside.effects)

    return replace(
        base,
        jobs=(replace(review, deployment="dev"),),
        providers=providers,
        count_effects=count,
        repairs=_plan(
            (0, Repair.MARK_FAILED, None),
            (62, Repair.MARK_FAILED, None),
            (64, Repair.MARK_FINISHED, "ref_seven"),
            (90, Repair.MARK_FAILED, None),
            (91, Repair.MARK_FINISHED, "ref_seven"),
        ),
    )
