"""Refunds: each once, never more than was captured, and no amount left reserved."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, ClassVar, Final

from oncely.domain.effect_outcomes import EffectOutcome, Json, NotSent
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Event, Status
from oncely.domain.money import Money
from oncely.domain.profiles import RetryLimits
from oncely.domain.repairs import Repair
from oncely.jobs.payment_charge import PaymentCharge
from oncely.jobs.payment_refund import PaymentRefund
from oncely.jobs.refund_ledger import RefundLedger, RefundState
from oncely.ports import Clock
from oncely.providers.fake_payments import FakeIntent, FakePayments
from oncely.providers.interfaces import Payment, Refund
from oncely.testing import FinalState, ProviderSpec, Scenario, effect_calls, lookup_calls
from oncely.testing.memory import MemoryBusinessRows
from oncely.testing.provider_fault import ProviderFault
from oncely.testing.scenario import PlannedRepair, RestoreMode
from tests.faults.expectations import KEY, ORDER
from tests.faults.providers import TEN_MINUTES
from tests.faults.safety_classes import SHORT_KEY_TTL
from tests.support.orders import order_row, refund_request

CHARGE_ID: Final = "ch_pi_1"
CAPTURED: Final = 1250
REFUND: Final[Mapping[str, Json]] = {
    "job": "payment.refund",
    "v": 1,
    **ORDER,
    "refund_id": "rma_1",
}
CHARGE: Final[Mapping[str, Json]] = {"job": "payment.charge", "v": 1, **ORDER}
PAYMENT: Final = Payment(
    money=Money(CAPTURED, "eur"),
    customer="cus_7",
    method="pm_card_visa",
    job_key=KEY,
    order_id="18452",
    deployment="dev",
)


class ShortWindowRefund(PaymentRefund):
    policy = replace(
        PaymentRefund.policy,
        profile=replace(
            PaymentRefund.policy.profile,
            key_ttl=SHORT_KEY_TTL,
            key_ttl_margin=timedelta(minutes=5),
        ),
    )
    policies: ClassVar = {"stripe": policy}


class ShortGraceRefund(PaymentRefund):
    """With a grace period of two sweeps instead of many."""

    policy = replace(PaymentRefund.policy, limits=RetryLimits(grace_period=timedelta(minutes=2)))
    policies: ClassVar = {"stripe": policy}


@dataclass
class SlowRefunds(FakePayments):
    """Refunds are pending for ten minutes. Then the bank takes or returns the money."""

    wall: Clock | None = None
    decided: str = "succeeded"
    made: dict[str, datetime] = field(default_factory=dict)
    refunds_pend: bool = True

    def lookup_refund(self, refund: Refund) -> EffectOutcome:
        assert self.wall is not None
        now = self.wall.now()
        for ref, one in list(self.refunds.items()):
            if one.status == "pending" and now - self.made.setdefault(ref, now) >= TEN_MINUTES:
                self.complete_refund(ref, status=self.decided)
        return super().lookup_refund(refund)


@dataclass
class ReturnedRefunds(FakePayments):
    """The bank returns every refund ten minutes after its success."""

    wall: Clock | None = None
    made: dict[str, datetime] = field(default_factory=dict)

    def lookup_refund(self, refund: Refund) -> EffectOutcome:
        assert self.wall is not None
        for ref, one in list(self.refunds.items()):
            if self.wall.now() - self.made[ref] >= TEN_MINUTES and one.status != "failed":
                self.complete_refund(ref, status="failed")
        return super().lookup_refund(refund)

    def _give(self, refund: Refund) -> EffectOutcome:
        assert self.wall is not None
        outcome = super()._give(refund)
        for ref in self.refunds:
            self.made.setdefault(ref, self.wall.now())
        return outcome


def charged(payments: FakePayments, *faults: ProviderFault) -> FakePayments:
    """The order of 12.50 EUR is paid, and only our own rules limit what is refunded."""
    payments.limits_refunds = False
    payments.intents["pi_1"] = FakeIntent("pi_1", PAYMENT, "succeeded")
    payments.charges.append("pi_1")
    payments.fail_next("refund", *faults)
    return payments


def request_refund(rows: MemoryBusinessRows, refund_id: str = "rma_1", amount: int = 800) -> None:
    rows.put("refund_requests", {**ORDER, "refund_id": refund_id}, refund_request(amount=amount))


def seed_paid_order(rows: MemoryBusinessRows, **amounts: int) -> None:
    """The order is paid, and these refunds are requested."""
    seed_paid_order_only(rows)
    for refund_id, amount in (amounts or {"rma_1": 800}).items():
        request_refund(rows, refund_id, amount)


def seed_paid_order_only(rows: MemoryBusinessRows) -> None:
    rows.put("orders", ORDER, order_row(status="paid", charge_id=CHARGE_ID))


def seed_unpaid_order(rows: MemoryBusinessRows) -> None:
    rows.put("orders", ORDER, order_row())
    request_refund(rows)


def send(*messages: Mapping[str, Json]) -> Callable[[MemoryBusinessRows], Any]:
    return lambda _: list(messages)


def change_request(rows: MemoryBusinessRows) -> list[Mapping[str, object]]:
    request_refund(rows, amount=450)
    return [REFUND]


def make_request(rows: MemoryBusinessRows) -> list[Mapping[str, object]]:
    request_refund(rows)
    return []


def refunds_of(ended: FinalState, refund_id: str = "rma_1") -> list[str]:
    payments = ended.providers["stripe"]
    payments.deliver_late(all_of_them=True)
    made = payments.refunds.values()
    return [one.ref for one in made if one.refund.refund_id == refund_id and one.status != "failed"]


def check_refunds(ended: FinalState) -> Iterator[str]:
    refunds_of(ended)
    rows = ended.store.business_rows
    charge_id = str((rows.get("orders", ORDER) or {}).get("charge_id"))
    given = ended.providers["stripe"].refunded(charge_id)
    if given > CAPTURED:
        yield f"{given} was refunded, and {CAPTURED} captured"
    ledger = RefundLedger.from_row(charge_id, rows.get("refunds", {"charge_id": charge_id}))
    for refund_id in ("rma_1", "rma_2"):
        key = JobKey(f"payment.refund:order_18452:{refund_id}")
        job = ended.job(key)
        made, state = refunds_of(ended, refund_id), ledger.states.get(key)
        if len(made) > 1:
            yield f"{refund_id} was refunded {len(made)} times"
        if job is None or job.status is Status.NEEDS_REVIEW:
            continue
        if state == RefundState.RESERVED:
            yield f"the amount of {refund_id} is still reserved, and its job is {job.status}"
        if (state == RefundState.DONE) is not bool(made):
            yield f"{refund_id} is {state} in our ledger, and the provider has {made}"
        if job.status is Status.FINISHED and [job.provider_ref] != made:
            yield f"the job of {refund_id} names {job.provider_ref}, the provider has {made}"


def check_requested_amount(ended: FinalState) -> Iterator[str]:
    """What is refunded is what the request said at the claim, not what it says now."""
    yield from check_refunds(ended)
    job = ended.job(JobKey("payment.refund:order_18452:rma_1"))
    given = ended.providers["stripe"].refunded(CHARGE_ID)
    if job is not None and given not in {0, job.amount}:
        yield f"the request said {job.amount} at the claim, and {given} was refunded"


def check_nothing_refunded(ended: FinalState) -> Iterator[str]:
    """Without a request nothing is sent or reserved, and no job ends."""
    rows = ended.store.business_rows
    if ended.providers["stripe"].calls or rows.get("refunds", {"charge_id": CHARGE_ID}):
        yield f"a message alone caused {ended.providers['stripe'].calls}"
    for job in ended.store.jobs.values():
        if job.status not in {Status.READY, Status.NEEDS_REVIEW}:
            yield f"{job.job_key} is {job.status} without a request"


def check_returned(ended: FinalState) -> Iterator[str]:
    """The write that records the returned money also frees its amount."""
    row = ended.store.business_rows.get("refunds", {"charge_id": CHARGE_ID})
    key = JobKey("payment.refund:order_18452:rma_1")
    state, job = RefundLedger.from_row(CHARGE_ID, row).states.get(key), ended.job(key)
    contradicted = job is not None and any(one.event == Event.CONTRADICT for one in job.evidence)
    if contradicted and state != RefundState.FAILED:
        yield f"the refund failed later, and its amount is {state}"
    expected = {Status.FINISHED: RefundState.DONE, Status.FAILED: RefundState.FAILED}
    if job is not None and state != expected.get(job.status, state):
        yield f"the job is {job.status}, and its amount is {state}"


def count_kept_or_recorded(ended: FinalState) -> int:
    """A job may finish with a refund that was returned later, or fail because it was returned."""
    job = ended.job(JobKey("payment.refund:order_18452:rma_1"))
    if job is not None and job.status is Status.FAILED:
        return len(refunds_of(ended))
    return len(ended.providers["stripe"].refunds)


def check_second_refund(ended: FinalState) -> Iterator[str]:
    """Only a review, or a sum that is too large, may prevent the second refund."""
    yield from check_refunds(ended)
    second = ended.job(JobKey("payment.refund:order_18452:rma_2"))
    if second is not None and not second.status.is_finished and "older" in str(second.last_error):
        yield f"the second refund waited in vain: {second.last_error}"


def refund_scenario(
    name: str,
    payments: Callable[[Clock], FakePayments],
    contract: type[PaymentRefund] = PaymentRefund,
    **more: Any,  # noqa: ANN401  # fields of a scenario
) -> Scenario:
    def providers(clock: Clock) -> Mapping[str, ProviderSpec | None]:
        reads = {**lookup_calls("lookup", "lookup_refund", "find"), "read_charge": NotSent("down")}
        return {
            "stripe": ProviderSpec(
                target=payments(clock),
                effect_calls=effect_calls("refund", "prepare", "execute", "close"),
                lookup_calls=reads,
            ),
            "ses": None,
        }

    return Scenario(
        name=f"payment.refund/{name}",
        contracts=(contract, PaymentCharge),
        providers=providers,
        **{
            "message": REFUND,
            "count_effects": lambda ended: len(refunds_of(ended)),
            "seed_rows": seed_paid_order,
            "check": check_refunds,
            **more,
        },
    )


def delayed_scenario(
    name: str,
    *faults: ProviderFault,
    contract: type[PaymentRefund] = PaymentRefund,
    **payments: Any,  # noqa: ANN401  # fields of the provider
) -> Scenario:
    """A provider whose requests or reads are late, by its clock."""

    def provider(clock: Clock) -> FakePayments:
        return charged(FakePayments(now=clock.now, **payments), *faults)

    return refund_scenario(name, provider, contract)


def refund_scenarios() -> Iterable[Scenario]:
    second = {**REFUND, "refund_id": "rma_2"}
    return (
        refund_scenario("keys", lambda _: charged(FakePayments())),
        refund_scenario("declined", lambda _: charged(FakePayments(), ProviderFault.DECLINED)),
        # The 500 stays under its key, so only the next number can succeed.
        refund_scenario(
            "server-error", lambda _: charged(FakePayments(), ProviderFault.SERVER_ERROR)
        ),
        # A delayed request could refund again.
        *(
            delayed_scenario(name, ProviderFault.ARRIVES_LATE, contract=contract)
            for name, contract in (("stuck", PaymentRefund), ("short-window", ShortWindowRefund))
        ),
        *(
            delayed_scenario(
                f"late-{late_by.seconds}-and-unstored-error",
                ProviderFault.ARRIVES_LATE,
                ProviderFault.SERVER_ERROR_UNSTORED,
                late_by=late_by,
            )
            for late_by in (timedelta(seconds=60), timedelta(hours=1))
        ),
        # Refunded, answered with a stored 500, and not listed yet. Either the charge counts it
        # already, or all reads lag.
        *(
            delayed_scenario(
                f"stale-{name}-{lag.seconds}",
                ProviderFault.SERVER_ERROR_AFTER,
                list_lag=lag,
                charge_lag=lag if name == "reads" else timedelta(0),
            )
            for name, lag in (
                ("reads", timedelta(seconds=20)),
                ("reads", timedelta(seconds=90)),
                ("list", timedelta(seconds=90)),
                ("list", timedelta(hours=3)),
            )
        ),
        refund_scenario("slow", lambda clock: charged(SlowRefunds(wall=clock))),
        refund_scenario(
            "fails-later", lambda clock: charged(SlowRefunds(wall=clock, decided="failed"))
        ),
        refund_scenario(
            "returned",
            lambda clock: charged(ReturnedRefunds(wall=clock)),
            count_effects=count_kept_or_recorded,
            repairs=(PlannedRepair(after=timedelta(minutes=20), repair=Repair.LOOK_UP),),
            check=check_returned,
        ),
        # Both fit into what was captured, or only one does.
        refund_scenario(
            "two",
            lambda _: charged(FakePayments()),
            seed_rows=partial(seed_paid_order, rma_1=800, rma_2=450),
            edit=send(second),
            check=check_second_refund,
        ),
        refund_scenario(
            "two-exceed",
            lambda _: charged(FakePayments()),
            seed_rows=partial(seed_paid_order, rma_1=800, rma_2=800),
            edit=send(second),
        ),
        # A message asks, and only a request authorizes.
        refund_scenario(
            "not-requested",
            lambda _: charged(FakePayments()),
            ShortGraceRefund,
            message={**REFUND, "amount": CAPTURED},
            seed_rows=seed_paid_order_only,
            edit=send({**second, "amount": 1}),
            check=check_nothing_refunded,
        ),
        refund_scenario(
            "request-late",
            lambda _: charged(FakePayments()),
            ShortGraceRefund,
            seed_rows=seed_paid_order_only,
            edit=make_request,
            check=check_requested_amount,
        ),
        refund_scenario(
            "request-changed",
            lambda _: charged(FakePayments()),
            edit=change_request,
            check=check_requested_amount,
        ),
        refund_scenario(
            "before-payment",
            lambda _: FakePayments(),
            seed_rows=seed_unpaid_order,
            edit=send(CHARGE),
        ),
        refund_scenario("restored", lambda _: charged(FakePayments()), restore=RestoreMode.LAGGING),
    )
