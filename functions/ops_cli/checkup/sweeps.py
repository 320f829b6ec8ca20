"""Whether the reconciler is on, and its sweeps succeed; that it is silent, an alarm tells."""

from collections.abc import Iterator
from typing import Final

from ops_cli.checkup.deployed import Deployed
from ops_cli.checkup.findings import Finding, broken, ok, warning

_RUNBOOK: Final = "see docs/operations.md#the-reconciler-fails"


def sweeps(deployed: Deployed) -> Iterator[Finding]:
    """Its schedule, and how the last executions ended."""
    yield from _schedule(deployed)
    arn = deployed.place.outputs.get("ReconcilerArn")
    if arn is None:
        return
    listed = deployed.place.client("stepfunctions").list_executions(
        stateMachineArn=arn, maxResults=10
    )["executions"]
    about = "reconciler"
    ended = [one["status"] for one in listed if one["status"] != "RUNNING"]
    failed = [status for status in ended if status != "SUCCEEDED"]
    if failed and failed == ended:
        yield broken(about, f"the last {len(failed)} sweeps did not succeed", _RUNBOOK)
    elif failed:
        yield warning(about, f"{len(failed)} of the last {len(ended)} did not succeed", _RUNBOOK)
    else:
        # Nothing is started while nothing is due.
        yield ok(about, f"no sweep of the last {len(ended)} failed")


def _schedule(deployed: Deployed) -> Iterator[Finding]:
    client = deployed.place.client("scheduler")
    about = "schedule of the reconciler"
    names = deployed.made("AWS::Scheduler::Schedule")
    if not names:
        yield broken(about, "there is none", "deploy the stack again")
    for name in names:
        # A physical id may be "group|name".
        group, _, own = name.rpartition("|")
        found = client.get_schedule(Name=own, **({"GroupName": group} if group else {}))
        if found["State"] == "ENABLED":
            yield ok(about, f"on: {found['ScheduleExpression']}")
        else:
            yield broken(about, "it is off: unknown jobs stay unknown", "turn it on again")
