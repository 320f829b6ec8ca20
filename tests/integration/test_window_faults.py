"""A unique window under lost replies, conflicts and missing tables, as the job store takes them."""

import pytest

from oncely.domain.errors import NotConfiguredError, UnavailableError
from oncely.domain.keys import JobKey
from oncely.ports import Created, UniqueWindow
from tests.conformance.samples import make_ready_job, time_at
from tests.support.dynamo import DynamoFixture
from tests.support.fault_injecting_client import FaultInjector, NetworkFault, ServiceError

KEY = JobKey("sync.import:hubspot:1")
NIGHTLY = UniqueWindow(name="sync.import:hubspot", now=time_at(0), until=time_at(600))
CONFLICT = ServiceError("TransactionCanceledException", reasons=("TransactionConflict", "None"))


@pytest.fixture
def faults(dynamo: DynamoFixture) -> FaultInjector:
    return FaultInjector(dynamo.client)


@pytest.mark.parametrize("lost", [(NetworkFault.REPLY_LOST,), (NetworkFault.REQUEST_LOST,)])
def test_job_and_window_are_created_once_on_sdk_retry(
    dynamo: DynamoFixture, faults: FaultInjector, lost: tuple[NetworkFault, ...]
) -> None:
    faults.inject("TransactWriteItems", *lost)

    assert dynamo.windows().create(make_ready_job(KEY), NIGHTLY) == Created(make_ready_job(KEY))
    assert dynamo.store().get(KEY) == make_ready_job(KEY)
    assert faults.all_used


def test_create_with_every_reply_lost_is_read_back(
    dynamo: DynamoFixture, faults: FaultInjector
) -> None:
    faults.inject("TransactWriteItems", NetworkFault.REPLY_LOST, NetworkFault.REPLY_LOST)

    assert dynamo.windows().create(make_ready_job(KEY), NIGHTLY) == Created(make_ready_job(KEY))


def test_undelivered_create_is_unavailable_and_leaves_no_row(
    dynamo: DynamoFixture, faults: FaultInjector
) -> None:
    faults.inject("TransactWriteItems", NetworkFault.REQUEST_LOST, NetworkFault.REQUEST_LOST)

    with pytest.raises(UnavailableError, match=KEY):
        dynamo.windows().create(make_ready_job(KEY), NIGHTLY)
    assert dynamo.row(KEY) is None


def test_create_is_retried_after_transaction_conflict(
    dynamo: DynamoFixture, faults: FaultInjector
) -> None:
    faults.inject("TransactWriteItems", CONFLICT)

    assert dynamo.windows().create(make_ready_job(KEY), NIGHTLY) == Created(make_ready_job(KEY))


def test_missing_table_error_names_table(dynamo: DynamoFixture) -> None:
    dynamo.admin.delete_table(TableName=dynamo.jobs_table)

    with pytest.raises(NotConfiguredError, match=dynamo.jobs_table):
        dynamo.windows().create(make_ready_job(KEY), NIGHTLY)
