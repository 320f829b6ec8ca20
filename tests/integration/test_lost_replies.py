"""A write with a lost response is performed once, whether the SDK or Oncely retries it."""

from collections.abc import Callable, Iterator

import pytest

from oncely.core.errors import UnavailableError
from oncely.core.job_row import JobRow
from oncely.core.lifecycle import Event
from oncely.core.store import (
    AlreadyExists,
    Claimed,
    ClaimFailed,
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
    time_at,
)
from tests.support.dynamo import DynamoFixture
from tests.support.fault_injecting_client import FaultInjector, NetworkFault

# The first try is performed and its response is lost; the SDK's retry finds it done.
RETRIED_BY_SDK = [(NetworkFault.REPLY_LOST,), (NetworkFault.REPLY_TIMEOUT,)]
# Performed, and no try gets a response.
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


Faults = tuple[NetworkFault, ...]
Inject = Callable[[str, Faults], None]


@pytest.fixture
def inject(dynamo: DynamoFixture) -> Iterator[Inject]:
    faults = FaultInjector(dynamo.client)
    yield lambda operation, lost: faults.inject(operation, *lost)
    assert faults.all_used


def end(dynamo: DynamoFixture, before: JobRow, *, with_order: bool = True) -> SwapResult:
    writes = [paid_order_write()] if with_order else []
    return dynamo.store().swap(before, finish_job(before), business_writes=writes)


def claim_unpaid(dynamo: DynamoFixture) -> JobRow:
    dynamo.rows().put("orders", ORDER_KEY, UNPAID_ORDER)
    return claim_job(dynamo.store())


@pytest.mark.parametrize("lost", LOST_REPLIES)
@pytest.mark.parametrize("resubmitted", [False, True])
def test_claim_with_lost_reply_is_recognized_as_own(
    dynamo: DynamoFixture, inject: Inject, lost: Faults, *, resubmitted: bool
) -> None:
    claim = make_claim()
    if resubmitted:
        first = claim_job(dynamo.store())
        dynamo.store().swap(first, fail_job(first))
        claim = make_claim(job_key=RESUBMITTED_KEY, requires_failed=KEY)
    inject("TransactWriteItems" if resubmitted else "UpdateItem", lost)

    result = dynamo.store().claim(claim)
    assert isinstance(result, Claimed)
    assert (result.job.fence, result.job.attempts, result.job.version) == (1, 1, 1)
    assert dynamo.store().get(claim.job_key) == result.job


@pytest.mark.parametrize("lost", [(NetworkFault.REQUEST_LOST,), *NEVER_ARRIVED])
def test_undelivered_claim_fails_when_other_worker_claimed(
    dynamo: DynamoFixture, inject: Inject, lost: Faults
) -> None:
    theirs = claim_job(dynamo.store(dynamo.separate_client()))
    inject("UpdateItem", lost)
    assert dynamo.store().claim(make_claim()) == ClaimFailed(theirs)


def test_undelivered_claim_succeeds_on_sdk_retry(dynamo: DynamoFixture, inject: Inject) -> None:
    inject("UpdateItem", (NetworkFault.REQUEST_LOST,))
    result = dynamo.store().claim(make_claim())
    assert isinstance(result, Claimed)
    assert (result.job.fence, result.job.attempts) == (1, 1)
    assert dynamo.calls.attempts == ["UpdateItem", "UpdateItem"]


@pytest.mark.parametrize("lost", NEVER_ARRIVED)
def test_undelivered_claim_is_unavailable_and_leaves_no_row(
    dynamo: DynamoFixture, inject: Inject, lost: Faults
) -> None:
    inject("UpdateItem", lost)
    with pytest.raises(UnavailableError, match=KEY):
        dynamo.store().claim(make_claim())
    assert dynamo.row(KEY) is None
    assert dynamo.calls.by_operation() == {"UpdateItem": 1, "GetItem": 1}


