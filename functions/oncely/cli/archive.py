"""`oncely archive`: the history of jobs, its gaps, and the backfill that closes them."""

import sys
from collections.abc import Iterator
from datetime import datetime
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Final

import typer

from oncely.cli import console
from oncely.cli.errors import CommandError, ExitCode, usage_error
from oncely.cli.options import DryRunOption, JsonOption, time_option, with_stack
from oncely.cli.stack_connection import StackConnection

if TYPE_CHECKING:
    from oncely.core.table_guard import DynamoTableIdentity
    from oncely.history.gaps import BackfillProgress, HistoryGap

app: Final = typer.Typer(
    help="Read and check the job history, find and close gaps.", no_args_is_help=True
)

FirstDayOption = Annotated[
    datetime | None,
    time_option(help="First day: a duration (30d) or a date (default: the first recorded)."),
]


@app.command()
@with_stack
def about(
    stack: StackConnection,
    business_id: Annotated[
        str, typer.Argument(help="Order, customer, provider reference or job key.")
    ],
    *,
    since: FirstDayOption = None,
    until: Annotated[datetime | None, time_option(help="Last day (default: today).")] = None,
    json: JsonOption = False,
) -> None:
    """Show every recorded change of an id.

    Examples:
    - `oncely archive about 18452 --since 30d`
    """
    first, last = since and since.date(), until and until.date()
    if first is not None and last is not None and last < first:
        raise usage_error(f"--until ({last}) is before --since ({first}).")
    lines = stack.app.ports.history.about(business_id, since=first, until=last)
    if not lines:
        period = " for these days" if first or last else ""
        raise CommandError(
            f"No changes of {business_id!r} are recorded{period}. The history is a few minutes "
            f"behind the job table, which `oncely find {quote(business_id)}` reads."
        )
    if json:
        for line in lines:
            console.print_json(line.to_dict())
        return
    console.print_table(
        ("time (UTC)", "job", "status", "event", "actor", "reference"),
        (
            (
                f"{line.at:%Y-%m-%d %H:%M:%S}",
                line.job_key,
                line.status or line.record,
                line.event,
                line.actor,
                line.image.get("provider_ref"),
            )
            for line in lines
        ),
    )


@app.command()
@with_stack
def gaps(stack: StackConnection, *, json: JsonOption = False) -> None:
    """Show open gaps in the history.

    Close them with `oncely archive backfill`.
    """
    found = stack.app.ports.history.open_gaps()
    if json:
        for gap in found:
            console.print_json(gap.to_dict())
    elif not found:
        console.print_line("The history has no open gaps.")
    else:
        _print_gaps(found)
    if found:
        raise typer.Exit(ExitCode.ACTION_NEEDED)


@app.command()
@with_stack
def verify(
    stack: StackConnection,
    *,
    since: FirstDayOption = None,
    json: JsonOption = False,
) -> None:
    """Check every job's history against the rules of the life cycle.

    Reads all lines once, and sorts them in a temporary file.

    Examples:
    - `oncely archive verify`
    - `oncely archive verify --since 30d --json`
    """
    from oncely.history.verify import verify_history

    first = since and since.date()
    history = stack.app.ports.history
    rules = listed = 0
    # JSON on the same terminal would be torn apart.
    with console.step_bars(hidden=json and sys.stdout.isatty()) as bars:
        # Listed twice: the names of a large archive would fill the memory.
        for listed, _ in enumerate(history.names(since=first), 1):
            bars.show("listing objects", 0.0, listed)
        bars.show("listing objects", 1.0, listed)

        def names() -> Iterator[str]:
            for number, name in enumerate(history.names(since=first), 1):
                bars.show("reading objects", number / listed, number)
                yield name

        def report(checked: int, lines: int) -> None:
            bars.show("checking lines", checked / max(lines, 1), checked)

        for found in verify_history(history.read(names()), report=report):
            rules += 1
            line = found.line
            if json:
                where = {
                    "job_key": line.job_key,
                    "version": line.version,
                    "at": line.at.isoformat(),
                }
                console.print_json({**where, "rule": found.rule, "sentence": found.rule.sentence})
            else:
                bars.print_line(f"{found} ({found.rule})")
    if rules:
        console.print_error(
            f"{rules} rules are broken. `oncely archive about KEY` shows the history of a job; "
            "compare it with the provider before you repair anything."
        )
        raise typer.Exit(ExitCode.ACTION_NEEDED)
    if not json:
        console.print_line("No history breaks a rule.")


@app.command()
@with_stack
def backfill(
    stack: StackConnection,
    *,
    since: Annotated[
        datetime | None,
        time_option(help="Only rows changed after this time: a duration (7d) or a date."),
    ] = None,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Close gaps by scanning the job table.

    Writes one history line per row. After an interruption, run it again to continue.

    Examples:
    - `oncely archive backfill --since 2026-05-01 --dry-run`
    """
    ports = stack.app.ports
    _require_declared_table(ports.table_identity)
    with console.stderr_console().status("scanning…") as status:

        def report(progress: "BackfillProgress") -> None:
            status.update(f"{progress.rows:,} rows read, {progress.lines:,} lines…")

        done = stack.app.backfill.run(
            generation=ports.table_generation(),
            rows_from=since,
            dry_run=dry_run,
            report=report,
        )
    progress = done.progress
    if json:
        closed = {"closed": [gap.name for gap in done.closed], "dry_run": dry_run}
        console.print_json({**progress.to_dict(), **closed, "open": len(done.still_open)})
    else:
        wrote = "would write" if dry_run else "wrote"
        console.print_line(f"Read {progress.rows:,} rows, {wrote} {progress.lines:,} lines.")
        console.print_line(f"{'Would close' if dry_run else 'Closed'} {len(done.closed)} gaps.")
    if done.still_open:
        console.print_error(
            f"{len(done.still_open)} gaps are still open: they are newer than this scan, or began "
            "before --since. Run `oncely archive backfill` again without --since."
        )
        raise typer.Exit(ExitCode.ACTION_NEEDED)


def _require_declared_table(table: "DynamoTableIdentity") -> None:
    # A restored table lacks the changes that a gap lost, so scanning it must not close the gap.
    item, facts = table.identity(), table.facts()
    if item is None or item.table_id != facts.table_id:
        raise CommandError(
            f"Refused: {facts.name} is not the table of its identity item, so its rows do not show "
            "what a gap lost. Nothing was written. Backfill from the table that it replaces."
        )


def _print_gaps(found: "list[HistoryGap]") -> None:
    console.print_table(
        ("recorded (UTC)", "changes", "from", "to", "reason"),
        (
            (
                f"{gap.recorded_at:%Y-%m-%d %H:%M}",
                gap.records or "unknown",
                gap.first_at and f"{gap.first_at:%Y-%m-%d %H:%M:%S}",
                gap.last_at and f"{gap.last_at:%Y-%m-%d %H:%M:%S}",
                gap.reason,
            )
            for gap in found
        ),
    )
