"""Whether anybody hears an alert."""

from collections.abc import Iterator

from oncely.cli.checkup.deployed import DeployedStack
from oncely.cli.checkup.findings import Finding, failed, passed, warned


def check_alert_subscriptions(deployed: DeployedStack) -> Iterator[Finding]:
    """The subscriptions of the alert topic."""
    topic = deployed.connection.outputs.get("AlertTopicArn")
    if topic is None:
        return
    client = deployed.connection.client("sns")
    pages = client.get_paginator("list_subscriptions_by_topic").paginate(TopicArn=topic)
    found = [one for page in pages for one in page["Subscriptions"]]
    waiting = [one for one in found if not one["SubscriptionArn"].startswith("arn:")]
    confirmed = len(found) - len(waiting)
    check, add = "alerts", f"aws sns subscribe --topic-arn {topic} --protocol email …"
    for one in waiting:
        yield warned(
            check, f"{one['Endpoint']} has not confirmed", "open the mail that AWS sent there"
        )
    if confirmed:
        yield passed(check, f"{confirmed} subscribed")
    elif deployed.connection.is_local:
        yield warned(check, "nobody is subscribed, as usual on one machine")
    else:
        yield failed(check, "nobody hears them", add)
