"""A write whose reply is lost is performed once, whoever finds that out: the SDK, or we."""

import pytest

from oncely.domain.errors import UnavailableError
from oncely.domain.lifecycle import Event
from oncely.ports import AlreadyExists, Claimed, ClaimFailed, Created, Swapped, VersionConflict
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
    time_at,
)
from tests.support.dynamo import DynamoFixture
from tests.support.fault_injecting_client import FaultInjector, NetworkFault

# The first try is performed and nobody hears of it; the SDK's own retry meets what it did.
RETRIED_BY_SDK = [(NetworkFault.REPLY_LOST,), (NetworkFault.REPLY_TIMEOUT,)]
# Performed, and every try ends without an answer.
AMBIGUOUS_FAULTS = [
    (NetworkFault.REPLY_LOST, NetworkFault.REPLY_LOST),
    (NetworkFault.REPLY_TIMEOUT, NetworkFault.CONNECTION_REFUSED),
    (NetworkFault.REQUEST_LOST, NetworkFault.REPLY_LOST),
]
LOST_REPLIES = [*RETRIED_BY_SDK, *AMBIGUOUS_FAULTS]
NEVER_ARRIVED = [
    (NetworkFault.REQUEST_LOST, NetworkFault.REQUEST_LOST),
    (NetworkFault.CONNECTION_REFUSED, NetworkFault.CONNECTION_REFUSED),
]


@pytest.fixture
def faults(dynamo: DynamoFixture) -> FaultInjector:
    return FaultInjector(dynamo.client)


@pytest.mark.parametrize("lost", LOST_REPLIES)
def test_claim_with_lost_reply_is_recognized_as_own(
    dynamo: DynamoFixture, faults: FaultInjector, lost: tuple[NetworkFault, ...]
) -> None:
    faults.inject("UpdateItem", *lost)

    result = dynamo.store().claim(make_claim())

    assert isinstance(result, Claimed)
    assert (result.job.fence, result.job.attempts, result.job.version) == (1, 1, 1)
    assert dynamo.store().get(KEY) == result.job
    assert faults.all_used


@pytest.mark.parametrize("lost", [(NetworkFault.REQUEST_LOST,), *NEVER_ARRIVED])
def test_undelivered_claim_fails_when_other_worker_claimed(
    dynamo: DynamoFixture, faults: FaultInjector, lost: tuple[NetworkFault, ...]
) -> None:
    theirs = claim_job(dynamo.store(dynamo.separate_client()))
    faults.inject("UpdateItem", *lost)

    assert dynamo.store().claim(make_claim()) == ClaimFailed(theirs)
    assert faults.all_used


def test_undelivered_claim_succeeds_on_sdk_retry(
    dynamo: DynamoFixture, faults: FaultInjector
) -> None:
    faults.inject("UpdateItem", NetworkFault.REQUEST_LOST)

    result = dynamo.store().claim(make_claim())

    assert isinstance(result, Claimed)
    assert (result.job.fence, result.job.attempts) == (1, 1)
    assert dynamo.calls.attempts == ["UpdateItem", "UpdateItem"]


@pytest.mark.parametrize("lost", NEVER_ARRIVED)
def test_undelivered_claim_is_unavailable_and_leaves_no_row(
    dynamo: DynamoFixture, faults: FaultInjector, lost: tuple[NetworkFault, ...]
) -> None:
    faults.inject("UpdateItem", *lost)

    with pytest.raises(UnavailableError, match=KEY):
        dynamo.store().claim(make_claim())
    assert dynamo.row(KEY) is None
    assert dynamo.calls.by_operation() == {"UpdateItem": 1, "GetItem": 1}


@pytest.mark.parametrize("lost", LOST_REPLIES)
def test_resubmitted_claim_with_lost_reply_is_recognized_as_own(
    dynamo: DynamoFixture, faults: FaultInjector, lost: tuple[NetworkFault, ...]
) -> None:
    first = claim_job(dynamo.store())
    dynamo.store().compare_and_swap(first, fail_job(first))
    faults.inject("TransactWriteItems", *lost)

    result = dynamo.store().claim(make_claim(job_key=RESUBMITTED_KEY, requires_failed=KEY))

    assert isinstance(result, Claimed)
    assert (result.job.fence, result.job.attempts, result.job.version) == (1, 1, 1)
    assert faults.all_used


@pytest.mark.parametrize("lost", LOST_REPLIES)
def test_create_with_lost_reply_creates_row_once(
    dynamo: DynamoFixture, faults: FaultInjector, lost: tuple[NetworkFault, ...]
) -> None:
    faults.inject("PutItem", *lost)

    assert dynamo.store().create(make_ready_job()) == Created(make_ready_job())
    assert dynamo.store().get(KEY) == make_ready_job()
    assert faults.all_used


