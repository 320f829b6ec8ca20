"""`oncely doctor`: whether a deployed stack is as the code expects it, and what to mend."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import typer

from oncely.cli import console as screen
from oncely.cli.exits import ExitCode
from oncely.cli.options import JsonOption, with_stack
from oncely.cli.stack_connection import StackConnection

if TYPE_CHECKING:
    from oncely.cli.checkup.findings import Finding

_STYLES: Final = {"ok": "green", "warning": "yellow", "broken": "bold red"}


@with_stack
def doctor(stack: StackConnection, *, json: JsonOption = False) -> None:
    """Check queues, functions, tables, keys, mail, alarms and jobs; say what to fix."""
    found: list[Finding] = []
    _ = stack.outputs  # a missing stack is said at once
    for finding in _run_checks(stack):
        found.append(finding)
        if json:
            screen.print_json(asdict(finding))
    counts = Counter(finding.status for finding in found)
    if not json:
        _print_findings(found)
        screen.print_line("")
        screen.print_line(
            ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
        )
    if counts["broken"]:  # type: ignore[index]  # a StrEnum is its text
        raise typer.Exit(ExitCode.ACTION_NEEDED)


def _run_checks(stack: StackConnection) -> "Iterator[Finding]":
    from botocore.exceptions import BotoCoreError, ClientError

    from oncely.cli.aws_errors import describe_aws_error
    from oncely.cli.checkup import CHECKS
    from oncely.cli.checkup.deployed import DeployedStack
    from oncely.cli.checkup.findings import warned
    from oncely.domain.errors import OncelyError

    deployed = DeployedStack(stack, datetime.now(UTC))
    with screen.stderr_console().status("looking…") as status:
        for check in CHECKS:
            status.update(f"looking at {check.__name__}…")
            try:
                yield from check(deployed)
            except (BotoCoreError, ClientError) as error:
                yield warned(check.__name__, f"could not be checked: {describe_aws_error(error)}")
            except Exception as error:  # noqa: BLE001  # one check must not hide the others
                reason = str(error) if isinstance(error, OncelyError) else repr(error)
                yield warned(check.__name__, f"could not be checked: {reason}")


def _print_findings(found: "list[Finding]") -> None:
    screen.print_table(
        ("", "what", "how it is"),
        (
            (
                screen.safe_text(one.status, _STYLES[one.status]),
                one.check,
                one.message if not one.fix else f"{one.message}. To mend: {one.fix}",
            )
            for one in found
        ),
    )
