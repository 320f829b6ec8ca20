"""A row that somebody edited by hand stops no sweep: the others are found all the same."""

from oncely.aws.dynamodb_due_index import DynamoDueIndex
from oncely.domain.due import DueAction, due_shard
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Status
from tests.support.dynamo import DynamoFixture
from tests.support.fakes import START
from tests.unit.samples import make_job

EDITED, OTHER = (JobKey(f"payment.charge:order_{number}") for number in (1, 2))


def test_invalid_due_time_hides_no_other_row(dynamo: DynamoFixture) -> None:
    index = DynamoDueIndex(dynamo.client, dynamo.jobs_table, shards=1)
    for key in (EDITED, OTHER):
        job = make_job(job_key=key, status=Status.UNKNOWN, due_at=START)
        dynamo.store().create(job)
    for key in (EDITED, OTHER):
        dynamo.client.update_item(
            TableName=dynamo.jobs_table,
            Key={"job_key": {"S": key}},
            UpdateExpression="SET due = :one, due_at = :at",
            ExpressionAttributeValues={
                ":one": {"S": f"{DueAction.LOOK_UP}#{due_shard(key, index.shards)}"},
                ":at": {"S": "2026-01-32" if key == EDITED else "2026-02-01T00:00:00.000Z"},
            },
        )

    found = list(index.due(DueAction.LOOK_UP, 0, since=None, until=START))

    assert [one.job_key for one in found] == [EDITED, OTHER]
    assert found[0].due_at <= found[1].due_at, "a sweep merges rows by their times"
