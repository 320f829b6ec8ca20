"""Cancel at any time: it races a claim, a retry, and a confirmation in flight."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from oncely.core.job_row import JobRow
from oncely.core.lifecycle import Status
from oncely.core.repairs import Repair
from oncely.providers.stripe.sandbox.model import CONFIRMABLE
from oncely.testing import FinalState
from oncely.testing.scenario import PlannedRepair, Scenario
from oncely.testing.schedule import START
from tests.faults import expectations
from tests.faults.expectations import KEY
from tests.faults.providers import LateConfirmation, add_intent, stripe
from tests.faults.repair_scenarios import CHARGE_REVIEW, count_late


def cancels(*seconds: float) -> tuple[PlannedRepair, ...]:
    """An operator who retries."""
    return tuple(
        PlannedRepair(after=timedelta(seconds=after), repair=Repair.CANCEL) for after in seconds
    )


# Ready again after a lookup that found nothing; a confirmation may still arrive.
RETRIED: Final = replace(
    CHARGE_REVIEW,
    status=Status.READY,
    since=None,
    lease_until=None,
    due_at=START + timedelta(seconds=30),
)


def check_never_cancelled_and_charged(ended: FinalState) -> Iterator[str]:
    yield from expectations.check_order_matches_charges(ended)
    job, charges = ended.job(KEY), expectations.charges_in(ended)
    if job is not None and job.status.is_cancelled and charges:
        yield f"the job is cancelled, and the customer was charged {charges}"
    if job is not None and job.status.is_cancelled:
        open_ones = [
            one.intent_id
            for one in expectations.payments_in(ended).ledger.intents
            if one.intent_id == job.provider_ref and one.status in CONFIRMABLE
        ]
        if open_ones:
            yield f"the job is cancelled, and {open_ones} can still be confirmed"


def cancel_scenarios(charging: Callable[..., Scenario], enqueued: JobRow) -> tuple[Scenario, ...]:
    """`enqueued` is the row of a job that no worker has claimed."""
    payments = stripe(honors_idempotency_keys=False)

    checked: dict[str, Any] = {"check": check_never_cancelled_and_charged}
    late: dict[str, Any] = {**checked, "count_effects": count_late, "jobs": (RETRIED,)}
    return (
        # Before the first message, and while a worker runs.
        charging("cancelled-absent", payments, repairs=cancels(0), **checked),
        charging("cancelled-ready", payments, repairs=cancels(0), jobs=(enqueued,), **checked),
        # The first attempt sends nothing, or is lost; the operator comes between the retries.
        charging(
            "cancelled-between",
            payments,
            repairs=cancels(20, 90, 200, 1000),
            fixed_prefix="w1:stripe.execute!fail",
            **checked,
        ),
        charging(
            "cancelled-late-confirm",
            stripe(LateConfirmation, seed=add_intent),
            repairs=cancels(0, 64, 200),
            duplicate_messages=0,  # the row sends its message
            **late,
        ),
        charging("cancelled-later", payments, repairs=cancels(0, 900), **checked),
    )
