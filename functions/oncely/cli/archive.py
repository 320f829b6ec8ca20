"""`oncely archive`: read the history of jobs, show its gaps and close them."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from oncely.cli import console as screen
from oncely.cli.exits import CommandError, ExitCode
from oncely.cli.find import shell_quote
from oncely.cli.options import DryRunOption, JsonOption, with_stack
from oncely.cli.stack_connection import StackConnection
from oncely.cli.time_arguments import parse_time_argument

if TYPE_CHECKING:
    from oncely.aws.deployment_identity import DynamoTableIdentity
    from oncely.aws.s3_history_reader import S3HistoryReader
    from oncely.domain.gaps import BackfillProgress, HistoryGap

app: Final = typer.Typer(
    help="Read the history of jobs, show its gaps and close them.", no_args_is_help=True
)


@app.command()
@with_stack
def about(
    stack: StackConnection,
    business_id: Annotated[
        str, typer.Argument(help="Order, customer, provider reference or job key.")
    ],
    *,
    since: Annotated[
        str | None,
        typer.Option("--from", help="First day: 30d (ago), or a date (default: the first)."),
    ] = None,
    until: Annotated[str | None, typer.Option("--to", help="Last day (default: today).")] = None,
    json: JsonOption = False,
) -> None:
    """Show every recorded change about one id, oldest first."""
    now = datetime.now(UTC)
    days = [
        None if one is None else parse_time_argument(one, now=now).date() for one in (since, until)
    ]
    first, last = days
    if first is not None and last is not None and last < first:
        raise CommandError(f"--to ({last}) is before --from ({first}).", ExitCode.USAGE)
    lines = _reader(stack).about(business_id, since=first, until=last)
    if not lines:
        period = " in these days" if first or last else ""
        raise CommandError(
            f"The history has nothing about {business_id!r}{period}. It is a few minutes behind "
            f"the job table, which `oncely find {shell_quote(business_id)}` reads."
        )
    if json:
        for line in lines:
            screen.print_json(line.to_dict())
        return
    screen.print_table(
        ("at (UTC)", "job", "status", "event", "by", "reference"),
        (
            (
                f"{line.at:%Y-%m-%d %H:%M:%S}",
                line.job_key,
                line.status or line.record,
                line.event,
                line.actor,
                line.provider_ref,
            )
            for line in lines
        ),
    )


@app.command()
@with_stack
def gaps(stack: StackConnection, *, json: JsonOption = False) -> None:
    """Show the gaps in the history; `backfill` closes them."""
    found = _reader(stack).open_gaps()
    if json:
        for gap in found:
            screen.print_json(gap.to_dict())
    elif not found:
        screen.print_line("The history has no open gap.")
    else:
        _print_gaps(found)
    if found:
        raise typer.Exit(ExitCode.ACTION_NEEDED)


@app.command()
@with_stack
def backfill(
    stack: StackConnection,
    *,
    since: Annotated[
        str | None,
        typer.Option("--from", help="Only rows changed since then: 7d (ago), or a date."),
    ] = None,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Scan the job table, write a line for each row, close the gaps.

    Run it again after an interruption: it continues where it stopped.
    """
    from oncely.aws.deployment_identity import DynamoTableIdentity
    from oncely.aws.row_scan import DynamoRowScan
    from oncely.aws.s3_history import S3HistoryStore
    from oncely.aws.system import SystemClock
    from oncely.aws.table_generation import TableGenerationReader
    from oncely.publish.archive_history import Backfill

    reader, table = _reader(stack), _output(stack, "JobsTableName")
    dynamodb = stack.client("dynamodb")
    _require_declared_table(DynamoTableIdentity(dynamodb, table))
    service = Backfill(
        scan=DynamoRowScan(dynamodb, table),
        store=S3HistoryStore(reader.client, reader.bucket),
        reader=reader,
        clock=SystemClock(),
    )
    rows_from = None if since is None else parse_time_argument(since, now=datetime.now(UTC))
    with screen.stderr_console().status("scanning…") as status:

        def report(progress: "BackfillProgress") -> None:
            status.update(f"{progress.rows:,} rows read, {progress.lines:,} lines…")

        done = service.run(
            generation=TableGenerationReader(dynamodb, table)(),
            rows_from=rows_from,
            dry_run=dry_run,
            report=report,
        )
    progress = done.progress
    if json:
        closed = {"closed": [gap.name for gap in done.closed], "dry_run": dry_run}
        screen.print_json({**progress.to_dict(), **closed, "open": len(done.still_open)})
    else:
        wrote = "would write" if dry_run else "wrote"
        screen.print_line(f"Read {progress.rows:,} rows, {wrote} {progress.lines:,} lines.")
        screen.print_line(
            f"Gaps {'that it would close' if dry_run else 'closed'}: {len(done.closed)}."
        )
    if done.still_open:
        screen.print_error(
            f"{len(done.still_open)} gaps are still open: they are newer than this scan, or began "
            "before --from. Run `oncely archive backfill` again, without --from."
        )
        raise typer.Exit(ExitCode.ACTION_NEEDED)


def _require_declared_table(table: "DynamoTableIdentity") -> None:
    """A restored table lacks what a gap lost: its scan would close the gap that must stop it."""
    item, facts = table.identity(), table.facts()
    if item is None or item.table_id != facts.table_id:
        raise CommandError(
            f"{facts.name} is not the table of its identity item, so a scan of it does not show "
            "what a gap lost. Nothing was written. Scan the table that it replaces.",
            ExitCode.REFUSED,
        )


def _reader(stack: StackConnection) -> "S3HistoryReader":
    from oncely.aws.s3_history_reader import S3HistoryReader

    return S3HistoryReader(stack.client("s3"), _output(stack, "ArchiveBucketName"))


def _output(stack: StackConnection, name: str) -> str:
    found = stack.outputs.get(name)
    if found is None:
        raise CommandError(
            f"The stack {stack.name} has no output {name}: deploy it again.", ExitCode.UNREACHABLE
        )
    return found


def _print_gaps(found: "list[HistoryGap]") -> None:
    screen.print_table(
        ("recorded (UTC)", "changes", "from", "to", "why"),
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
