"""The demo resends follow-up jobs from their rows: no producer has their messages."""

import json

from oncely_local.account import LocalAccount
from oncely_local.traffic import stored_messages
from tests.conformance.samples import make_ready_job
from tests.support.dynamo import DynamoFixture


def test_stored_message_is_resent_to_its_own_queue(dynamo: DynamoFixture) -> None:
    job = make_ready_job(message={"job": "payment.charge", "v": 1, "order_id": "18452"})
    dynamo.store().create(job)
    (sending,) = stored_messages(LocalAccount(dynamo.url), dynamo.jobs_table, [job.job_key])
    assert (sending.queue, json.loads(sending.body)) == ("PaymentsQueueUrl", job.message)
