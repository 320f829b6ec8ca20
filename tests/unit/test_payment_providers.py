"""The order chooses its payment provider, and a job keeps the one of its first claim."""

from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from oncely.contracts.job import AnyJob
from oncely.core.effect_outcomes import LookupOutcome, NotFound, Prepared
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.core.outcomes import NeedsReview
from oncely.core.repairs import Repair
from oncely.history.lines import history_line
from oncely.history.restore import restore_row
from oncely.jobs.payment_charge import PaymentCharge
from oncely.jobs.payment_providers import PAYMENT_PROVIDERS
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.operate.job_view import build_view
from oncely.operate.repair_request import NotAllowed, Repaired, RepairRequest
from oncely.providers.interfaces import Payment
from oncely.providers.stripe.plugin import PROFILE, StripePlugin
from tests.support.fakes import START
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_conflict, is_finished
from tests.support.provider_fault import ProviderFault
from tests.support.stripe_account import StripeAccount

KEY = JobKey("payment.charge:order_18452")
LAG = timedelta(minutes=5)


class OtherPlugin(StripePlugin):
    """A payment provider without idempotency keys, whose search lags."""

    name = "other"
    profile = replace(PROFILE, name="Other", key_ttl=None, lookup_lag=LAG)

    def console_url(self, reference: str, **_: object) -> str | None:
        return f"https://other.example/{reference}"


OTHER = OtherPlugin()
BOTH = {"stripe": PAYMENT_PROVIDERS["stripe"], "other": OTHER}


class TwoProviderCharge(PaymentCharge):
    provider = BOTH


class KeylessPayments(StripeAccount):
    """Its search alone never proves absence."""

    def __init__(self) -> None:
        super().__init__()
        self.model.honors_idempotency_keys = False

    def find(self, payment: Payment) -> Prepared | LookupOutcome:
        found = self.client.find(payment)
        return replace(found, conclusive=False) if isinstance(found, NotFound) else found


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> InMemoryStack:
    monkeypatch.setitem(cast("dict[str, Any]", PAYMENT_PROVIDERS), "other", OTHER)
    contracts: tuple[type[AnyJob], ...] = (TwoProviderCharge, *SHIPPED_JOBS[1:])
    return InMemoryStack(contracts=contracts, other_payments={"other": KeylessPayments()})


def other(world: InMemoryStack) -> Any:  # noqa: ANN401  # the fake
    return world.other_payments["other"]


def test_order_without_provider_is_charged_at_stripe(world: InMemoryStack) -> None:
    world.add_order()
    assert is_finished(world.run(charge_message()))
    assert (len(world.payments.charges), len(other(world).calls)) == (1, 0)
    assert world.job(KEY).provider == "stripe"


def test_order_is_charged_at_the_provider_that_it_names(world: InMemoryStack) -> None:
    world.add_order(payment_provider="other")
    assert is_finished(world.run(charge_message()))
    assert (len(world.payments.calls), len(other(world).charges)) == (0, 1)
    assert world.job(KEY).provider == "other"


@pytest.mark.parametrize("named", ["adyen", "", "STRIPE", 7, None])
def test_unknown_provider_needs_review_before_any_call(world: InMemoryStack, named: object) -> None:
    world.add_order(payment_provider=named)

    outcome = world.run(charge_message())

    assert isinstance(outcome, NeedsReview)
    assert f"its payment_provider is {named!r}, this deployment has other, stripe" in outcome.reason
    assert (world.payments.calls, other(world).calls) == ([], [])


def test_provider_that_is_not_configured_needs_review(world: InMemoryStack) -> None:
    world.other_payments = {"other": None}
    world.add_order(payment_provider="other")

    outcome = world.run(charge_message())

    assert isinstance(outcome, NeedsReview)
    assert "its payment_provider is 'other', this deployment has stripe" in outcome.reason


def test_job_is_looked_up_where_it_was_sent_when_the_order_names_another(
    world: InMemoryStack,
) -> None:
    world.add_order(payment_provider="other")
    other(world).fail_next("execute", ProviderFault.TIMEOUT_AFTER)
    world.run(charge_message())
    world.add_order(payment_provider="stripe")

    again = world.run(charge_message())
    ended = world.run_until_idle(KEY)

    assert is_conflict(again)
    assert (ended.status, ended.provider) == (Status.NEEDS_REVIEW, "other")
    assert "the business values changed" in str(ended.last_error)
    assert world.payments.calls == []
    assert len(other(world).charges) == 1