def test_undelivered_create_returns_row_of_other_producer(
    dynamo: DynamoFixture, faults: FaultInjector
) -> None:
    theirs = make_ready_job(created_at=time_at(5))
    dynamo.store(dynamo.separate_client()).create(theirs)
    faults.inject("PutItem", *NEVER_ARRIVED[0])

    assert dynamo.store().create(make_ready_job()) == AlreadyExists(theirs)


@pytest.mark.parametrize("lost", LOST_REPLIES)
def test_saved_reference_with_lost_reply_is_written_once(
    dynamo: DynamoFixture, faults: FaultInjector, lost: tuple[NetworkFault, ...]
) -> None:
    before = claim_job(dynamo.store())
    after = apply_event(before, Event.CHECKPOINT, provider_ref="pi_1")
    faults.inject("UpdateItem", *lost)

    assert dynamo.store().compare_and_swap(before, after) == Swapped(after)
    assert dynamo.store().get(KEY) == after
    assert after.version == before.version + 1
    assert faults.all_used


@pytest.mark.parametrize("lost", LOST_REPLIES)
def test_end_with_lost_reply_is_written_once_with_its_order(
    dynamo: DynamoFixture, faults: FaultInjector, lost: tuple[NetworkFault, ...]
) -> None:
    dynamo.rows().put("orders", ORDER_KEY, UNPAID_ORDER)
    before = claim_job(dynamo.store())
    after = finish_job(before)
    faults.inject("TransactWriteItems", *lost)

    assert dynamo.store().compare_and_swap(
        before, after, business_writes=[paid_order_write()]
    ) == Swapped(after)
    assert dynamo.store().get(KEY) == after
    assert dynamo.rows().get("orders", ORDER_KEY) == PAID_ORDER
    assert faults.all_used


def test_end_with_lost_reply_is_recognized_after_later_evidence(
    dynamo: DynamoFixture, faults: FaultInjector
) -> None:
    dynamo.rows().put("orders", ORDER_KEY, UNPAID_ORDER)
    before = claim_job(dynamo.store())
    after = finish_job(before)
    faults.inject("TransactWriteItems", *AMBIGUOUS_FAULTS[0])
    others = dynamo.store(dynamo.separate_client())

    def leave_a_note(**_: object) -> None:
        others.compare_and_swap(after, add_note(after))

    dynamo.client.meta.events.register("before-send.dynamodb.GetItem", leave_a_note)

    assert dynamo.store().compare_and_swap(
        before, after, business_writes=[paid_order_write()]
    ) == Swapped(after)
    assert dynamo.store().get(KEY) == add_note(after)


@pytest.mark.parametrize("lost", NEVER_ARRIVED)
def test_undelivered_change_is_unavailable_and_leaves_row(
    dynamo: DynamoFixture, faults: FaultInjector, lost: tuple[NetworkFault, ...]
) -> None:
    before = claim_job(dynamo.store())
    faults.inject("UpdateItem", *lost)

    with pytest.raises(UnavailableError, match=KEY):
        dynamo.store().compare_and_swap(before, finish_job(before))
    assert dynamo.store().get(KEY) == before
    assert faults.all_used


@pytest.mark.parametrize("lost", NEVER_ARRIVED)
def test_undelivered_end_is_unavailable_and_leaves_both_rows(
    dynamo: DynamoFixture, faults: FaultInjector, lost: tuple[NetworkFault, ...]
) -> None:
    dynamo.rows().put("orders", ORDER_KEY, UNPAID_ORDER)
    before = claim_job(dynamo.store())
    faults.inject("TransactWriteItems", *lost)

    with pytest.raises(UnavailableError, match=KEY):
        dynamo.store().compare_and_swap(
            before, finish_job(before), business_writes=[paid_order_write()]
        )
    assert dynamo.store().get(KEY) == before
    assert dynamo.rows().get("orders", ORDER_KEY) == {**ORDER_KEY, **UNPAID_ORDER}


@pytest.mark.parametrize("lost", NEVER_ARRIVED)
def test_undelivered_change_conflicts_with_change_of_others(
    dynamo: DynamoFixture, faults: FaultInjector, lost: tuple[NetworkFault, ...]
) -> None:
    before = claim_job(dynamo.store())
    theirs = add_note(before)
    dynamo.store(dynamo.separate_client()).compare_and_swap(before, theirs)
    faults.inject("UpdateItem", *lost)

    assert dynamo.store().compare_and_swap(before, finish_job(before)) == VersionConflict(theirs)


def test_write_is_unavailable_when_it_cannot_be_read_back(
    dynamo: DynamoFixture, faults: FaultInjector
) -> None:
    before = claim_job(dynamo.store())
    after = finish_job(before)
    faults.inject("UpdateItem", NetworkFault.REPLY_LOST, NetworkFault.REPLY_LOST)
    faults.inject("GetItem", NetworkFault.REQUEST_LOST, NetworkFault.REQUEST_LOST)

    with pytest.raises(UnavailableError, match=KEY):
        dynamo.store().compare_and_swap(before, after)
    assert faults.all_used
    assert dynamo.store().get(KEY) == after
