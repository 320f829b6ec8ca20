"""Refunds: each once, never more than was captured, and no amount left reserved."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Final

from oncely.core.effect_outcomes import Json
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status
from oncely.core.repairs import Repair
from oncely.jobs.payment_charge import PaymentCharge
from oncely.jobs.payment_refund import LIST_LAG, PaymentRefund
from oncely.jobs.refund_ledger import RefundLedger, RefundState
from oncely.providers.stripe.sandbox.api import StripeSandbox
from oncely.testing import FinalState
from oncely.testing.rows import BusinessRows
from oncely.testing.sandbox import EffectState, FaultKind
from oncely.testing.sandbox.ledger import RecordedEffect
from oncely.testing.scenario import PlannedRepair, RestoreMode, Scenario
from tests.faults.cancel_scenarios import cancels
from tests.faults.expectations import ORDER, payments_in
from tests.faults.providers import (
    PROCESSING_TIME,
    TEN_MINUTES,
    FailingRefunds,
    NewBraintree,
    NewStripe,
    ReturnedRefunds,
    add_paid_intent,
    stripe,
    stripe_fault,
)
from tests.faults.safety_classes import SHORT_KEY_TTL, with_short_window
from tests.support.orders import order_row, refund_request

CHARGE_ID: Final = "ch_1"
CAPTURED: Final = 1250
REFUND: Final[Mapping[str, Json]] = {
    "job": "payment.refund",
    "v": 1,
    **ORDER,
    "refund_id": "rma_1",
}
CHARGE: Final[Mapping[str, Json]] = {"job": "payment.charge", "v": 1, **ORDER}


class ShortWindowRefund(PaymentRefund):
    pass


ShortWindowRefund.policies = {"stripe": with_short_window(PaymentRefund.policy)}


class ShortGraceRefund(PaymentRefund):
    """With a grace period of two sweeps instead of many."""

    grace_period = timedelta(minutes=2)


def charged(
    model_type: type[StripeSandbox] = StripeSandbox,
    **attributes: Any,  # noqa: ANN401  # those of the model
) -> NewStripe:
    """The order of 12.50 EUR is paid, and only our own rules limit what is refunded."""
    return stripe(model_type, seed=add_paid_intent, limits_refunds=False, **attributes)


def request_refund(rows: BusinessRows, refund_id: str = "rma_1", amount: int = 800) -> None:
    rows.put("refund_requests", {**ORDER, "refund_id": refund_id}, refund_request(amount=amount))


def seed_paid_order(rows: BusinessRows, **amounts: int) -> None:
    """The order is paid, and these refunds are requested."""
    seed_paid_order_only(rows)
    for refund_id, amount in (amounts or {"rma_1": 800}).items():
        request_refund(rows, refund_id, amount)


def seed_paid_order_only(rows: BusinessRows) -> None:
    rows.put("orders", ORDER, order_row(status="paid", charge_id=CHARGE_ID))


def seed_unpaid_order(rows: BusinessRows) -> None:
    rows.put("orders", ORDER, order_row())
    request_refund(rows)


def send(*messages: Mapping[str, Json]) -> Callable[[BusinessRows], Any]:
    return lambda _: list(messages)


def change_request(rows: BusinessRows) -> list[Mapping[str, object]]:
    request_refund(rows, amount=450)
    return [REFUND]


def make_request(rows: BusinessRows) -> list[Mapping[str, object]]:
    request_refund(rows)
    return []


def refunds_of(ended: FinalState, refund_id: str = "rma_1") -> list[str]:
    made = (one for one in all_refunds(ended) if one.key.endswith(f":{refund_id}"))
    return [one.reference for one in made if one.state is not EffectState.DECLINED]


def all_refunds(ended: FinalState) -> list[RecordedEffect]:
    return [one for one in payments_in(ended).ledger.effects() if one.kind == "refunds"]


def refunded(ended: FinalState) -> int:
    """How much was given back, or is being given back."""
    made = (one for one in all_refunds(ended) if one.state is not EffectState.DECLINED)
    return sum(one.amount or 0 for one in made)


def check_refunds(ended: FinalState) -> Iterator[str]:
    rows = ended.rows
    charge_id = str((rows.get("orders", ORDER) or {}).get("charge_id"))
    given = refunded(ended)
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
    given = refunded(ended)
    if job is not None and given not in {0, job.amount}:
        yield f"the request said {job.amount} at the claim, and {given} was refunded"


def check_nothing_refunded(ended: FinalState) -> Iterator[str]:
    """Without a request nothing is sent or reserved, and no job ends."""
    asked = [f"{one.method} {one.path}" for one in ended.sandbox.ledger.requests]
    if asked or ended.rows.get("refunds", {"charge_id": CHARGE_ID}):
        yield f"a message alone caused {asked}"
    for job in ended.jobs.values():
        if job.status not in {Status.READY, Status.NEEDS_REVIEW}:
            yield f"{job.job_key} is {job.status} without a request"


def check_returned(ended: FinalState) -> Iterator[str]:
    """The write that records the returned money also frees its amount."""
    row = ended.rows.get("refunds", {"charge_id": CHARGE_ID})
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
    return len(all_refunds(ended))


def check_other_deployment(ended: FinalState) -> Iterator[str]:
    """Nothing of another deployment's charge is refunded."""
    yield from check_refunds(ended)
    if given := refunded(ended):
        yield f"{given} of the charge of staging was refunded"


