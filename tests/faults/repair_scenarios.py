"""Repairs by an operator while a request of a worker may still arrive."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from oncely.core.job_row import JobRow, is_operator, new_job
from oncely.core.keys import JobKey, fingerprint
from oncely.core.lifecycle import Event, Status
from oncely.core.profiles import RetrySafety
from oncely.core.repairs import Repair
from oncely.jobs.payment_charge import PaymentCharge
from oncely.testing import FinalState
from oncely.testing.http_model import HttpEffect, HttpRequest
from oncely.testing.scenario import PlannedRepair, Scenario
from oncely.testing.schedule import START
from tests.faults import expectations
from tests.faults.expectations import KEY, ORDER, charges_in
from tests.faults.providers import ARRIVAL, LateConfirmation, add_intent, stripe
from tests.faults.safety_classes import MESSAGE, EffectModel, safety_scenario

LEASE: Final = timedelta(seconds=60)  # of the worker
INVENTED: Final = "pi_invented"


class LateEffect(EffectModel):
    """A request is in flight, and arrives a minute later, whatever happens to its job."""

    def deliver(self, now: datetime | None = None) -> None:
        super().deliver(now)
        at = START + ARRIVAL
        if self.options.now() >= at and not self.ledger.done:
            request = HttpRequest("POST", {("body", "name"): MESSAGE["name"]})
            effect = HttpEffect("ref_seven", at, "test.effect:seven", "", request)
            self.ledger.put(effect.reference, effect)


class OneAttemptCharge(PaymentCharge):
    """Needs review after its first lost request, instead of after eight."""

    max_attempts = 1


def _review(key: JobKey, message: dict[str, Any], **changes: Any) -> JobRow:  # noqa: ANN401  # fields
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


def _by(actor: str, repair: Repair, *, after: int = 70) -> PlannedRepair:
    return PlannedRepair(after=timedelta(seconds=after), repair=repair, actor=actor)


_DECIDES: Final = {Event.REOPEN: Repair.REOPEN, Event.CLOSE_AND_FAIL: Repair.MARK_FAILED}


def check_two_people_decided(ended: FinalState) -> Iterator[str]:
    """Each decision is what another person requested, and nothing is charged without one."""
    yield from expectations.check_order_matches_charges(ended)
    job = ended.job(KEY)
    request, decided = None, False
    for entry in job.evidence if job is not None else ():
        if entry.is_operator_note:
            request = entry
        elif is_operator(entry.actor):
            if request is None or request.actor.casefold() == entry.actor.casefold():
                yield f"{entry.actor} alone decided: {entry.event}"
            elif f"requested {_DECIDES[Event(entry.event)]}:" not in request.reason:
                yield f"{entry.actor} decided: {entry.event}, and {request.actor} {request.reason}"
            request, decided = None, True
    if charges_in(ended) and not decided:
        yield "the customer was charged, and no two people decided that"


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
            OneAttemptCharge,
            fixed_prefix="w1:stripe.execute!fail",
            repairs=_plan(
                (90, Repair.MARK_FINISHED, INVENTED),
                (120, Repair.MARK_FAILED, None),
                (150, Repair.MARK_FINISHED, None),
            ),
        ),
        _effect_scenario(),
        # Two operators see the same job, and decide differently at the same moment.
        charging(
            "failed-or-reopened",
            stripe(seed=add_intent, honors_idempotency_keys=False),
            jobs=(CHARGE_REVIEW,),
            repairs=(_by("ada", Repair.MARK_FAILED), _by("ben", Repair.REOPEN)),
        ),
        # All at the same moment. Ada is one person, however she writes her name.
        charging(
            "second-operator",
            stripe(seed=add_intent, honors_idempotency_keys=False),
            OneAttemptCharge,
            jobs=(CHARGE_REVIEW,),
            second_operator_above="eur:1000",
            check=check_two_people_decided,
            repairs=(
                _by("ada", Repair.REOPEN),
                _by("Ada", Repair.REOPEN),
                _by("ben", Repair.MARK_FAILED),
                _by("cy", Repair.REOPEN),
                _by("dee", Repair.REOPEN, after=300),
            ),
        ),
    )


def _effect_scenario() -> Scenario:
    base = safety_scenario(
        "repaired-late-effect", RetrySafety.LOOKUP, lag=timedelta(0), model=LateEffect
    )
    key = JobKey("test.effect:seven")
    review = _review(key, dict(MESSAGE), fingerprint=fingerprint({"name": "seven"}))
    return replace(
        base,
        jobs=(replace(review, deployment="dev"),),
        repairs=_plan(
            (0, Repair.MARK_FAILED, None),
            (62, Repair.MARK_FAILED, None),
            (64, Repair.MARK_FINISHED, "ref_seven"),
            (90, Repair.MARK_FAILED, None),
            (91, Repair.MARK_FINISHED, "ref_seven"),
        ),
    )
