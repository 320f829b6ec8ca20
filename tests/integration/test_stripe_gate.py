"""Stripe behind the gate, over real sockets: its endpoints, its failures, and its rate limit."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from oncely.core.effect_outcomes import Ambiguous, LookupFailed, NotSent, Prepared, Succeeded
from oncely.core.keys import IdempotencyKey, JobKey
from oncely.core.money import Money
from oncely.core.profiles import EndpointGroup
from oncely.gates.gate import (
    Gate,
    GateState,
)
from oncely.jobs.payment_charge import PaymentCharge
from oncely.ports import SystemClock
from oncely.providers.interfaces import Payment
from oncely.providers.stripe.payments import StripePayments
from oncely.providers.stripe.plugin import STRIPE
from tests.bench.outage_recovery import recover
from tests.support.in_memory_stack import InMemoryStack
from tests.support.shipped_sandbox import ShippedSandbox

PAYMENT = Payment(
    money=Money(1250, "eur"),
    customer="cus_7",
    method="pm_card_visa",
    job_key=JobKey("payment.charge:order_18452"),
    order_id="18452",
)
CREATE_KEY, KEY = IdempotencyKey("create:1"), IdempotencyKey("confirm:1")


@dataclass
class GatedStripe:
    sandbox: ShippedSandbox

    def __post_init__(self) -> None:
        world = InMemoryStack()
        self.table = world.gates
        self.gate = Gate(table=self.table, clock=SystemClock(), snapshot_age=timedelta(0))
        self.client = StripePayments.from_api_key(
            "sk_test_1", api_base=self.sandbox.url, gate=self.gate.requests(STRIPE)
        )
        self.contract = PaymentCharge(order_id="18452").with_tools(world.tools, "stripe")

    def enter(self) -> None:
        assert self.gate.enter(self.contract) is None

    def close_lookups(self) -> None:
        now = self.gate.clock.now()
        opened = GateState(opened_at=now, probe_at=now + timedelta(minutes=5))
        self.table.change_circuit("stripe:lookups", opened)

    def prepare(self) -> str:
        prepared = self.client.prepare(PAYMENT, idempotency_key=CREATE_KEY)
        assert isinstance(prepared, Prepared)
        return prepared.ref


@pytest.fixture
def stripe(sandbox: ShippedSandbox) -> GatedStripe:
    return GatedStripe(sandbox)


def stored_gates(stripe: GatedStripe) -> list[Any]:
    items: list[Any] = stripe.table.client.scan(TableName=stripe.table.table)["Items"]
    return items


def test_charge_takes_one_slot(stripe: GatedStripe) -> None:
    stripe.enter()
    before = stored_gates(stripe)
    ref = stripe.prepare()
    outcome = stripe.client.execute(ref, PAYMENT, idempotency_key=KEY, verified=True)
    assert isinstance(outcome, Succeeded)
    assert stored_gates(stripe) == before


def test_confirm_without_answer_behind_closed_gate_is_ambiguous(stripe: GatedStripe) -> None:
    """The read that would resolve it is held back, so the outcome is ambiguous."""
    stripe.enter()
    ref = stripe.prepare()
    stripe.sandbox.faults.add("accept_then_drop", **stripe.sandbox.stripe.requests["execute"])
    stripe.close_lookups()

    outcome = stripe.client.execute(ref, PAYMENT, idempotency_key=KEY, verified=True)

    assert isinstance(outcome, Ambiguous)
    assert stripe.sandbox.effects(), "it was charged"


def test_closed_gate_before_confirm_sends_nothing(stripe: GatedStripe) -> None:
    stripe.enter()
    ref = stripe.prepare()
    stripe.close_lookups()
    outcome = stripe.client.execute(ref, PAYMENT, idempotency_key=KEY)
    assert isinstance(outcome, NotSent)
    assert not stripe.sandbox.effects()


def test_closed_gate_read_is_failed_lookup(stripe: GatedStripe) -> None:
    stripe.close_lookups()
    assert isinstance(stripe.client._read("pi_1", PAYMENT), LookupFailed)  # noqa: SLF001  # the last step of others


def test_outage_opens_circuit_and_probe_closes_it(stripe: GatedStripe) -> None:
    stripe.sandbox.faults.add("outage", path="/v1/*", times=None)
    for _ in range(5):
        stripe.enter()
        stripe.client.prepare(PAYMENT, idempotency_key=CREATE_KEY)
    assert stripe.gate.enter(stripe.contract) is not None
    opened = stripe.table.read().gates["stripe:effects"].opened_at
    assert opened is not None
    assert not STRIPE.responds(stripe.client)
    stripe.sandbox.faults.clear()
    assert STRIPE.responds(stripe.client)


def test_declines_leave_circuit_closed(stripe: GatedStripe) -> None:
    stripe.sandbox.faults.add("rate_limit", path="/v1/*", times=None)
    for _ in range(6):
        stripe.enter()
        stripe.client.prepare(PAYMENT, idempotency_key=CREATE_KEY)
    assert stripe.gate.hold(stripe.contract, EndpointGroup.EFFECTS) is None


def test_jobs_resolve_at_rate_of_limited_endpoint() -> None:
    """`python -m tests.bench.outage_recovery` does the same with 2,000 jobs."""
    recovered = recover(60, rate=25, gated=True)
    assert recovered.finished == 60
    assert recovered.refused == 0
    assert recovered.lookups == 60
