"""No engine throttles or fails by itself: what DynamoDB would answer is put in its place."""

from collections.abc import Callable

import pytest

from oncely.aws.dynamodb_job_store import DynamoJobStore
from oncely.domain.errors import UnavailableError
from oncely.domain.jobs import Job
from oncely.domain.lifecycle import Event
from oncely.ports import (
    BusinessWriteConflict,
    Claimed,
    Created,
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
    apply_event,
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
# What leaves a write's fate open.
AMBIGUOUS_ERRORS = [
    ("InternalServerError", 500),
    ("ServiceUnavailable", 503),
    ("TransactionInProgressException", 400),
    ("an error that nobody has heard of", 500),
]


class ThrottledTables:
    """A started job with an unpaid order, faults, and a count of the pauses."""

    def __init__(self, dynamo: DynamoFixture) -> None:
        self.dynamo = dynamo
        self.pauses: list[float] = []
        self.store: DynamoJobStore = dynamo.store(sleep=self.pauses.append)
        dynamo.rows().put("orders", ORDER_KEY, UNPAID_ORDER)
        self.before = claim_job(self.store)
        self.after = finish_job(self.before)
        self.faults = FaultInjector(dynamo.client)
        dynamo.calls.reset()

    def finish_job(self) -> SwapResult:
        return self.store.compare_and_swap(
            self.before, self.after, business_writes=[paid_order_write()]
        )

    def row(self) -> Job | None:
        return self.dynamo.store(self.dynamo.admin).get(KEY)


@pytest.fixture
def throttled(dynamo: DynamoFixture) -> ThrottledTables:
    return ThrottledTables(dynamo)


def cancelled_transaction(*reasons: str) -> ServiceError:
    return ServiceError("TransactionCanceledException", reasons=reasons)


@pytest.mark.parametrize("reasons", THROTTLED_REASONS)
def test_end_is_retried_and_written_once_after_conflict(
    throttled: ThrottledTables, reasons: tuple[str, ...]
) -> None:
    throttled.faults.inject("TransactWriteItems", *[cancelled_transaction(*reasons)] * 3)

    assert throttled.finish_job() == Swapped(throttled.after)
    assert throttled.dynamo.calls.attempts == ["TransactWriteItems"] * 4
    assert throttled.pauses == sorted(throttled.pauses)
    assert len(throttled.pauses) == 3
    assert throttled.row() == throttled.after
    assert throttled.dynamo.rows().get("orders", ORDER_KEY) == PAID_ORDER


def test_lasting_conflict_is_unavailable_within_two_seconds(throttled: ThrottledTables) -> None:
    throttled.faults.inject(
        "TransactWriteItems", *[cancelled_transaction("TransactionConflict", "None")] * 20
    )

    with pytest.raises(UnavailableError, match=f"throttling the row of {KEY}"):
        throttled.finish_job()
    assert 0.5 <= sum(throttled.pauses) <= 2
    assert throttled.row() == throttled.before


@pytest.mark.parametrize(
    "write",
    [
        lambda bench: bench.store.compare_and_swap(
            bench.before, apply_event(bench.before, Event.NOTE)
        ),
        lambda bench: bench.store.claim(make_claim(job_key=RESUBMITTED_KEY)),
    ],
    ids=["change", "claim"],
)
def test_write_is_retried_until_other_transaction_ends(
    throttled: ThrottledTables, write: Callable[[ThrottledTables], object]
) -> None:
    throttled.faults.inject("UpdateItem", CONFLICT, CONFLICT)

    result = write(throttled)

    assert isinstance(result, Swapped | Claimed)
    assert throttled.dynamo.calls.attempts == ["UpdateItem"] * 3
    assert len(throttled.pauses) == 2


def test_lasting_transaction_makes_claim_unavailable(throttled: ThrottledTables) -> None:
    throttled.faults.inject("UpdateItem", *[CONFLICT] * 20)

    with pytest.raises(UnavailableError, match="too busy"):
        throttled.store.claim(make_claim(job_key=RESUBMITTED_KEY))
    assert sum(throttled.pauses) <= 2
    assert throttled.dynamo.row(RESUBMITTED_KEY) is None


def test_throttled_write_is_retried_by_sdk_and_store(throttled: ThrottledTables) -> None:
    throttled.faults.inject(
        "PutItem", *[ServiceError("ProvisionedThroughputExceededException")] * 3
    )
    job = make_ready_job(RESUBMITTED_KEY)

    assert throttled.store.create(job) == Created(job)
    assert throttled.dynamo.calls.attempts == ["PutItem"] * 4
    assert len(throttled.pauses) == 1


def test_resubmitted_job_is_claimed_once_after_conflict(throttled: ThrottledTables) -> None:
    throttled.store.compare_and_swap(throttled.before, fail_job(throttled.before))
    throttled.faults.inject(
        "TransactWriteItems", cancelled_transaction("None", "TransactionConflict")
    )

    result = throttled.store.claim(make_claim(job_key=RESUBMITTED_KEY, requires_failed=KEY))

    assert isinstance(result, Claimed)
    assert (result.job.fence, result.job.attempts) == (1, 1)


def test_order_conflict_precedes_transaction_conflict(throttled: ThrottledTables) -> None:
    reasons = ("TransactionConflict", "ConditionalCheckFailed")
    throttled.faults.inject("TransactWriteItems", cancelled_transaction(*reasons))

    result = throttled.finish_job()

    assert isinstance(result, BusinessWriteConflict)
    assert "orders 18452" in result.reason


@pytest.mark.parametrize(("code", "status"), AMBIGUOUS_ERRORS)
def test_failed_write_is_read_back_and_found(
    throttled: ThrottledTables, code: str, status: int
) -> None:
    throttled.faults.inject("TransactWriteItems", *[ServiceError(code, status, performed=True)] * 2)

    assert throttled.finish_job() == Swapped(throttled.after)
    assert throttled.dynamo.calls.by_operation() == {"TransactWriteItems": 1, "GetItem": 1}
    assert throttled.row() == throttled.after


@pytest.mark.parametrize(("code", "status"), AMBIGUOUS_ERRORS)
def test_failed_write_is_read_back_and_not_found(
    throttled: ThrottledTables, code: str, status: int
) -> None:
    throttled.faults.inject("TransactWriteItems", *[ServiceError(code, status)] * 2)

    with pytest.raises(UnavailableError, match=KEY):
        throttled.finish_job()
    assert throttled.dynamo.calls.by_operation() == {"TransactWriteItems": 1, "GetItem": 1}
    assert throttled.row() == throttled.before


def test_failed_write_conflicts_with_change_of_others(throttled: ThrottledTables) -> None:
    theirs = add_note(throttled.before)
    throttled.dynamo.store(throttled.dynamo.admin).compare_and_swap(throttled.before, theirs)
    throttled.faults.inject("UpdateItem", *[ServiceError("InternalServerError", 500)] * 2)

    assert throttled.store.compare_and_swap(throttled.before, throttled.after) == VersionConflict(
        theirs
    )


@pytest.mark.parametrize("status", [502, 503, 504])
def test_load_balancer_error_page_is_read_back(throttled: ThrottledTables, status: int) -> None:
    throttled.faults.inject("TransactWriteItems", *[ProxyErrorPage(status, performed=True)] * 2)

    assert throttled.finish_job() == Swapped(throttled.after)
    assert throttled.row() == throttled.after


@pytest.mark.parametrize(
    "fault",
    [
        ServiceError("InternalServerError", 500),
        ProxyErrorPage(503),
        ServiceError("ThrottlingException"),
    ],
    ids=["failure", "page", "throttle"],
)
def test_failed_read_is_unavailable(
    throttled: ThrottledTables, fault: ServiceError | ProxyErrorPage
) -> None:
    throttled.faults.inject("GetItem", fault, fault)

    with pytest.raises(UnavailableError, match=KEY):
        throttled.store.get(KEY)
