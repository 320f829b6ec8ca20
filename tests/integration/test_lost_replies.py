"""A write whose reply is lost is performed once, whoever finds that out: the SDK, or we."""

import pytest

from oncely.domain.errors import UnavailableError
from oncely.domain.lifecycle import Event
from oncely.ports import Claimed, ClaimRefused, Created, Exists, Overtaken, Written
from tests.contract.samples import (
    A_PAID_ORDER,
    AN_UNPAID_ORDER,
    KEY,
    ORDER_KEY,
    SECOND_TRY,
    a_claim,
    a_ready_job,
    at,
    failed,
    finished,
    moved,
    order_becomes_paid,
    started,
    with_a_note,
)
from tests.support.dynamo import Dynamo
from tests.support.faulty_aws import FaultyAws, Loss

# The first try is performed and nobody hears of it; the SDK's own retry meets what it did.
MET_BY_THE_SDK = [(Loss.REPLY,), (Loss.REPLY_IN_TIME,)]
# Performed, and every try ends without an answer.
ALL_UNANSWERED = [
    (Loss.REPLY, Loss.REPLY),
    (Loss.REPLY_IN_TIME, Loss.CONNECTION),
    (Loss.REQUEST, Loss.REPLY),
]
LOST_REPLIES = [*MET_BY_THE_SDK, *ALL_UNANSWERED]
NEVER_ARRIVED = [(Loss.REQUEST, Loss.REQUEST), (Loss.CONNECTION, Loss.CONNECTION)]


@pytest.fixture
def faults(dynamo: Dynamo) -> FaultyAws:
    return FaultyAws(dynamo.client)


@pytest.mark.parametrize("lost", LOST_REPLIES)
def test_claim_with_lost_reply_is_recognized_as_own(
    dynamo: Dynamo, faults: FaultyAws, lost: tuple[Loss, ...]
) -> None:
    faults.on("UpdateItem", *lost)

    result = dynamo.store().claim(a_claim())

    assert isinstance(result, Claimed)
    assert (result.job.fence, result.job.attempts, result.job.version) == (1, 1, 1)
    assert dynamo.store().get(KEY) == result.job
    assert faults.all_met


@pytest.mark.parametrize("lost", [(Loss.REQUEST,), *NEVER_ARRIVED])
def test_undelivered_claim_fails_when_other_worker_claimed(
    dynamo: Dynamo, faults: FaultyAws, lost: tuple[Loss, ...]
) -> None:
    theirs = started(dynamo.store(dynamo.another_client()))
    faults.on("UpdateItem", *lost)

    assert dynamo.store().claim(a_claim()) == ClaimRefused(theirs)
    assert faults.all_met


def test_undelivered_claim_succeeds_on_sdk_retry(dynamo: Dynamo, faults: FaultyAws) -> None:
    faults.on("UpdateItem", Loss.REQUEST)

    result = dynamo.store().claim(a_claim())

    assert isinstance(result, Claimed)
    assert (result.job.fence, result.job.attempts) == (1, 1)
    assert dynamo.calls.tries == ["UpdateItem", "UpdateItem"]


@pytest.mark.parametrize("lost", NEVER_ARRIVED)
def test_undelivered_claim_is_unavailable_and_leaves_no_row(
    dynamo: Dynamo, faults: FaultyAws, lost: tuple[Loss, ...]
) -> None:
    faults.on("UpdateItem", *lost)

    with pytest.raises(UnavailableError, match=KEY):
        dynamo.store().claim(a_claim())
    assert dynamo.row(KEY) is None
    assert dynamo.calls.by_operation() == {"UpdateItem": 1, "GetItem": 1}


@pytest.mark.parametrize("lost", LOST_REPLIES)
def test_resubmitted_claim_with_lost_reply_is_recognized_as_own(
    dynamo: Dynamo, faults: FaultyAws, lost: tuple[Loss, ...]
) -> None:
    first = started(dynamo.store())
    dynamo.store().swap(first, failed(first))
    faults.on("TransactWriteItems", *lost)

    result = dynamo.store().claim(a_claim(job_key=SECOND_TRY, requires_failed=KEY))

    assert isinstance(result, Claimed)
    assert (result.job.fence, result.job.attempts, result.job.version) == (1, 1, 1)
    assert faults.all_met


@pytest.mark.parametrize("lost", LOST_REPLIES)
def test_create_with_lost_reply_creates_row_once(
    dynamo: Dynamo, faults: FaultyAws, lost: tuple[Loss, ...]
) -> None:
    faults.on("PutItem", *lost)

    assert dynamo.store().create(a_ready_job()) == Created(a_ready_job())
    assert dynamo.store().get(KEY) == a_ready_job()
    assert faults.all_met


