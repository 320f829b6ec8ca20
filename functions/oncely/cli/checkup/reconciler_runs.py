"""Whether the reconciler is on, and its sweeps succeed; that it is silent, an alarm tells."""

from collections.abc import Iterator
from typing import Final

from oncely.cli.checkup.deployed import DeployedStack
from oncely.cli.checkup.findings import Finding, failed, passed, warned

_RUNBOOK: Final = "see docs/operations.md#reconciler-failing"


def check_reconciler(deployed: DeployedStack) -> Iterator[Finding]:
    """Its schedule, and how the last executions ended."""
    yield from _check_schedule(deployed)
    arn = deployed.connection.outputs.get("ReconcilerArn")
    if arn is None:
        return
    listed = deployed.connection.client("stepfunctions").list_executions(
        stateMachineArn=arn, maxResults=10
    )["executions"]
    check = "reconciler"
    ended = [one["status"] for one in listed if one["status"] != "RUNNING"]
    unsuccessful = [status for status in ended if status != "SUCCEEDED"]
    if unsuccessful and unsuccessful == ended:
        yield failed(check, f"the last {len(unsuccessful)} sweeps did not succeed", _RUNBOOK)
    elif unsuccessful:
        yield warned(
            check, f"{len(unsuccessful)} of the last {len(ended)} did not succeed", _RUNBOOK
        )
    else:
        # Nothing is started while nothing is due.
        yield passed(check, f"no sweep of the last {len(ended)} failed")


def _check_schedule(deployed: DeployedStack) -> Iterator[Finding]:
    client = deployed.connection.client("scheduler")
    check = "schedule of the reconciler"
    names = deployed.physical_ids("AWS::Scheduler::Schedule")
    if not names:
        yield failed(check, "there is none", "deploy the stack again")
    for name in names:
        # A physical id may be "group|name".
        group, _, own = name.rpartition("|")
        found = client.get_schedule(Name=own, **({"GroupName": group} if group else {}))
        if found["State"] == "ENABLED":
            yield passed(check, f"on: {found['ScheduleExpression']}")
        else:
            yield failed(check, "it is off: unknown jobs stay unknown", "turn it on again")
