"""Whether the alarms are there, tell someone, and are quiet."""

from collections.abc import Iterator
from typing import Final

from ops_cli.checkup.deployed import Deployed
from ops_cli.checkup.findings import Finding, broken, ok, warning

_AT_ONCE: Final = 100  # CloudWatch describes no more in one request


def alarms(deployed: Deployed) -> Iterator[Finding]:
    """Every alarm of the stack."""
    client = deployed.place.client("cloudwatch")
    names = deployed.made("AWS::CloudWatch::Alarm")
    if not names:
        yield broken("alarms", "there are none", "deploy the stack again")
        return
    found = [
        one
        for at in range(0, len(names), _AT_ONCE)
        for one in client.describe_alarms(AlarmNames=names[at : at + _AT_ONCE])["MetricAlarms"]
    ]
    gone = sorted(set(names) - {one["AlarmName"] for one in found})
    mute = [
        one["AlarmName"]
        for one in found
        if not one.get("ActionsEnabled", True) or not one.get("AlarmActions")
    ]
    if gone:
        yield broken("alarms", f"missing: {', '.join(gone)}", "deploy the stack again")
    if mute:
        yield broken("alarms", f"tell nobody: {', '.join(mute)}", "deploy the stack again")
    ringing = [one for one in found if one["StateValue"] == "ALARM"]
    for one in ringing:
        what, _, more = one.get("AlarmDescription", one["AlarmName"]).partition(" Begin with: ")
        command, _, where = more.partition(" Runbook: ")
        # Who reads this has run the doctor.
        first = "" if command.startswith("oncely doctor") else f"{command}; "
        yield warning(
            f"alarm {one['AlarmName']}",
            f"in alarm: {what.rstrip('.')}",
            f"{first}see {where or 'docs/operations.md'}",
        )
    if not (gone or mute or ringing):
        yield ok("alarms", f"all {len(found)} are there, tell someone, and are quiet")