def check_second_refund(ended: FinalState) -> Iterator[str]:
    """Only a review, or a sum that is too large, may prevent the second refund."""
    yield from check_refunds(ended)
    second = ended.job(JobKey("payment.refund:order_18452:rma_2"))
    if second is not None and not second.status.is_finished and "older" in str(second.last_error):
        yield f"the second refund waited in vain: {second.last_error}"


def refund_scenario(
    name: str,
    payments: NewStripe | NewBraintree,
    contract: type[PaymentRefund] = PaymentRefund,
    *,
    provider: str = "stripe",
    **more: Any,  # noqa: ANN401  # fields of a scenario
) -> Scenario:
    return Scenario(
        name=f"payment.refund/{name}",
        contracts=(contract, PaymentCharge),
        providers=lambda options: {provider: payments(options), "ses": None},
        **{
            "message": REFUND,
            "count_effects": lambda ended: len(refunds_of(ended)),
            "seed_rows": seed_paid_order,
            "check": check_refunds,
            **more,
        },
    )


def refund_faults(*kinds: FaultKind, late_by: timedelta = TEN_MINUTES) -> tuple[Any, ...]:
    """Faults of the first requests for a refund."""
    return tuple(stripe_fault(kind, "refund", seconds=late_by.total_seconds()) for kind in kinds)


