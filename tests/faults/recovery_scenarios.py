"""Payments that recover: from an outage of Stripe or of our tables, and from an unsent message."""

from collections.abc import Callable
from datetime import timedelta

from oncely.testing.scenario import Scenario
from tests.faults.providers import OutageStripe, stripe


def recovery_scenarios(charging: Callable[..., Scenario]) -> tuple[Scenario, ...]:
    """The confirmation of an absent payment never arrived, so a sweep returns it to ready."""
    absent = "w1:stripe.execute!fail"

    payments = stripe()

    return (
        charging("outage", stripe(OutageStripe)),
        # No message was ever sent.
        charging("unserved", payments, duplicate_messages=0, sweeps_at=(timedelta(minutes=6),)),
        # From any call on.
        charging("own-outage", payments, store_outage=timedelta(minutes=10), receipts=True),
        charging("absent", payments, fixed_prefix=absent),
        # The sweep dies between the write and the send.
        charging("absent-unsent", payments, fixed_prefix=f"{absent} r2:sqs.send_message_batch!die"),
    )
