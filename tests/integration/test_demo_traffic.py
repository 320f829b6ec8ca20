"""The demo sends again what followed another job, from its row: no producer has that message."""

import json

from infra.local.account import Account
from infra.local.traffic import kept
from tests.contract.samples import a_ready_job
from tests.support.dynamo import Dynamo


def test_stored_message_is_resent_to_its_own_queue(dynamo: Dynamo) -> None:
    job = a_ready_job()
    dynamo.store().create(job)

    (sending,) = kept(Account(dynamo.url), dynamo.jobs_table, [job.job_key])

    assert sending.queue == "PaymentsQueueUrl"
    assert json.loads(sending.body) == job.message
