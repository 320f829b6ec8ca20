"""payment.charge at Braintree, where no key hides a repeated authorization."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from oncely.domain.effect_outcomes import EffectOutcome
from oncely.ports import Clock
from oncely.providers.braintree.fake import FakeBraintree
from oncely.providers.braintree.plugin import SEARCH_LAG
from oncely.providers.interfaces import Payment
from oncely.testing import FinalState, Scenario
from oncely.testing.memory import MemoryBusinessRows
from tests.faults.expectations import ORDER, check_order_matches_charges, payments_in

# The search of this scenario is almost as stale as the profile allows.
LAG: Final = SEARCH_LAG - timedelta(seconds=20)
TEN_MINUTES: Final = timedelta(minutes=10)


@dataclass
class SlowBraintree(FakeBraintree):
    """Settles after ten minutes: until then the settlement is pending."""

    processes: bool = True

    def lookup(self, ref: str, payment: Payment) -> EffectOutcome:
        assert self.wall is not None
        made = self.made_at[ref]
        if self.intents[ref].status == "processing" and self.wall.now() - made >= TEN_MINUTES:
            self.complete(ref, status="succeeded")
        return super().lookup(ref, payment)


def stale(clock: Clock) -> FakeBraintree:
    return FakeBraintree(wall=clock, lag=LAG)


def count_held(ended: FinalState) -> int:
    """A second authorization of a job would hold its customer's money twice."""
    return len(payments_in(ended).held)


def check_nothing_is_left_open(ended: FinalState) -> Iterator[str]:
    yield from check_order_matches_charges(ended)
    payments = payments_in(ended)
    if payments.charges and len(payments.held) > len(payments.charges):
        yield f"{payments.held} are held, and {payments.charges} are charged"


def name_stripe(rows: MemoryBusinessRows) -> list[Mapping[str, object]]:
    rows.rows["orders", tuple(ORDER.values())]["payment_provider"] = "stripe"
    return []


def scenarios(charge_scenario: Callable[..., Scenario]) -> Iterator[Scenario]:
    def scenario(name: str, payments: Callable[[Clock], FakeBraintree], **more: object) -> Scenario:
        given: dict[str, Any] = {
            "provider": "braintree",
            "count_effects": count_held,
            "check": check_nothing_is_left_open,
            **more,
        }
        return charge_scenario(name, payments, **given)

    yield scenario("plain", lambda _: FakeBraintree())
    yield scenario("stale-search", stale)
    yield scenario("declined", lambda clock: FakeBraintree(declines=True, wall=clock, lag=LAG))
    yield scenario("pending", lambda clock: SlowBraintree(wall=clock))
    # What a second fault does to an authorization, or a submission, without a response.
    for name, prefix in (
        ("lost", "w1:braintree.prepare!lost"),
        ("late", "w1:braintree.prepare!late"),
        ("unsaved", "w1:store.compare_and_swap!die"),
        ("submit-lost", "w1:braintree.execute!lost"),
        ("submit-late", "w1:braintree.execute!late"),
        ("zombie", "w1:store.compare_and_swap>sweep w1:store.compare_and_swap>deliver"),
    ):
        yield scenario(name, stale, fixed_prefix=prefix)
    yield scenario(
        "moved",
        stale,
        edit=name_stripe,
        count_effects=lambda ended: len(payments_in(ended).charges),
    )
