"""Payments whose gate closes at any time: an operator pauses them, or their circuit opens."""

from collections.abc import Callable, Iterator

from oncely.testing import FinalState
from oncely.testing.scenario import GateClosing, Scenario
from tests.faults.expectations import KEY, check_order_matches_charges
from tests.faults.providers import stripe


def check_hold_only_delays(ended: FinalState) -> Iterator[str]:
    """After three days of pause or an open circuit, the job ends as it would have."""
    yield from check_order_matches_charges(ended)
    job = ended.job(KEY)
    if job is not None and "older than" in (job.last_error or ""):
        yield f"the time on hold counted as age: {job.last_error}"


def gate_scenarios(charging: Callable[..., Scenario]) -> tuple[Scenario, ...]:
    """The first and the second half of a run, and the sweep of an unknown job."""
    payments = stripe()

    return tuple(
        charging(
            f"{name}{suffix}",
            payments,
            closes_gate=closing,
            check=check_hold_only_delays,
            **more,
        )
        for name, closing in (("paused", GateClosing.PAUSE), ("open-circuit", GateClosing.OUTAGE))
        for suffix, more in (
            ("", {}),
            ("-unknown", {"fixed_prefix": "w1:stripe.execute!lost", "duplicate_messages": 1}),
        )
    )
