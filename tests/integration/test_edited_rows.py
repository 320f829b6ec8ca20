"""A row that was edited by hand hides no other row from a sweep or a list."""

import pytest

from oncely.core.due import DueAction, due_shard
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.reconcile.due_index import DueIndex
from tests.support.dynamo import DynamoFixture
from tests.support.fakes import START
from tests.unit.samples import make_job

EDITED, OTHER, THIRD = (JobKey(f"payment.charge:order_{number}") for number in (1, 2, 3))


def test_invalid_due_time_hides_no_other_row(dynamo: DynamoFixture) -> None:
    index = DueIndex(dynamo.client, dynamo.jobs_table, shards=1)
    for key in (EDITED, OTHER):
        dynamo.store().create(make_job(job_key=key, status=Status.UNKNOWN, due_at=START))
    for key in (EDITED, OTHER):
        dynamo.edit_row(
            key,
            due={"S": f"{DueAction.LOOK_UP}#{due_shard(key, index.shards)}"},
            due_at={"S": "2026-01-32" if key == EDITED else "2026-02-01T00:00:00.000Z"},
        )

    found = list(index.due(DueAction.LOOK_UP, 0, since=None, until=START))

    assert [one.job_key for one in found] == [EDITED, OTHER]
    assert found[0].due_at <= found[1].due_at, "a sweep merges rows by their times"


@pytest.mark.parametrize("since", ["2026-01-32", "zzz", "!"])
def test_invalid_since_hides_no_row_from_list(dynamo: DynamoFixture, since: str) -> None:
    for key in (EDITED, OTHER, THIRD):
        dynamo.store().create(make_job(job_key=key, status=Status.FAILED, since=START))
    dynamo.edit_row(EDITED, since={"S": since})

    for oldest_first in (False, True):
        listed = list(dynamo.finder().by_status((Status.FAILED,), oldest_first=oldest_first))

        assert {one.job_key for one in listed} == {EDITED, OTHER, THIRD}
        times = [one.at for one in listed]
        assert times == sorted(times, reverse=not oldest_first), "shards are merged by their times"