def test_row_that_names_another_provider_sends_nothing(world: InMemoryStack) -> None:
    world.add_order()
    world.payments.fail_next("prepare", ProviderFault.REFUSED_CONNECTION)
    world.run(charge_message())
    world.store.jobs[KEY] = replace(world.job(KEY), provider="other")

    outcome = world.run(charge_message())

    assert isinstance(outcome, NeedsReview)
    assert "its row names the provider other, its business rows stripe" in outcome.reason
    assert (world.payments.charges, other(world).calls) == ([], [])


def test_lost_preparation_is_found_and_used(world: InMemoryStack) -> None:
    world.add_order(payment_provider="other")
    other(world).fail_next("prepare", ProviderFault.TIMEOUT_AFTER)
    world.run(charge_message())

    ended = world.run_until_idle(KEY)

    assert (ended.status, ended.provider_ref) == (Status.FINISHED, "pi_1")
    assert list(other(world).intents) == ["pi_1"]


def test_preparation_is_repeated_only_after_the_search_is_complete(world: InMemoryStack) -> None:
    world.add_order(payment_provider="other")
    other(world).fail_next("prepare", ProviderFault.TIMEOUT_BEFORE)
    world.run(charge_message())

    world.clock.advance(minutes=4)
    early = world.reconcile(KEY)
    ended = world.run_until_idle(KEY)

    assert early.to_status is Status.UNKNOWN
    assert ended.status is Status.FINISHED
    sends = [step for step, _ in other(world).calls if step in {"find", "prepare"}]
    assert sends == ["prepare", "find", "find", "find", "prepare"]
    assert world.clock.now() >= START + LAG


def test_repair_finds_preparation_that_was_not_saved(world: InMemoryStack) -> None:
    world.add_order(payment_provider="other")
    other(world).fail_next("prepare", ProviderFault.TIMEOUT_AFTER)
    world.run(charge_message())
    world.store.jobs[KEY] = replace(world.job(KEY), status=Status.NEEDS_REVIEW)

    request = RepairRequest(
        key=KEY, repair=Repair.MARK_FAILED, version=world.job(KEY).version, reason="x", actor="ada"
    )
    done = world.repairer().repair(request)

    assert isinstance(done, Repaired)
    assert "pi_1 was found" in str(done.details)
    assert (world.job(KEY).provider_ref, world.job(KEY).provider) == ("pi_1", "other")


def test_repair_waits_until_the_search_is_complete(world: InMemoryStack) -> None:
    world.add_order(payment_provider="other")
    other(world).fail_next("prepare", ProviderFault.TIMEOUT_BEFORE)
    world.run(charge_message())
    world.store.jobs[KEY] = replace(world.job(KEY), status=Status.NEEDS_REVIEW)
    request = RepairRequest(
        key=KEY, repair=Repair.MARK_FAILED, version=world.job(KEY).version, reason="x", actor="ada"
    )

    early = world.repairer().repair(request)
    world.clock.advance(minutes=7)
    later = world.repairer().repair(request)

    assert isinstance(early, NotAllowed)
    assert "a request may still be in flight" in early.reason
    assert isinstance(later, Repaired)


def test_page_links_to_the_provider_of_the_row(world: InMemoryStack) -> None:
    world.add_order(payment_provider="other")
    world.run(charge_message())
    view = build_view(world.job(KEY), world.registry, now=world.clock.now())
    assert [link.url for link in view.links] == [
        "https://other.example/pi_1",
        "https://other.example/ch_1",
    ]


def test_restored_row_keeps_its_provider(world: InMemoryStack) -> None:
    world.add_order(payment_provider="other")
    other(world).fail_next("execute", ProviderFault.TIMEOUT_AFTER)
    world.run(charge_message())
    row = world.job(KEY)

    line = history_line(None, row, generation="T1", at=row.updated_at)
    restored = restore_row(None, line, deployment="dev", now=world.clock.now())

    assert restored is not None
    assert restored.provider == "other"


def test_missing_api_key_of_another_provider_does_not_matter(world: InMemoryStack) -> None:
    class Ports:
        def __init__(self, ports: Any) -> None:  # noqa: ANN401  # the fake
            self.ports = ports

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # of the fake
            return getattr(self.ports, name)

        def secret(self, name: str) -> str:
            assert name == "stripe"
            return name

    world.add_order()
    parse = world.registry.connected(cast("Any", Ports(world.tools)))
    runner = replace(world.runner(), parse=parse)
    assert is_finished(world.run(charge_message(), runner=runner))
