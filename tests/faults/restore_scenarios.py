"""Payments whose job table and orders are restored to an earlier moment, at any time of a run."""

from collections.abc import Callable

from oncely.testing.scenario import RestoreMode, Scenario
from tests.faults.providers import DECLINED, stripe


def restore_scenarios(charging: Callable[..., Scenario]) -> tuple[Scenario, ...]:
    """Days later, Stripe has removed its keys."""
    lagging = {"restore": RestoreMode.LAGGING, "duplicate_messages": 1}

    forgetful = stripe(honors_idempotency_keys=False)

    return (
        charging("restored", forgetful, **lagging),
        # A create whose answer was lost is abandoned; the next one is confirmed. The restored row
        # has neither reference.
        charging("restored-create", forgetful, fixed_prefix="w1:stripe.prepare!lost", **lagging),
        # Confirmed, but not ended at the restored time.
        charging("restored-confirm", forgetful, fixed_prefix="w1:stripe.execute!lost", **lagging),
        charging(
            "restored-declined",
            stripe(honors_idempotency_keys=False, acts_as=DECLINED),
            **lagging,
        ),
        charging(
            "restored-archived", forgetful, restore=RestoreMode.ARCHIVED, duplicate_messages=1
        ),
    )
