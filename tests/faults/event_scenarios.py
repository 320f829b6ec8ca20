"""Provider events that are late, repeated, out of order, lost or forged break nothing."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

from oncely.core.effect_outcomes import Json
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.jobs.payment_charge import PaymentCharge
from oncely.providers.stripe.plugin import StripeSettings
from oncely.testing import FinalState
from oncely.testing.scenario import Scenario
from tests.faults.expectations import KEY, ORDER, charges_in
from tests.faults.providers import (
    DECLINED,
    PROCESSING,
    PROCESSING_TIME,
    DisputedStripe,
    NewStripe,
    ReturnedRefunds,
    stripe,
)
from tests.faults.refund_scenarios import (
    charged,
    check_returned,
    count_kept_or_recorded,
    refund_scenario,
    seed_unpaid_order,
)
from tests.support.stripe_events import SOURCE, envelope, stripe_event

CHARGE: Final[Mapping[str, Json]] = {"job": "payment.charge", "v": 1, **ORDER}
REFUND_KEY: Final = JobKey("payment.refund:order_18452:rma_1")
SETTINGS: Final = {"stripe": StripeSettings(event_source=SOURCE)}


def events(*types: str, object_id: str, job_key: str) -> tuple[str, ...]:
    """One event of each type. A type that is named twice is a duplicate."""
    return tuple(envelope(stripe_event(one, object_id, job_key=job_key)) for one in types)


CHARGE_EVENTS: Final = events(
    # True or forged: only the provider knows.
    "payment_intent.succeeded",
    "payment_intent.payment_failed",
    "payment_intent.payment_failed",
    object_id="pi_1",
    job_key=KEY,
)


def check_order(ended: FinalState) -> Iterator[str]:
    """A paid order stays paid, and an order is paid only by a charge."""
    row = ended.rows.get("orders", ORDER) or {}
    job = ended.job(KEY)
    charges = charges_in(ended)
    charged_once = len(charges) == 1
    if (row.get("status") == "paid") is not charged_once and (
        job is None or job.status is not Status.NEEDS_REVIEW
    ):
        yield f"the order is {row.get('status')}, and {charges} charged"


def charge_scenario(
    name: str,
    payments: NewStripe,
    **more: Any,  # noqa: ANN401  # fields of a scenario
) -> Scenario:
    return Scenario(
        name=f"payment.charge/{name}",
        contracts=(PaymentCharge,),
        message=CHARGE,
        providers=lambda options: {"stripe": payments(options), "ses": None},
        seed_rows=seed_unpaid_order,
        count_effects=lambda ended: len(charges_in(ended)),
        provider_settings=SETTINGS,
        **{"events": CHARGE_EVENTS, "check": check_order, **more},
    )


def check_dispute(ended: FinalState) -> Iterator[str]:
    """A dispute is recorded once, and changes no status and no order."""
    yield from check_order(ended)
    job = ended.job(KEY)
    notes = [] if job is None else [one for one in job.evidence if "dp_1" in one.reason]
    if sum(one.count for one in notes) > 1:
        yield f"the dispute was noted {sum(one.count for one in notes)} times"


def with_events(name: str, payments: NewStripe, **more: Any) -> Scenario:  # noqa: ANN401  # as above
    return refund_scenario(
        f"events-{name}",
        payments,
        events=2 * events("refund.failed", object_id="re_1", job_key=REFUND_KEY),
        provider_settings=SETTINGS,
        **more,
    )


def event_scenarios() -> Iterable[Scenario]:
    return (
        charge_scenario("events", stripe()),
        charge_scenario("events-slow", stripe(acts_as=PROCESSING, processing_time=PROCESSING_TIME)),
        charge_scenario("events-declined", stripe(acts_as=DECLINED)),
        charge_scenario(
            "events-dispute",
            stripe(DisputedStripe),
            events=2 * events("charge.dispute.created", object_id="dp_1", job_key=KEY),
            check=check_dispute,
            sweeps_at=(timedelta(minutes=20),),
        ),
        with_events("forged", charged()),
        with_events("slow", charged(refund_status="pending", processing_time=PROCESSING_TIME)),
        with_events(
            "returned",
            charged(ReturnedRefunds),
            count_effects=count_kept_or_recorded,
            check=check_returned,
            sweeps_at=(timedelta(minutes=20),),
        ),
    )
