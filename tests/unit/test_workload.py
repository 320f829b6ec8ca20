"""The demo's workload: repeatable by seed, with every job type and every kind of message."""

import json
from collections import Counter
from collections.abc import Mapping

import pytest

from oncely.contracts.registry import JobRegistry
from oncely.core.errors import InvalidInputError
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely_local.workload import DECLINED, PAYMENT_METHODS, SeedRow, generate_workload


def test_seed_determines_workload() -> None:
    assert generate_workload(jobs=100, seed=7) == generate_workload(jobs=100, seed=7)
    assert generate_workload(jobs=100, seed=7) != generate_workload(jobs=100, seed=8)


@pytest.mark.parametrize("jobs", [1, 12, 300, 10_000])
def test_workload_has_about_requested_number_of_jobs(jobs: int) -> None:
    drawn = generate_workload(jobs=jobs, seed=1)
    declined = {methods[DECLINED] for methods in PAYMENT_METHODS.values()}
    receipts = sum(order["payment_method"] not in declined for order in drawn.rows["orders"])
    total = len(drawn.jobs) + receipts + drawn.contacts
    assert 0.9 * jobs <= total <= 1.1 * jobs + 8


def test_workload_holds_every_job_type_but_receipts() -> None:
    kinds = {key.partition(":")[0] for key in generate_workload(jobs=50, seed=1).jobs}
    # Producers never request a receipt: it follows a payment.
    assert kinds == {
        *("payment.charge", "payment.refund"),
        *("sync.contact", "sync.import", "sync.push"),
    }


def test_every_refund_of_the_workload_is_requested() -> None:
    drawn = generate_workload(jobs=300, seed=1)
    requested = {(row["order_id"], row["refund_id"]) for row in drawn.rows["refund_requests"]}
    messages = [json.loads(one.body) for key, one in drawn.jobs.items() if "refund" in key]
    assert {(one["order_id"], one["refund_id"]) for one in messages} == requested


def test_workload_contains_immediate_and_later_duplicates() -> None:
    drawn = generate_workload(jobs=300, seed=1)
    first = {(one.queue, one.body): one.time_fraction for one in drawn.jobs.values()}

    moments = [(one.time_fraction, first[one.queue, one.body]) for one in drawn.duplicates]

    assert any(at == began for at, began in moments)
    assert any(at > began for at, began in moments)
    assert all(at >= began for at, began in moments)


def test_invalid_messages_are_distinct_and_unworkable() -> None:
    drawn = generate_workload(jobs=300, seed=1)
    orders = {order["order_id"]: order for order in drawn.rows["orders"]}
    bodies = [one.body for one in drawn.invalid]

    assert len(bodies) == len(set(bodies))
    for body in bodies:
        assert is_rejected(body) or has_changed_values(json.loads(body), orders)


def is_rejected(body: str) -> bool:
    try:
        JobRegistry(SHIPPED_JOBS).parse_body(body)
    except InvalidInputError:
        return True
    return False


def has_changed_values(message: dict[str, str | int], orders: Mapping[str | int, SeedRow]) -> bool:
    return orders[message["order_id"]]["amount"] != message["amount"]


def test_messages_are_sent_in_order_of_time() -> None:
    drawn = generate_workload(jobs=50, seed=1)
    moments = [one.time_fraction for one in drawn.messages]
    assert moments == sorted(moments)
    assert Counter(drawn.messages) >= Counter(drawn.jobs.values())
