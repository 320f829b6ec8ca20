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
def test_job_and_window_are_created_once_on_sdk_retry(
    dynamo: Dynamo, faults: FaultyAws, lost: tuple[Loss, ...]
) -> None:
    faults.on("TransactWriteItems", *lost)

    assert dynamo.windows().create(a_ready_job(KEY), NIGHTLY) == Created(a_ready_job(KEY))
    assert dynamo.store().get(KEY) == a_ready_job(KEY)
    assert faults.all_met


def test_create_with_every_reply_lost_is_read_back(dynamo: Dynamo, faults: FaultyAws) -> None:
    faults.on("TransactWriteItems", Loss.REPLY, Loss.REPLY)

    assert dynamo.windows().create(a_ready_job(KEY), NIGHTLY) == Created(a_ready_job(KEY))


def test_undelivered_create_is_unavailable_and_leaves_no_row(
    dynamo: Dynamo, faults: FaultyAws
) -> None:
    faults.on("TransactWriteItems", Loss.REQUEST, Loss.REQUEST)

    with pytest.raises(UnavailableError, match=KEY):
        dynamo.windows().create(a_ready_job(KEY), NIGHTLY)
    assert dynamo.row(KEY) is None


def test_create_is_retried_after_transaction_conflict(dynamo: Dynamo, faults: FaultyAws) -> None:
    faults.on("TransactWriteItems", CONFLICT)

    assert dynamo.windows().create(a_ready_job(KEY), NIGHTLY) == Created(a_ready_job(KEY))


def test_missing_table_error_names_table(dynamo: Dynamo) -> None:
    dynamo.admin.delete_table(TableName=dynamo.jobs_table)

    with pytest.raises(NotConfiguredError, match=dynamo.jobs_table):
        dynamo.windows().create(a_ready_job(KEY), NIGHTLY)
