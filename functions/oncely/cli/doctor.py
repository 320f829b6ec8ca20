"""`oncely doctor`: compares a deployed stack with what the code expects."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import typer

from oncely.cli import console
from oncely.cli.errors import ExitCode, describe_aws_error, text_for
from oncely.cli.options import JsonOption, with_stack
from oncely.cli.stack_connection import StackConnection

if TYPE_CHECKING:
    from rich.text import Text

    from oncely.plugins.health import Finding

_STYLES: Final = {"ok": "green", "warning": "yellow", "broken": "bold red"}


@with_stack
def doctor(stack: StackConnection, *, json: JsonOption = False) -> None:
    """Check a deployed stack and suggest fixes.

    Exits with code 4 if something is broken: jobs are blocked, or alerts are not delivered.

    Examples:
    - `oncely doctor --stack Oncely-prod`
    """
    found: list[Finding] = []
    _ = stack.outputs  # fail here if there is no stack
    for finding in _run_checks(stack):
        found.append(finding)
        if json:
            console.print_json(asdict(finding))
    counts = Counter(str(finding.status) for finding in found)
    if not json:
        console.print_table(
            ("status", "check", "result"),
            (
                (console.safe_text(one.status, _STYLES[one.status]), one.check, _result(one))
                for one in found
            ),
        )
        console.print_line("")
        console.print_line(", ".join(f"{count} {one}" for one, count in sorted(counts.items())))
    if counts["broken"]:
        raise typer.Exit(ExitCode.ACTION_NEEDED)


def _run_checks(stack: StackConnection) -> "Iterator[Finding]":
    from oncely.cli.health_checks import CHECKS, DeployedStack
    from oncely.core.errors import OncelyError
    from oncely.plugins.health import Finding

    deployed = DeployedStack(stack, datetime.now(UTC))
    with console.stderr_console().status("checking…") as status:
        for check in CHECKS:
            name = check.__name__.removeprefix("check_").replace("_", " ")
            status.update(f"checking {name}…")
            try:
                yield from check(deployed)
            except Exception as error:  # noqa: BLE001  # one failed check must not hide the others
                known = str(error) if isinstance(error, OncelyError) else repr(error)
                known = text_for("doctor", known, error)
                yield Finding.warned(name, f"check failed: {describe_aws_error(error) or known}")


def _result(finding: "Finding") -> "Text":
    text = console.safe_text(finding.message)
    if finding.fix:
        text.append("\nFix: ").append_text(console.safe_text(finding.fix))
    return text
