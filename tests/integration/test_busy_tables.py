"""No engine throttles or fails by itself: what DynamoDB would answer is put in its place."""

from collections.abc import Callable

import pytest

from oncely.adapters.dynamodb_jobs import DynamoJobStore
from oncely.domain.errors import UnavailableError
from oncely.domain.jobs import Job
from oncely.domain.lifecycle import Event
from oncely.ports import Claimed, Created, LocalRefused, Overtaken, SwapResult, Written
from tests.contract.samples import (
    A_PAID_ORDER,
    AN_UNPAID_ORDER,
    KEY,
    ORDER_KEY,
    SECOND_TRY,
    a_claim,
    a_ready_job,
    failed,
    finished,
    moved,
    order_becomes_paid,
    started,
    with_a_note,
)
from tests.support.dynamo import Dynamo
from tests.support.faulty_aws import FaultyAws, Page, Refusal

BUSY_REASONS = [
    ("TransactionConflict", "None"),
    ("None", "TransactionConflict"),
    ("ThrottlingError", "None"),
    ("TransactionConflict", "ThrottlingError"),
    ("ProvisionedThroughputExceeded", "None"),
]
# The SDK does not retry these by itself.
CONFLICT = Refusal("TransactionConflictException")
# What leaves a write's fate open.
OPEN = [
    ("InternalServerError", 500),
    ("ServiceUnavailable", 503),
    ("TransactionInProgressException", 400),
    ("an error that nobody has heard of", 500),
]


class Bench:
    """A started job with an unpaid order, faults, and a count of the pauses."""

    def __init__(self, dynamo: Dynamo) -> None:
        self.dynamo = dynamo
        self.pauses: list[float] = []
        self.store: DynamoJobStore = dynamo.store(sleep=self.pauses.append)
        dynamo.rows().put("orders", ORDER_KEY, AN_UNPAID_ORDER)
        self.before = started(self.store)
        self.after = finished(self.before)
        self.faults = FaultyAws(dynamo.client)
        dynamo.calls.forget()

    def end(self) -> SwapResult:
        return self.store.swap(self.before, self.after, local=[order_becomes_paid()])

    def row(self) -> Job | None:
        return self.dynamo.store(self.dynamo.admin).get(KEY)


@pytest.fixture
def bench(dynamo: Dynamo) -> Bench:
    return Bench(dynamo)


def cancelled(*reasons: str) -> Refusal:
    return Refusal("TransactionCanceledException", reasons=reasons)


@pytest.mark.parametrize("reasons", BUSY_REASONS)
def test_end_is_retried_and_written_once_after_conflict(
    bench: Bench, reasons: tuple[str, ...]
) -> None:
    bench.faults.on("TransactWriteItems", *[cancelled(*reasons)] * 3)

    assert bench.end() == Written(bench.after)
    assert bench.dynamo.calls.tries == ["TransactWriteItems"] * 4
    assert bench.pauses == sorted(bench.pauses)
    assert len(bench.pauses) == 3
    assert bench.row() == bench.after
    assert bench.dynamo.rows().get("orders", ORDER_KEY) == A_PAID_ORDER


def test_lasting_conflict_is_unavailable_within_two_seconds(bench: Bench) -> None:
    bench.faults.on("TransactWriteItems", *[cancelled("TransactionConflict", "None")] * 20)

    with pytest.raises(UnavailableError, match=f"too busy for the row of {KEY}"):
        bench.end()
    assert 0.5 <= sum(bench.pauses) <= 2
    assert bench.row() == bench.before


@pytest.mark.parametrize(
    "write",
    [
        lambda bench: bench.store.swap(bench.before, moved(bench.before, Event.NOTE)),
        lambda bench: bench.store.claim(a_claim(job_key=SECOND_TRY)),
    ],
    ids=["change", "claim"],
)
def test_write_is_retried_until_other_transaction_ends(
    bench: Bench, write: Callable[[Bench], object]
) -> None:
    bench.faults.on("UpdateItem", CONFLICT, CONFLICT)

    result = write(bench)

    assert isinstance(result, Written | Claimed)
    assert bench.dynamo.calls.tries == ["UpdateItem"] * 3
    assert len(bench.pauses) == 2


