"""Messages of killed workers reappear on every queue before the demo ends."""

import pytest

from oncely_local.account import LocalAccount
from oncely_local.demo import shorten_visibility

# The demo should end within 3 minutes.
SOON = 90


@pytest.mark.usefixtures("no_profile")
def test_demo_queues_have_short_visibility_timeout(ministack: str) -> None:
    account = LocalAccount(ministack)
    sqs = account.client("sqs")
    as_deployed = {"VisibilityTimeout": "360"}
    urls = [
        sqs.create_queue(QueueName=f"demo-{name}", Attributes=as_deployed)["QueueUrl"]
        for name in ("payments", "mail")
    ]

    shorten_visibility(account, urls)

    for url in urls:
        found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"])
        assert int(found["Attributes"]["VisibilityTimeout"]) < SOON, url