def test_undelivered_create_returns_row_of_other_producer(
    dynamo: Dynamo, faults: FaultyAws
) -> None:
    theirs = a_ready_job(created_at=at(5))
    dynamo.store(dynamo.another_client()).create(theirs)
    faults.on("PutItem", *NEVER_ARRIVED[0])

    assert dynamo.store().create(a_ready_job()) == Exists(theirs)


@pytest.mark.parametrize("lost", LOST_REPLIES)
def test_saved_reference_with_lost_reply_is_written_once(
    dynamo: Dynamo, faults: FaultyAws, lost: tuple[Loss, ...]
) -> None:
    before = started(dynamo.store())
    after = moved(before, Event.KEEP, provider_ref="pi_1")
    faults.on("UpdateItem", *lost)

    assert dynamo.store().swap(before, after) == Written(after)
    assert dynamo.store().get(KEY) == after
    assert after.version == before.version + 1
    assert faults.all_met


@pytest.mark.parametrize("lost", LOST_REPLIES)
def test_end_with_lost_reply_is_written_once_with_its_order(
    dynamo: Dynamo, faults: FaultyAws, lost: tuple[Loss, ...]
) -> None:
    dynamo.rows().put("orders", ORDER_KEY, AN_UNPAID_ORDER)
    before = started(dynamo.store())
    after = finished(before)
    faults.on("TransactWriteItems", *lost)

    assert dynamo.store().swap(before, after, local=[order_becomes_paid()]) == Written(after)
    assert dynamo.store().get(KEY) == after
    assert dynamo.rows().get("orders", ORDER_KEY) == A_PAID_ORDER
    assert faults.all_met


def test_end_with_lost_reply_is_recognized_after_later_evidence(
    dynamo: Dynamo, faults: FaultyAws
) -> None:
    dynamo.rows().put("orders", ORDER_KEY, AN_UNPAID_ORDER)
    before = started(dynamo.store())
    after = finished(before)
    faults.on("TransactWriteItems", *ALL_UNANSWERED[0])
    others = dynamo.store(dynamo.another_client())

    def leave_a_note(**_: object) -> None:
        others.swap(after, with_a_note(after))

    dynamo.client.meta.events.register("before-send.dynamodb.GetItem", leave_a_note)

    assert dynamo.store().swap(before, after, local=[order_becomes_paid()]) == Written(after)
    assert dynamo.store().get(KEY) == with_a_note(after)


@pytest.mark.parametrize("lost", NEVER_ARRIVED)
def test_undelivered_change_is_unavailable_and_leaves_row(
    dynamo: Dynamo, faults: FaultyAws, lost: tuple[Loss, ...]
) -> None:
    before = started(dynamo.store())
    faults.on("UpdateItem", *lost)

    with pytest.raises(UnavailableError, match=KEY):
        dynamo.store().swap(before, finished(before))
    assert dynamo.store().get(KEY) == before
    assert faults.all_met


@pytest.mark.parametrize("lost", NEVER_ARRIVED)
def test_undelivered_end_is_unavailable_and_leaves_both_rows(
    dynamo: Dynamo, faults: FaultyAws, lost: tuple[Loss, ...]
) -> None:
    dynamo.rows().put("orders", ORDER_KEY, AN_UNPAID_ORDER)
    before = started(dynamo.store())
    faults.on("TransactWriteItems", *lost)

    with pytest.raises(UnavailableError, match=KEY):
        dynamo.store().swap(before, finished(before), local=[order_becomes_paid()])
    assert dynamo.store().get(KEY) == before
    assert dynamo.rows().get("orders", ORDER_KEY) == {**ORDER_KEY, **AN_UNPAID_ORDER}


@pytest.mark.parametrize("lost", NEVER_ARRIVED)
def test_undelivered_change_conflicts_with_change_of_others(
    dynamo: Dynamo, faults: FaultyAws, lost: tuple[Loss, ...]
) -> None:
    before = started(dynamo.store())
    theirs = with_a_note(before)
    dynamo.store(dynamo.another_client()).swap(before, theirs)
    faults.on("UpdateItem", *lost)

    assert dynamo.store().swap(before, finished(before)) == Overtaken(theirs)


def test_write_is_unavailable_when_it_cannot_be_read_back(
    dynamo: Dynamo, faults: FaultyAws
) -> None:
    before = started(dynamo.store())
    after = finished(before)
    faults.on("UpdateItem", Loss.REPLY, Loss.REPLY)
    faults.on("GetItem", Loss.REQUEST, Loss.REQUEST)

    with pytest.raises(UnavailableError, match=KEY):
        dynamo.store().swap(before, after)
    assert faults.all_met
    assert dynamo.store().get(KEY) == after
