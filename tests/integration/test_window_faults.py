"""A unique window under lost replies, conflicts and missing tables, as the job store takes them."""

import pytest

from oncely.domain.errors import NotConfiguredError, UnavailableError
from oncely.domain.keys import JobKey
from oncely.ports import Created, Window
from tests.contract.samples import a_ready_job, at
from tests.support.dynamo import Dynamo
from tests.support.faulty_aws import FaultyAws, Loss, Refusal

KEY = JobKey("sync.import:hubspot:1")
NIGHTLY = Window(name="sync.import:hubspot", now=at(0), until=at(600))
CONFLICT = Refusal("TransactionCanceledException", reasons=("TransactionConflict", "None"))


@pytest.fixture
def faults(dynamo: Dynamo) -> FaultyAws:
    return FaultyAws(dynamo.client)


@pytest.mark.parametrize("lost", [(Loss.REPLY,), (Loss.REQUEST,)])
def test_a_job_and_its_window_are_created_once_when_the_sdk_tries_again(
    dynamo: Dynamo, faults: FaultyAws, lost: tuple[Loss, ...]
) -> None:
    faults.on("TransactWriteItems", *lost)

    assert dynamo.windows().create(a_ready_job(KEY), NIGHTLY) == Created(a_ready_job(KEY))
    assert dynamo.store().get(KEY) == a_ready_job(KEY)
    assert faults.all_met


def test_a_job_in_a_window_whose_every_reply_was_lost_is_looked_up(
    dynamo: Dynamo, faults: FaultyAws
) -> None:
    faults.on("TransactWriteItems", Loss.REPLY, Loss.REPLY)

    assert dynamo.windows().create(a_ready_job(KEY), NIGHTLY) == Created(a_ready_job(KEY))


def test_a_job_in_a_window_that_never_arrived_is_unavailable(
    dynamo: Dynamo, faults: FaultyAws
) -> None:
    faults.on("TransactWriteItems", Loss.REQUEST, Loss.REQUEST)

    with pytest.raises(UnavailableError, match=KEY):
        dynamo.windows().create(a_ready_job(KEY), NIGHTLY)
    assert dynamo.row(KEY) is None


def test_two_producers_who_meet_in_one_window_do_not_fail(
    dynamo: Dynamo, faults: FaultyAws
) -> None:
    faults.on("TransactWriteItems", CONFLICT)

    assert dynamo.windows().create(a_ready_job(KEY), NIGHTLY) == Created(a_ready_job(KEY))


def test_a_missing_table_is_named_with_what_to_check(dynamo: Dynamo) -> None:
    dynamo.admin.delete_table(TableName=dynamo.jobs_table)

    with pytest.raises(NotConfiguredError, match=dynamo.jobs_table):
        dynamo.windows().create(a_ready_job(KEY), NIGHTLY)
