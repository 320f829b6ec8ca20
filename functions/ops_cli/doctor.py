"""`oncely doctor`: whether a deployed stack is as the code expects it, and what to mend."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import typer

from ops_cli import screen
from ops_cli.exits import Exit
from ops_cli.options import AsJson, at_a_place
from ops_cli.place import Place

if TYPE_CHECKING:
    from ops_cli.checkup.findings import Finding

_STYLES: Final = {"ok": "green", "warning": "yellow", "broken": "bold red"}


@at_a_place
def doctor(place: Place, *, json: AsJson = False) -> None:
    """Check queues, functions, tables, keys, mail, alarms and jobs; say what to fix."""
    found: list[Finding] = []
    _ = place.outputs  # a missing stack is said at once
    for finding in _findings(place):
        found.append(finding)
        if json:
            screen.as_json(asdict(finding))
    counts = Counter(finding.health for finding in found)
    if not json:
        _show(found)
        screen.say("")
        screen.say(", ".join(f"{count} {health}" for health, count in sorted(counts.items())))
    if counts["broken"]:  # type: ignore[index]  # a StrEnum is its text
        raise typer.Exit(Exit.ATTENTION)


def _findings(place: Place) -> "Iterator[Finding]":
    from botocore.exceptions import BotoCoreError, ClientError

    from oncely.domain.errors import OncelyError
    from ops_cli.checkup import CHECKS
    from ops_cli.checkup.deployed import Deployed
    from ops_cli.checkup.findings import warning
    from ops_cli.trouble import sentence

    deployed = Deployed(place, datetime.now(UTC))
    with screen.aside().status("looking…") as status:
        for check in CHECKS:
            status.update(f"looking at {check.__name__}…")
            try:
                yield from check(deployed)
            except (BotoCoreError, ClientError) as error:
                yield warning(check.__name__, f"could not be checked: {sentence(error)}")
            except Exception as error:  # noqa: BLE001  # one check must not hide the others
                why = str(error) if isinstance(error, OncelyError) else repr(error)
                yield warning(check.__name__, f"could not be checked: {why}")


def _show(found: "list[Finding]") -> None:
    screen.table(
        ("", "what", "how it is"),
        (
            (
                screen.plain(one.health, _STYLES[one.health]),
                one.about,
                one.says if not one.mend else f"{one.says}. To mend: {one.mend}",
            )
            for one in found
        ),
    )