def test_lasting_transaction_makes_claim_unavailable(bench: Bench) -> None:
    bench.faults.on("UpdateItem", *[CONFLICT] * 20)

    with pytest.raises(UnavailableError, match="too busy"):
        bench.store.claim(a_claim(job_key=SECOND_TRY))
    assert sum(bench.pauses) <= 2
    assert bench.dynamo.row(SECOND_TRY) is None


def test_throttled_write_is_retried_by_sdk_and_store(bench: Bench) -> None:
    bench.faults.on("PutItem", *[Refusal("ProvisionedThroughputExceededException")] * 3)
    job = a_ready_job(SECOND_TRY)

    assert bench.store.create(job) == Created(job)
    assert bench.dynamo.calls.tries == ["PutItem"] * 4
    assert len(bench.pauses) == 1


def test_resubmitted_job_is_claimed_once_after_conflict(bench: Bench) -> None:
    bench.store.swap(bench.before, failed(bench.before))
    bench.faults.on("TransactWriteItems", cancelled("None", "TransactionConflict"))

    result = bench.store.claim(a_claim(job_key=SECOND_TRY, requires_failed=KEY))

    assert isinstance(result, Claimed)
    assert (result.job.fence, result.job.attempts) == (1, 1)


def test_order_conflict_precedes_transaction_conflict(bench: Bench) -> None:
    reasons = ("TransactionConflict", "ConditionalCheckFailed")
    bench.faults.on("TransactWriteItems", cancelled(*reasons))

    result = bench.end()

    assert isinstance(result, LocalRefused)
    assert "orders 18452" in result.why


@pytest.mark.parametrize(("code", "status"), OPEN)
def test_failed_write_is_read_back_and_found(bench: Bench, code: str, status: int) -> None:
    bench.faults.on("TransactWriteItems", *[Refusal(code, status, performed=True)] * 2)

    assert bench.end() == Written(bench.after)
    assert bench.dynamo.calls.by_operation() == {"TransactWriteItems": 1, "GetItem": 1}
    assert bench.row() == bench.after


@pytest.mark.parametrize(("code", "status"), OPEN)
def test_failed_write_is_read_back_and_not_found(bench: Bench, code: str, status: int) -> None:
    bench.faults.on("TransactWriteItems", *[Refusal(code, status)] * 2)

    with pytest.raises(UnavailableError, match=KEY):
        bench.end()
    assert bench.dynamo.calls.by_operation() == {"TransactWriteItems": 1, "GetItem": 1}
    assert bench.row() == bench.before


def test_failed_write_conflicts_with_change_of_others(bench: Bench) -> None:
    theirs = with_a_note(bench.before)
    bench.dynamo.store(bench.dynamo.admin).swap(bench.before, theirs)
    bench.faults.on("UpdateItem", *[Refusal("InternalServerError", 500)] * 2)

    assert bench.store.swap(bench.before, bench.after) == Overtaken(theirs)


@pytest.mark.parametrize("status", [502, 503, 504])
def test_load_balancer_error_page_is_read_back(bench: Bench, status: int) -> None:
    bench.faults.on("TransactWriteItems", *[Page(status, performed=True)] * 2)

    assert bench.end() == Written(bench.after)
    assert bench.row() == bench.after


@pytest.mark.parametrize(
    "fault",
    [Refusal("InternalServerError", 500), Page(503), Refusal("ThrottlingException")],
    ids=["failure", "page", "throttle"],
)
def test_failed_read_is_unavailable(bench: Bench, fault: Refusal | Page) -> None:
    bench.faults.on("GetItem", fault, fault)

    with pytest.raises(UnavailableError, match=KEY):
        bench.store.get(KEY)