@pytest.mark.parametrize("lost", LOST_REPLIES)
def test_create_is_once_with_lost_reply(
    dynamo: DynamoFixture, inject: Inject, lost: Faults
) -> None:
    inject("PutItem", lost)
    assert dynamo.store().create(make_ready_job()) == Created(make_ready_job())
    assert dynamo.store().get(KEY) == make_ready_job()


def test_undelivered_create_returns_row_of_others(dynamo: DynamoFixture, inject: Inject) -> None:
    theirs = make_ready_job(created_at=time_at(5))
    dynamo.store(dynamo.separate_client()).create(theirs)
    inject("PutItem", NEVER_ARRIVED[0])
    assert dynamo.store().create(make_ready_job()) == AlreadyExists(theirs)


@pytest.mark.parametrize("lost", LOST_REPLIES)
def test_saved_reference_with_lost_reply_is_written_once(
    dynamo: DynamoFixture, inject: Inject, lost: Faults
) -> None:
    before = claim_job(dynamo.store())
    after = apply_event(before, Event.CHECKPOINT, provider_ref="pi_1")
    inject("UpdateItem", lost)
    assert dynamo.store().swap(before, after) == Swapped(after)
    assert (dynamo.store().get(KEY), after.version) == (after, before.version + 1)


@pytest.mark.parametrize("lost", LOST_REPLIES)
def test_end_with_lost_reply_is_written_once_with_its_order(
    dynamo: DynamoFixture, inject: Inject, lost: Faults
) -> None:
    before = claim_unpaid(dynamo)
    inject("TransactWriteItems", lost)
    assert end(dynamo, before) == Swapped(finish_job(before))
    assert dynamo.store().get(KEY) == finish_job(before)
    assert dynamo.rows().get("orders", ORDER_KEY) == PAID_ORDER


def test_end_with_lost_reply_is_found_after_note(dynamo: DynamoFixture, inject: Inject) -> None:
    before = claim_unpaid(dynamo)
    after = finish_job(before)
    inject("TransactWriteItems", AMBIGUOUS_FAULTS[0])
    others = dynamo.store(dynamo.separate_client())

    def leave_a_note(**_: object) -> None:
        others.swap(after, add_note(after))

    dynamo.client.meta.events.register("before-send.dynamodb.GetItem", leave_a_note)

    assert end(dynamo, before) == Swapped(after)
    assert dynamo.store().get(KEY) == add_note(after)


@pytest.mark.parametrize("lost", NEVER_ARRIVED)
@pytest.mark.parametrize("with_order", [False, True])
def test_undelivered_end_is_unavailable_and_leaves_both_rows(
    dynamo: DynamoFixture, inject: Inject, lost: Faults, *, with_order: bool
) -> None:
    before = claim_unpaid(dynamo)
    inject("TransactWriteItems" if with_order else "UpdateItem", lost)

    with pytest.raises(UnavailableError, match=KEY):
        end(dynamo, before, with_order=with_order)
    assert dynamo.store().get(KEY) == before
    assert dynamo.rows().get("orders", ORDER_KEY) == {**ORDER_KEY, **UNPAID_ORDER}


@pytest.mark.parametrize("lost", NEVER_ARRIVED)
def test_undelivered_change_conflicts_with_change_of_others(
    dynamo: DynamoFixture, inject: Inject, lost: Faults
) -> None:
    before = claim_job(dynamo.store())
    theirs = add_note(before)
    dynamo.store(dynamo.separate_client()).swap(before, theirs)
    inject("UpdateItem", lost)
    assert end(dynamo, before, with_order=False) == VersionConflict(theirs)


def test_write_is_unavailable_when_read_back_fails(dynamo: DynamoFixture, inject: Inject) -> None:
    before = claim_job(dynamo.store())
    inject("UpdateItem", AMBIGUOUS_FAULTS[0])
    inject("GetItem", NEVER_ARRIVED[0])

    with pytest.raises(UnavailableError, match=KEY):
        end(dynamo, before, with_order=False)
    assert dynamo.store().get(KEY) == finish_job(before)
