"""payment.refund at Braintree: a void until the sale settles, then one call with our key."""

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any, Final

from oncely.jobs.payment_refund import LIST_LAG
from oncely.providers.braintree.sandbox import SUBMITTED
from oncely.testing.rows import BusinessRows
from oncely.testing.sandbox import FaultKind
from oncely.testing.scenario import RestoreMode, Scenario
from tests.faults.expectations import ORDER
from tests.faults.providers import (
    TEN_MINUTES,
    NewBraintree,
    add_sale,
    braintree,
    braintree_fault,
)
from tests.faults.refund_scenarios import (
    CAPTURED,
    REFUND,
    check_other_deployment,
    refund_scenario,
    request_refund,
    send,
)
from tests.support.orders import order_row

# Longer than a lost response takes to be noticed, and shorter than the lag of the list.
SOON: Final = timedelta(minutes=2)


def seed_order(rows: BusinessRows, **amounts: int) -> None:
    paid = order_row(status="paid", charge_id="bt_1", payment_provider="braintree")
    rows.put("orders", ORDER, paid)
    for refund_id, amount in (amounts or {"rma_1": 600}).items():
        request_refund(rows, refund_id, amount)


def settled(**attributes: Any) -> NewBraintree:  # noqa: ANN401  # those of the model
    """The order of 12.50 EUR is paid and settled, and only our own rules limit its refunds."""
    return braintree(seed=add_sale, limits_refunds=False, **attributes)


def submitted(**attributes: Any) -> NewBraintree:  # noqa: ANN401  # as above
    seed = partial(add_sale, status=SUBMITTED)
    return braintree(seed=seed, limits_refunds=False, **attributes)


def faults(call: str, *kinds: FaultKind, late_by: timedelta = TEN_MINUTES) -> tuple[Any, ...]:
    return tuple(braintree_fault(kind, call, seconds=late_by.total_seconds()) for kind in kinds)


def braintree_refund_scenarios() -> Iterator[Scenario]:
    def scenario(name: str, payments: NewBraintree, **more: object) -> Scenario:
        given: dict[str, Any] = {"provider": "braintree", "seed_rows": seed_order, **more}
        return refund_scenario(f"braintree/{name}", payments, **given)

    whole = partial(seed_order, rma_1=CAPTURED)
    yield scenario("settled", settled())
    # It settles while the void is under way, or is lost.
    yield scenario("void-or-settled", submitted(settled_after=SOON), seed_rows=whole)
    for kind in (FaultKind.ARRIVES_LATE, FaultKind.ERROR_BEFORE):
        yield scenario(
            f"void-{kind}",
            submitted(settled_after=SOON),
            seed_rows=whole,
            provider_faults=faults("close", kind, late_by=timedelta(seconds=90)),
        )
    yield scenario("part-waits", submitted(settled_after=timedelta(minutes=30)))
    yield scenario("declined", settled(refund_status="processor_declined"))
    # The 500 stays under its key, so only the next number can succeed.
    yield scenario(
        "server-error", settled(), provider_faults=faults("refund", FaultKind.ERROR_BEFORE)
    )
    # A delayed request could refund again.
    yield scenario("stuck", settled(), provider_faults=faults("refund", FaultKind.ARRIVES_LATE))
    # Refunded, answered with a stored 500, and neither the search nor the sale shows it yet.
    lag = timedelta(seconds=90)
    yield scenario(
        "stale",
        settled(search_lag=lag, refund_ids_lag=lag),
        provider_faults=faults("refund", FaultKind.ERROR_AFTER),
    )
    # One of them shows it.
    for name in ("search_lag", "refund_ids_lag"):
        yield scenario(
            f"stale-{name}",
            settled(**{name: 2 * LIST_LAG}),
            provider_faults=faults("refund", FaultKind.ERROR_AFTER),
        )
    # Without keys, nothing but the lookup makes a repeat safe.
    for kind in (FaultKind.ACCEPT_THEN_DROP, FaultKind.DROP_BEFORE):
        yield scenario(
            f"no-keys-{kind}",
            settled(accepts_keys=False, search_lag=SOON, refund_ids_lag=SOON),
            # The first is the rejection of the key.
            provider_faults=tuple({**one, "skip": 1} for one in faults("refund", kind)),
        )
    yield scenario(
        "no-keys-stale-search",
        settled(accepts_keys=False, search_lag=2 * LIST_LAG),
        provider_faults=({**braintree_fault(FaultKind.ERROR_AFTER, "refund"), "skip": 1},),
    )
    yield scenario(
        "two-exceed",
        settled(),
        seed_rows=partial(seed_order, rma_1=800, rma_2=800),
        edit=send({**REFUND, "refund_id": "rma_2"}),
    )
    yield scenario(
        "two-stacks",
        braintree(seed=partial(add_sale, deployment="staging"), limits_refunds=False),
        check=check_other_deployment,
    )
    # A restore loses the job whose refund had no answer, and not what it reserved. A month later,
    # when lookups of what it lost have ended, the message is sent again.
    (lost,) = faults("refund", FaultKind.ACCEPT_THEN_DROP)
    yield scenario(
        "no-keys-restored-jobs-and-replayed",
        settled(accepts_keys=False, search_lag=SOON, refund_ids_lag=SOON),
        restore=RestoreMode.JOBS_LAGGING,
        provider_faults=({**lost, "skip": 1},),
        fixed_prefix="w1:end>restore3",
        sweeps_at=(timedelta(days=30),),
        duplicate_messages=1,
    )
