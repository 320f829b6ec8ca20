"""Provider events that are late, repeated, out of order, lost or forged break nothing."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

from oncely.domain.effect_outcomes import Json
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Status
from oncely.jobs.payment_charge import PaymentCharge
from oncely.ports import Clock
from oncely.providers.fake_payments import FakePayments
from oncely.providers.stripe.plugin import StripeSettings
from oncely.testing import FinalState, ProviderSpec, Scenario, effect_calls, lookup_calls
from oncely.testing.provider_fault import ProviderFault
from tests.faults.expectations import KEY, ORDER
from tests.faults.providers import SlowPayments
from tests.faults.refund_scenarios import (
    ReturnedRefunds,
    SlowRefunds,
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
    row = ended.store.business_rows.get("orders", ORDER) or {}
    job = ended.job(KEY)
    charged_once = len(ended.providers["stripe"].charges) == 1
    if (row.get("status") == "paid") is not charged_once and (
        job is None or job.status is not Status.NEEDS_REVIEW
    ):
        yield f"the order is {row.get('status')}, and {ended.providers['stripe'].charges} charged"


def charge_scenario(
    name: str,
    payments: Any,  # noqa: ANN401  # made from a clock
    **more: Any,  # noqa: ANN401  # fields of a scenario
) -> Scenario:
    def providers(clock: Clock) -> Mapping[str, ProviderSpec | None]:
        return {
            "stripe": ProviderSpec(
                target=payments(clock),
                effect_calls=effect_calls("prepare", "execute", "close"),
                lookup_calls=lookup_calls("lookup", "find", "lookup_closed", "read_change"),
            ),
            "ses": None,
        }

    return Scenario(
        name=f"payment.charge/{name}",
        contracts=(PaymentCharge,),
        message=CHARGE,
        providers=providers,
        seed_rows=seed_unpaid_order,
        count_effects=lambda ended: len(ended.providers["stripe"].charges),
        provider_settings=SETTINGS,
        **{"events": CHARGE_EVENTS, "check": check_order, **more},
    )


def lost_answer(_: Clock) -> FakePayments:
    payments = FakePayments()
    payments.fail_next("execute", ProviderFault.TIMEOUT_AFTER)
    return payments


def disputed(_: Clock) -> FakePayments:
    return FakePayments(disputed=True)


def check_dispute(ended: FinalState) -> Iterator[str]:
    """A dispute is recorded once, and changes no status and no order."""
    yield from check_order(ended)
    job = ended.job(KEY)
    notes = [] if job is None else [one for one in job.evidence if "dp_pi_1" in one.reason]
    if sum(one.count for one in notes) > 1:
        yield f"the dispute was noted {sum(one.count for one in notes)} times"


def with_events(name: str, payments: Any, **more: Any) -> Scenario:  # noqa: ANN401  # as above
    return refund_scenario(
        f"events-{name}",
        payments,
        events=2 * events("refund.failed", object_id="re_1", job_key=REFUND_KEY),
        provider_settings=SETTINGS,
        **more,
    )


def event_scenarios() -> Iterable[Scenario]:
    return (
        charge_scenario("events", lambda _: FakePayments()),
        charge_scenario("events-lost-answer", lost_answer),
        charge_scenario("events-slow", lambda clock: SlowPayments(wall=clock)),
        charge_scenario("events-declined", lambda _: FakePayments(declines=True)),
        charge_scenario(
            "events-dispute",
            disputed,
            events=2 * events("charge.dispute.created", object_id="dp_pi_1", job_key=KEY),
            check=check_dispute,
            sweeps_at=(timedelta(minutes=20),),
        ),
        with_events("forged", lambda _: charged(FakePayments())),
        with_events("slow", lambda clock: charged(SlowRefunds(wall=clock))),
        with_events(
            "returned",
            lambda clock: charged(ReturnedRefunds(wall=clock)),
            count_effects=count_kept_or_recorded,
            check=check_returned,
            sweeps_at=(timedelta(minutes=20),),
        ),
    )
