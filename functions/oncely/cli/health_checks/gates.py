"""Checks what operators paused, and which providers do not respond."""

from collections.abc import Iterator

from oncely.cli.health_checks.deployed import DeployedStack
from oncely.cli.health_checks.jobs import format_age
from oncely.core.actors import operator_name
from oncely.plugins.health import Finding, passed, warned


def check_gates(deployed: DeployedStack) -> Iterator[Finding]:
    """Check for pauses and open circuits."""
    snapshot = deployed.connection.app.pause_switch.snapshot()
    here = deployed.connection.cli_options
    paused = [(one, entry) for one in snapshot.pauses.values() if (entry := one.current)]
    for one, entry in paused:
        age = format_age(entry.at, now=deployed.now)
        yield warned(
            "paused",
            f"{one.target} for {age} by {operator_name(entry.actor)}: {entry.reason}",
            f"oncely resume {one.target}{here}",
        )
    if not paused:
        yield passed("paused", "nothing")
    opened = {name: at for name, one in snapshot.gates.items() if (at := one.opened_at)}
    for name, at in sorted(opened.items()):
        yield warned(
            "circuit",
            f"{name} has not responded for {format_age(at, now=deployed.now)}",
            "no action needed: its jobs wait, and continue when it responds",
        )
    if not opened:
        yield passed("circuit", "every provider responds")
    for name in snapshot.unreadable:
        yield warned(
            "gate table",
            f"the item {name} cannot be read, so each function uses a tenth of the rate",
            f"delete the item {name} from the gate table: it will be written again",
        )