def refund_scenarios() -> Iterable[Scenario]:
    second = {**REFUND, "refund_id": "rma_2"}
    return (
        refund_scenario("keys", charged()),
        refund_scenario("declined", charged(refund_status="failed")),
        # The 500 stays under its key, so only the next number can succeed.
        refund_scenario(
            "server-error", charged(), provider_faults=refund_faults(FaultKind.ERROR_BEFORE)
        ),
        # A delayed request could refund again.
        refund_scenario("stuck", charged(), provider_faults=refund_faults(FaultKind.ARRIVES_LATE)),
        *(
            refund_scenario(
                f"late-{late_by.total_seconds():.0f}-and-unstored-error",
                charged(),
                provider_faults=refund_faults(
                    FaultKind.ARRIVES_LATE, FaultKind.ERROR_UNSTORED, late_by=late_by
                ),
            )
            for late_by in (timedelta(seconds=60), timedelta(hours=11))
        ),
        # Refunded, answered with a stored 500, and not listed yet: all reads lag, or the charge
        # counts it already, and its list shows it only after the second lookup.
        *(
            refund_scenario(
                name,
                charged(refund_list_lag=lag, charge_lag=charge_lag),
                provider_faults=refund_faults(FaultKind.ERROR_AFTER),
            )
            for name, lag, charge_lag in (
                ("stale-reads", timedelta(seconds=90), timedelta(seconds=90)),
                ("stale-list", 4 * LIST_LAG, timedelta(0)),
            )
        ),
        refund_scenario("slow", charged(refund_status="pending", processing_time=PROCESSING_TIME)),
        refund_scenario("fails-later", charged(FailingRefunds)),
        refund_scenario(
            "returned",
            charged(ReturnedRefunds),
            count_effects=count_kept_or_recorded,
            repairs=(PlannedRepair(after=timedelta(minutes=20), repair=Repair.LOOK_UP),),
            check=check_returned,
        ),
        # Both fit into what was captured, or only one does.
        refund_scenario(
            "two",
            charged(),
            seed_rows=partial(seed_paid_order, rma_1=800, rma_2=450),
            edit=send(second),
            check=check_second_refund,
        ),
        refund_scenario(
            "two-exceed",
            charged(),
            seed_rows=partial(seed_paid_order, rma_1=800, rma_2=800),
            edit=send(second),
        ),
        # A message asks, and only a request authorizes.
        refund_scenario(
            "not-requested",
            charged(),
            ShortGraceRefund,
            message={**REFUND, "amount": CAPTURED},
            seed_rows=seed_paid_order_only,
            edit=send({**second, "amount": 1}),
            check=check_nothing_refunded,
        ),
        refund_scenario(
            "request-late",
            charged(),
            ShortGraceRefund,
            seed_rows=seed_paid_order_only,
            edit=make_request,
            check=check_requested_amount,
        ),
        refund_scenario(
            "request-changed",
            charged(),
            edit=change_request,
            check=check_requested_amount,
        ),
        refund_scenario(
            "before-payment",
            stripe(),
            seed_rows=seed_unpaid_order,
            edit=send(CHARGE),
        ),
        # Neither the row nor our ledger knows the refund, and Stripe has removed the key.
        refund_scenario(
            "restored",
            charged(key_window=SHORT_KEY_TTL),
            ShortWindowRefund,
            restore=RestoreMode.LAGGING,
            seed_rows=partial(seed_paid_order, rma_1=450),  # twice that is less than was captured
            duplicate_messages=1,
        ),
        # The job's row is lost, our ledger is not. A month later the message is sent again: lookups
        # of what a restore lost have ended, and Stripe has removed the key.
        refund_scenario(
            "restored-jobs-and-replayed",
            charged(key_window=SHORT_KEY_TTL),
            ShortWindowRefund,
            restore=RestoreMode.JOBS_LAGGING,
            seed_rows=partial(seed_paid_order, rma_1=450),
            fixed_prefix="w1:end>restore3",
            sweeps_at=(timedelta(days=30),),
            duplicate_messages=1,
        ),
        # The same, but its refund had no answer: our ledger has it as reserved.
        refund_scenario(
            "restored-unknown-and-replayed",
            charged(key_window=SHORT_KEY_TTL),
            ShortWindowRefund,
            restore=RestoreMode.JOBS_LAGGING,
            seed_rows=partial(seed_paid_order, rma_1=450),
            provider_faults=(
                *refund_faults(FaultKind.ACCEPT_THEN_DROP),
                {"kind": FaultKind.OUTAGE, "method": "GET", "path": "/v1/refunds*"},
            ),
            fixed_prefix="w1:end>restore3",
            sweeps_at=(timedelta(days=30),),
            duplicate_messages=1,
        ),
        # The first request is in flight, and the second one was refused: the job is ready again,
        # and must not be cancelled.
        refund_scenario(
            "cancelled",
            charged(),
            provider_faults=refund_faults(FaultKind.ARRIVES_LATE, FaultKind.RATE_LIMIT),
            repairs=cancels(0, 60, 320),
            duplicate_messages=1,
        ),
        # Staging made the charge, with the same ids on the same provider account.
        refund_scenario(
            "two-stacks",
            stripe(seed=partial(add_paid_intent, deployment="staging"), limits_refunds=False),
            check=check_other_deployment,
        ),
        # The first one has read the ledger, or sends its refund, when the second one is requested.
        *(
            refund_scenario(
                name,
                charged(),
                seed_rows=partial(seed_paid_order, rma_1=800, rma_2=800),
                edit=send(second),
                fixed_prefix=f"w1:{call}>edit w1:{call}>deliver",
                duplicate_messages=1,
            )
            for name, call in (
                ("two-race", "jobs.transact_write_items"),
                ("two-undecided", "stripe.refund"),
            )
        ),
        # The first refund is not decided when the second one is requested, and the charge does not
        # count it yet.
        refund_scenario(
            "two-exceed-slow",
            charged(refund_status="pending", processing_time=TEN_MINUTES, charge_lag=TEN_MINUTES),
            seed_rows=partial(seed_paid_order, rma_1=800, rma_2=800),
            edit=send(second),
        ),
    )
