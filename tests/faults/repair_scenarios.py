"""Repairs by an operator while a request of a worker may still arrive."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from oncely.domain.effect_outcomes import EffectOutcome
from oncely.domain.jobs import Job, new_job
from oncely.domain.keys import JobKey, fingerprint
from oncely.domain.lifecycle import Status
from oncely.domain.profiles import RetryLimits, RetrySafety
from oncely.domain.repairs import Repair
from oncely.jobs.payment_charge import PaymentCharge
from oncely.testing import ProviderSpec, Scenario
from oncely.testing.sandbox import SandboxOptions
from oncely.testing.scenario import PlannedRepair
from oncely.testing.tasks import START
from tests.faults.expectations import KEY, ORDER, charges_in
from tests.faults.providers import ARRIVAL, LateConfirmation, add_intent, stripe
from tests.faults.safety_classes import MESSAGE, EffectLog, contract_for_safety, safety_scenario

LEASE: Final = timedelta(seconds=60)  # of the worker
INVENTED: Final = "pi_invented"


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
    ended.providers["stripe"].arrive()
    return len(charges_in(ended))


FINISH_THEN_FAIL: Final = _plan(
    (0, Repair.MARK_FINISHED, INVENTED),
    (50, Repair.MARK_FINISHED, None),
    (64, Repair.MARK_FAILED, None),
    (200, Repair.MARK_FINISHED, None),
)
FAIL_AT_ONCE: Final = _plan((0, Repair.MARK_FAILED, None), (64, Repair.MARK_FINISHED, "ch_1"))


def repair_scenarios(charging: Callable[..., Scenario]) -> tuple[Scenario, ...]:
    """An operator marks a payment whose confirmation is in flight or lost, or any other effect."""
    late = stripe(LateConfirmation, seed=add_intent)
    reviewed = {"jobs": (CHARGE_REVIEW,), "count_effects": count_late}
    return (
        charging("repaired-late-confirm", late, repairs=FINISH_THEN_FAIL, **reviewed),
        charging("failed-late-confirm", late, repairs=FAIL_AT_ONCE, **reviewed),
        charging(
            "repaired-absent",
            stripe(),
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

    def providers(options: SandboxOptions) -> Any:  # noqa: ANN401  # as the base's
        (spec,) = base.providers(options).values()
        assert isinstance(spec, ProviderSpec)
        return {name: replace(spec, target=LateEffectLog(options))}

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
