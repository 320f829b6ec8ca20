"""Inserts with lost responses, conflicts and missing tables behave as in the job store."""

import pytest

from oncely.core.errors import NotConfiguredError, UnavailableError
from oncely.core.inserter import UniqueWindow
from oncely.core.keys import JobKey
from oncely.core.store import Created
from tests.conformance.samples import make_ready_job, time_at
from tests.support.dynamo import DynamoFixture
from tests.support.fault_injecting_client import FaultInjector, NetworkFault, ServiceError

KEY = JobKey("sync.import:hubspot:1")
NIGHTLY = UniqueWindow(name="hubspot", now=time_at(0), until=time_at(600))
CONFLICT = ServiceError("TransactionCanceledException", reasons=("TransactionConflict", "None"))


@pytest.mark.parametrize(
    "faults",
    [
        [NetworkFault.REPLY_LOST],
        [NetworkFault.REQUEST_LOST],
        [NetworkFault.REPLY_LOST, NetworkFault.REPLY_LOST],
        [CONFLICT],
    ],
)
def test_job_and_window_are_created_once(
    dynamo: DynamoFixture, faults: list[NetworkFault | ServiceError]
) -> None:
    injector = FaultInjector(dynamo.client)
    injector.inject("ExecuteTransaction", *faults)
    assert dynamo.inserter().insert_unique(make_ready_job(KEY), NIGHTLY) == Created(
        make_ready_job(KEY)
    )
    assert dynamo.store().get(KEY) == make_ready_job(KEY)
    assert injector.all_used


def test_undelivered_create_leaves_no_row(dynamo: DynamoFixture) -> None:
    lost = [NetworkFault.REQUEST_LOST] * 2
    FaultInjector(dynamo.client).inject("ExecuteTransaction", *lost)
    with pytest.raises(UnavailableError, match=KEY):
        dynamo.inserter().insert_unique(make_ready_job(KEY), NIGHTLY)
    assert dynamo.row(KEY) is None


def test_missing_table_error_names_table(dynamo: DynamoFixture) -> None:
    dynamo.admin.delete_table(TableName=dynamo.jobs_table)
    with pytest.raises(NotConfiguredError, match=dynamo.jobs_table):
        dynamo.inserter().insert_unique(make_ready_job(KEY), NIGHTLY)


@pytest.mark.parametrize("fault", [NetworkFault.REPLY_LOST, NetworkFault.REQUEST_LOST])
def test_row_is_inserted_once_with_lost_reply(dynamo: DynamoFixture, fault: NetworkFault) -> None:
    FaultInjector(dynamo.client).inject("ExecuteStatement", fault)
    assert dynamo.inserter().insert(make_ready_job(KEY)) == Created(make_ready_job(KEY))
    assert dynamo.store().get(KEY) == make_ready_job(KEY)
