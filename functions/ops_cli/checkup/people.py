"""Whether anybody hears an alert."""

from collections.abc import Iterator

from ops_cli.checkup.deployed import Deployed
from ops_cli.checkup.findings import Finding, broken, ok, warning


def people(deployed: Deployed) -> Iterator[Finding]:
    """The subscriptions of the alert topic."""
    topic = deployed.place.outputs.get("AlertTopicArn")
    if topic is None:
        return
    client = deployed.place.client("sns")
    pages = client.get_paginator("list_subscriptions_by_topic").paginate(TopicArn=topic)
    found = [one for page in pages for one in page["Subscriptions"]]
    waiting = [one for one in found if not one["SubscriptionArn"].startswith("arn:")]
    heard = len(found) - len(waiting)
    about, add = "alerts", f"aws sns subscribe --topic-arn {topic} --protocol email …"
    for one in waiting:
        yield warning(
            about, f"{one['Endpoint']} has not confirmed", "open the mail that AWS sent there"
        )
    if heard:
        yield ok(about, f"{heard} subscribed")
    elif deployed.place.is_local:
        yield warning(about, "nobody is subscribed, as usual on one machine")
    else:
        yield broken(about, "nobody hears them", add)
