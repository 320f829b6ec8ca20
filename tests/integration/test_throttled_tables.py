"""Throttling and failures of DynamoDB, injected because no local engine produces them."""

from collections.abc import Callable
from typing import Any

import pytest

from oncely.core.errors import UnavailableError
from oncely.core.job_row import JobRow
from oncely.core.store import (
    BusinessWriteConflict,
    Claimed,
    Created,
    JobStore,
    Swapped,
    SwapResult,
    VersionConflict,
)
from tests.conformance.samples import (
    KEY,
    ORDER_KEY,
    PAID_ORDER,
    RESUBMITTED_KEY,
    UNPAID_ORDER,
    add_note,
    claim_job,
    fail_job,
    finish_job,
    make_claim,
    make_ready_job,
    paid_order_write,
)
from tests.support.dynamo import DynamoFixture
from tests.support.fault_injecting_client import FaultInjector, ProxyErrorPage, ServiceError

THROTTLED_REASONS = [
    ("TransactionConflict", "None"),
    ("None", "TransactionConflict"),
    ("ThrottlingError", "None"),
    ("TransactionConflict", "ThrottlingError"),
    ("ProvisionedThroughputExceeded", "None"),
]
# The SDK does not retry these by itself.
CONFLICT = ServiceError("TransactionConflictException")
# Errors that leave the result of a write open.
AMBIGUOUS_ERRORS = [
    ("InternalServerError", 500),
    ("ServiceUnavailable", 503),
    ("TransactionInProgressException", 400),
    ("an unknown error", 500),
]


class ThrottledTables:
    def __init__(self, dynamo: DynamoFixture) -> None:
        self.dynamo = dynamo
        self.pauses: list[float] = []
        self.store: JobStore = dynamo.store(sleep=self.pauses.append)
        dynamo.rows().put("orders", ORDER_KEY, UNPAID_ORDER)
        self.before = claim_job(self.store)
        self.after = finish_job(self.before)
        self.faults = FaultInjector(dynamo.client)
        dynamo.calls.reset()

    def finish_job(self) -> SwapResult:
        writes = [paid_order_write()]
        return self.store.swap(self.before, self.after, business_writes=writes)

    def row(self) -> JobRow | None:
        return self.dynamo.store(self.dynamo.admin).get(KEY)


@pytest.fixture
def rig(dynamo: DynamoFixture) -> ThrottledTables:
    return ThrottledTables(dynamo)


def cancelled_transaction(*reasons: str) -> ServiceError:
    return ServiceError("TransactionCanceledException", reasons=reasons)


@pytest.mark.parametrize("reasons", THROTTLED_REASONS)
def test_end_is_written_once_after_conflict(rig: ThrottledTables, reasons: tuple[str, ...]) -> None:
    rig.faults.inject("TransactWriteItems", *[cancelled_transaction(*reasons)] * 3)
    assert rig.finish_job() == Swapped(rig.after)
    assert rig.dynamo.calls.attempts == ["TransactWriteItems"] * 4
    assert (rig.pauses, len(rig.pauses), rig.row()) == (sorted(rig.pauses), 3, rig.after)
    assert rig.dynamo.rows().get("orders", ORDER_KEY) == PAID_ORDER


def test_lasting_conflict_is_unavailable_within_two_seconds(rig: ThrottledTables) -> None:
    conflict = cancelled_transaction("TransactionConflict", "None")
    rig.faults.inject("TransactWriteItems", *[conflict] * 20)

    with pytest.raises(UnavailableError, match=f"throttling the row of {KEY}"):
        rig.finish_job()
    assert 0.5 <= sum(rig.pauses) <= 2
    assert rig.row() == rig.before


@pytest.mark.parametrize(
    "write",
    [
        lambda rig: rig.store.swap(rig.before, add_note(rig.before)),
        lambda rig: rig.store.claim(make_claim(job_key=RESUBMITTED_KEY)),
    ],
    ids=["change", "claim"],
)
def test_write_is_retried_until_other_transaction_ends(
    rig: ThrottledTables, write: Callable[[ThrottledTables], object]
) -> None:
    rig.faults.inject("UpdateItem", CONFLICT, CONFLICT)
    assert isinstance(write(rig), Swapped | Claimed)
    assert (rig.dynamo.calls.attempts, len(rig.pauses)) == (["UpdateItem"] * 3, 2)


