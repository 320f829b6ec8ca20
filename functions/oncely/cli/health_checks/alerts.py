"""Checks that alarms exist, are not firing, and reach a subscriber."""

from collections.abc import Iterator
from typing import Final

from oncely.aws.alarm_description import AlarmDescription
from oncely.cli.health_checks.deployed import DeployedStack
from oncely.plugins.health import Finding, failed, passed, warned

_MAX_ALARM_NAMES: Final = 100  # CloudWatch's limit for one request
_DEPLOY: Final = "deploy the stack again"


def check_alarms(deployed: DeployedStack) -> Iterator[Finding]:
    """Check every alarm of the stack."""
    client = deployed.connection.client("cloudwatch")
    names = deployed.physical_ids("AWS::CloudWatch::Alarm")
    if not names:
        yield failed("alarms", "the stack has no alarms", _DEPLOY)
        return
    found = [
        one
        for at in range(0, len(names), _MAX_ALARM_NAMES)
        for one in client.describe_alarms(AlarmNames=names[at : at + _MAX_ALARM_NAMES])[
            "MetricAlarms"
        ]
    ]
    missing = sorted(set(names) - {one["AlarmName"] for one in found})
    without_action = [
        one["AlarmName"]
        for one in found
        if not one.get("ActionsEnabled", True) or not one.get("AlarmActions")
    ]
    if missing:
        yield failed("alarms", f"missing: {', '.join(missing)}", _DEPLOY)
    if without_action:
        yield failed("alarms", f"send no notification: {', '.join(without_action)}", _DEPLOY)
    firing = [one for one in found if one["StateValue"] == "ALARM"]
    for one in firing:
        # The description has the next command and the runbook.
        description = AlarmDescription.parse(one.get("AlarmDescription", one["AlarmName"]))
        command, runbook = description.next_step, description.runbook
        # The reader has just run the doctor.
        first = f"{command}; " if command and not command.startswith("oncely doctor") else ""
        yield warned(
            f"alarm {one['AlarmName']}",
            f"in alarm: {description.impact.rstrip('.')}",
            f"{first}see {runbook or 'docs/operations.md'}",
        )
    if not (missing or without_action or firing):
        yield passed("alarms", f"all {len(found)} exist, send notifications and are OK")


def check_alert_subscriptions(deployed: DeployedStack) -> Iterator[Finding]:
    """Check the subscriptions of the alert topic."""
    topic = deployed.connection.outputs.get("AlertTopicArn")
    if topic is None:
        return
    client = deployed.connection.client("sns")
    pages = client.get_paginator("list_subscriptions_by_topic").paginate(TopicArn=topic)
    found = [one for page in pages for one in page["Subscriptions"]]
    pending = [one for one in found if not one["SubscriptionArn"].startswith("arn:")]
    confirmed = len(found) - len(pending)
    check = "alerts"
    for one in pending:
        yield warned(
            check, f"{one['Endpoint']} has not confirmed", "open the link in the email from AWS"
        )
    if confirmed:
        yield passed(check, f"{confirmed} confirmed subscriptions")
    elif deployed.connection.is_local:
        yield warned(check, "no subscribers, as usual for the local stack")
    else:
        yield failed(
            check,
            "no subscribers: alerts are not delivered",
            f"aws sns subscribe --topic-arn {topic} --protocol email --notification-endpoint …",
        )
