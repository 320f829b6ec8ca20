"""payment.charge at Braintree, whose keys may not be relied on: only one scenario has them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from oncely.providers.braintree.plugin import SEARCH_LAG
from oncely.providers.braintree.sandbox import BraintreeSandbox
from oncely.providers.stripe.sandbox.api import StripeSandbox
from oncely.testing import FinalState
from oncely.testing.rows import BusinessRows
from oncely.testing.sandbox import EffectState
from oncely.testing.scenario import Scenario
from tests.faults.expectations import (
    KEY,
    ORDER,
    charges_in,
    check_no_charge,
    check_order_matches_charges,
    payments_in,
)
from tests.faults.providers import PROCESSING_TIME, NewBraintree, braintree
from tests.support.orders import order_row

SAMPLES: Final = BraintreeSandbox.samples
# The search of this scenario is almost as stale as the profile allows.
LAG: Final = SEARCH_LAG - timedelta(seconds=20)


def count_held(ended: FinalState) -> int:
    """A second authorization of a job would hold its customer's money twice."""
    return len(payments_in(ended).ledger.held)


def check_nothing_is_left_open(ended: FinalState) -> Iterator[str]:
    yield from check_order_matches_charges(ended)
    held, charges = payments_in(ended).ledger.held, charges_in(ended)
    if charges and len(held) > len(charges):
        yield f"{held} are held, and {charges} are charged"


def check_third_run_leaves_nothing_open(ended: FinalState) -> Iterator[str]:
    """By then, the search shows what the first run lost."""
    job = ended.job(KEY)
    open_ones = check_nothing_is_left_open(ended)
    yield from open_ones if job and job.fence > 2 else check_order_matches_charges(ended)


def forge_paid_order(rows: BusinessRows) -> None:
    paid = {"status": "paid", "charge_id": "bt_invented"}
    rows.put("orders", ORDER, order_row(payment_provider="braintree", **paid))


def count_at_both(ended: FinalState) -> int:
    """What one order was charged at Stripe, and holds or took at Braintree."""
    at_stripe = (one for one in ended.providers["stripe"].ledger.effects())
    held = ended.providers["braintree"].ledger.held
    return len(held) + sum(one.state is EffectState.DONE for one in at_stripe)


def pay_at_stripe(rows: BusinessRows) -> list[Mapping[str, object]]:
    rows.change("orders", ORDER, payment_provider="stripe", payment_method="pm_card_visa")
    return []


def name_stripe(rows: BusinessRows) -> list[Mapping[str, object]]:
    rows.change("orders", ORDER, payment_provider="stripe")
    return []


def scenarios(charge_scenario: Callable[..., Scenario]) -> Iterator[Scenario]:
    def scenario(name: str, payments: NewBraintree, **more: object) -> Scenario:
        given: dict[str, Any] = {
            "provider": "braintree",
            "count_effects": count_held,
            "check": check_nothing_is_left_open,
            **more,
        }
        return charge_scenario(name, payments, **given)

    stale = braintree(search_lag=LAG, honors_keys=False)
    yield scenario("plain", braintree(honors_keys=False))
    yield scenario("keys", braintree(search_lag=LAG))
    yield scenario("no-keys", braintree(search_lag=LAG, accepts_keys=False))
    yield scenario("stale-search", stale)
    yield scenario(
        "declined", braintree(acts_as=SAMPLES["declined"], search_lag=LAG, honors_keys=False)
    )
    pending = braintree(acts_as=SAMPLES["pending"], pending_for=PROCESSING_TIME, honors_keys=False)
    yield scenario("pending", pending)
    # What a second fault does to an authorization, or a submission, without a response.
    for name, prefix in (
        ("late", "w1:braintree.prepare!late"),
        ("unsaved", "w1:jobs.update_item#2!die"),
        ("submit-late", "w1:braintree.execute!late"),
        ("zombie", "w1:jobs.update_item#2>sweep w1:jobs.update_item#2>deliver"),
    ):
        yield scenario(name, stale, fixed_prefix=prefix)
    # The search is staler than the profile allows: money is held twice, and taken once.
    staler = braintree(search_lag=SEARCH_LAG + timedelta(seconds=30), honors_keys=False)
    yield scenario(
        "staler-search",
        staler,
        fixed_prefix="w1:braintree.prepare!lost",
        count_effects=lambda ended: len(charges_in(ended)),
        check=check_order_matches_charges,
    )
    # The next worker finds the authorization that the first one lost.
    yield scenario(
        "orphan",
        staler,
        fixed_prefix="w1:braintree.prepare!lost w3:braintree.execute!die",
        count_effects=lambda ended: len(charges_in(ended)),
        check=check_third_run_leaves_nothing_open,
    )
    yield scenario("paid-forged", braintree(), seed_rows=forge_paid_order, check=check_no_charge)
    yield scenario(
        "moved",
        stale,
        edit=name_stripe,
        count_effects=lambda ended: len(charges_in(ended)),
    )
    # It moves to Stripe, which would charge it beside an authorization that no search shows yet.
    yield replace(
        scenario("moved-to-stripe", staler),
        providers=lambda options: {
            "braintree": staler(options),
            "stripe": StripeSandbox(options),
            "ses": None,
        },
        edit=pay_at_stripe,
        fixed_prefix="w1:braintree.prepare!lost w1:end>edit",
        count_effects=count_at_both,
        check=lambda _: (),
    )