def test_lasting_transaction_makes_claim_unavailable(rig: ThrottledTables) -> None:
    rig.faults.inject("UpdateItem", *[CONFLICT] * 20)
    with pytest.raises(UnavailableError, match="throttling"):
        rig.store.claim(make_claim(job_key=RESUBMITTED_KEY))
    assert sum(rig.pauses) <= 2
    assert rig.dynamo.row(RESUBMITTED_KEY) is None


def test_throttled_write_is_retried_by_sdk_and_store(rig: ThrottledTables) -> None:
    rig.faults.inject("PutItem", *[ServiceError("ProvisionedThroughputExceededException")] * 3)
    job = make_ready_job(RESUBMITTED_KEY)
    assert rig.store.create(job) == Created(job)
    assert (rig.dynamo.calls.attempts, len(rig.pauses)) == (["PutItem"] * 4, 1)


def test_resubmitted_job_is_claimed_once_after_conflict(rig: ThrottledTables) -> None:
    rig.store.swap(rig.before, fail_job(rig.before))
    rig.faults.inject("TransactWriteItems", cancelled_transaction("None", "TransactionConflict"))
    result = rig.store.claim(make_claim(job_key=RESUBMITTED_KEY, requires_failed=KEY))
    assert isinstance(result, Claimed)
    assert (result.job.fence, result.job.attempts) == (1, 1)


def test_order_conflict_precedes_transaction_conflict(rig: ThrottledTables) -> None:
    reasons = ("TransactionConflict", "ConditionalCheckFailed")
    rig.faults.inject("TransactWriteItems", cancelled_transaction(*reasons))
    result = rig.finish_job()
    assert isinstance(result, BusinessWriteConflict)
    assert "orders 18452" in result.reason


@pytest.mark.parametrize("performed", [True, False])
@pytest.mark.parametrize(("code", "status"), AMBIGUOUS_ERRORS)
def test_failed_write_is_read_back(
    rig: ThrottledTables, code: str, status: int, *, performed: bool
) -> None:
    rig.faults.inject("TransactWriteItems", *[ServiceError(code, status, performed=performed)] * 2)

    if performed:
        assert rig.finish_job() == Swapped(rig.after)
    else:
        with pytest.raises(UnavailableError, match=KEY):
            rig.finish_job()
    assert rig.dynamo.calls.by_operation() == {"TransactWriteItems": 1, "GetItem": 1}
    assert rig.row() == (rig.after if performed else rig.before)


def test_failed_write_conflicts_with_change_of_others(rig: ThrottledTables) -> None:
    theirs = add_note(rig.before)
    rig.dynamo.store(rig.dynamo.admin).swap(rig.before, theirs)
    rig.faults.inject("UpdateItem", *[ServiceError("InternalServerError", 500)] * 2)
    assert rig.store.swap(rig.before, rig.after) == VersionConflict(theirs)


@pytest.mark.parametrize("status", [502, 503, 504])
def test_load_balancer_error_page_is_read_back(rig: ThrottledTables, status: int) -> None:
    rig.faults.inject("TransactWriteItems", *[ProxyErrorPage(status, performed=True)] * 2)
    assert rig.finish_job() == Swapped(rig.after)
    assert rig.row() == rig.after


@pytest.mark.parametrize(
    "fault",
    [
        ServiceError("InternalServerError", 500),
        ProxyErrorPage(503),
        ServiceError("ThrottlingException"),
    ],
    ids=["failure", "page", "throttle"],
)
def test_failed_read_is_unavailable(rig: ThrottledTables, fault: Any) -> None:  # noqa: ANN401  # either
    rig.faults.inject("GetItem", fault, fault)
    with pytest.raises(UnavailableError, match=KEY):
        rig.store.get(KEY)
