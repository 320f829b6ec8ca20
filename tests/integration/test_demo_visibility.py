"""Messages of killed workers reappear on every queue before the demo ends."""

import pytest

from oncely_local.account import LocalAccount
from oncely_local.demo import shorten_visibility
from oncely_local.observer import QUEUE_OUTPUTS

# The demo should end within 3 minutes.
SOON = 90


@pytest.mark.usefixtures("no_profile")
def test_demo_queues_have_short_visibility_timeout(ministack: str) -> None:
    account = LocalAccount(ministack)
    sqs = account.client("sqs")
    as_deployed = {"VisibilityTimeout": "360"}
    outputs = {
        output: sqs.create_queue(QueueName=f"demo-{output}", Attributes=as_deployed)["QueueUrl"]
        for output in QUEUE_OUTPUTS.values()
    }

    shorten_visibility(account, outputs)

    for url in outputs.values():
        found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"])
        assert int(found["Attributes"]["VisibilityTimeout"]) < SOON, url
