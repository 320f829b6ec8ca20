"""Whether the alarms are there, tell someone, and are quiet."""

from collections.abc import Iterator
from typing import Final

from oncely.alarm_description import AlarmDescription
from oncely.cli.checkup.deployed import DeployedStack
from oncely.cli.checkup.findings import Finding, failed, passed, warned

_MAX_ALARM_NAMES: Final = 100  # CloudWatch describes no more in one request


def check_alarms(deployed: DeployedStack) -> Iterator[Finding]:
    """Every alarm of the stack."""
    client = deployed.connection.client("cloudwatch")
    names = deployed.physical_ids("AWS::CloudWatch::Alarm")
    if not names:
        yield failed("alarms", "there are none", "deploy the stack again")
        return
    found = [
        one
        for at in range(0, len(names), _MAX_ALARM_NAMES)
        for one in client.describe_alarms(AlarmNames=names[at : at + _MAX_ALARM_NAMES])[
            "MetricAlarms"
        ]
    ]
    gone = sorted(set(names) - {one["AlarmName"] for one in found})
    mute = [
        one["AlarmName"]
        for one in found
        if not one.get("ActionsEnabled", True) or not one.get("AlarmActions")
    ]
    if gone:
        yield failed("alarms", f"missing: {', '.join(gone)}", "deploy the stack again")
    if mute:
        yield failed("alarms", f"tell nobody: {', '.join(mute)}", "deploy the stack again")
    ringing = [one for one in found if one["StateValue"] == "ALARM"]
    for one in ringing:
        description = AlarmDescription.parse(one.get("AlarmDescription", one["AlarmName"]))
        command, runbook = description.next_step, description.runbook
        # The reader of this has already run the doctor.
        first = f"{command}; " if command and not command.startswith("oncely doctor") else ""
        yield warned(
            f"alarm {one['AlarmName']}",
            f"in alarm: {description.impact.rstrip('.')}",
            f"{first}see {runbook or 'docs/operations.md'}",
        )
    if not (gone or mute or ringing):
        yield passed("alarms", f"all {len(found)} are there, tell someone, and are quiet")
