"""`oncely archive`: read the history of jobs, show its gaps and close them."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ops_cli import screen
from ops_cli.exits import CommandError, Exit
from ops_cli.find import quoted
from ops_cli.moments import moment
from ops_cli.options import AsJson, DryRun, at_a_place
from ops_cli.place import Place

if TYPE_CHECKING:
    from oncely.adapters.deployment_identity import DynamoTableIdentity
    from oncely.adapters.history_reader import S3HistoryReader
    from oncely.domain.gaps import BackfillProgress, Gap

app: Final = typer.Typer(
    help="Read the history of jobs, show its gaps and close them.", no_args_is_help=True
)


@app.command()
@at_a_place
def about(
    place: Place,
    business_id: Annotated[
        str, typer.Argument(help="Order, customer, provider reference or job key.")
    ],
    *,
    since: Annotated[
        str | None,
        typer.Option("--from", help="First day: 30d (ago), or a date (default: the first)."),
    ] = None,
    until: Annotated[str | None, typer.Option("--to", help="Last day (default: today).")] = None,
    json: AsJson = False,
) -> None:
    """Show every recorded change about one id, oldest first."""
    now = datetime.now(UTC)
    days = [None if one is None else moment(one, now=now).date() for one in (since, until)]
    first, last = days
    if first is not None and last is not None and last < first:
        raise CommandError(f"--to ({last}) is before --from ({first}).", Exit.USAGE)
    lines = _reader(place).about(business_id, since=first, until=last)
    if not lines:
        asked = " in these days" if first or last else ""
        raise CommandError(
            f"The history has nothing about {business_id!r}{asked}. It is a few minutes behind the "
            f"job table, which `oncely find {quoted(business_id)}` reads."
        )
    if json:
        for line in lines:
            screen.as_json(line.to_dict())
        return
    screen.table(
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
@at_a_place
def gaps(place: Place, *, json: AsJson = False) -> None:
    """Show the gaps in the history; `backfill` closes them."""
    found = _reader(place).open_gaps()
    if json:
        for gap in found:
            screen.as_json(gap.to_dict())
    elif not found:
        screen.say("The history has no open gap.")
    else:
        _show(found)
    if found:
        raise typer.Exit(Exit.ATTENTION)


@app.command()
@at_a_place
def backfill(
    place: Place,
    *,
    since: Annotated[
        str | None,
        typer.Option("--from", help="Only rows changed since then: 7d (ago), or a date."),
    ] = None,
    dry_run: DryRun = False,
    json: AsJson = False,
) -> None:
    """Scan the job table, write a line for each row, close the gaps.

    Run it again after an interruption: it continues where it stopped.
    """
    from oncely.adapters.deployment_identity import DynamoTableIdentity
    from oncely.adapters.row_scan import DynamoRowScan
    from oncely.adapters.s3_history import S3HistoryStore
    from oncely.adapters.system import SystemClock
    from oncely.adapters.table_generation import TableGeneration
    from oncely.services.backfill import Backfill

    reader, table = _reader(place), _output(place, "JobsTableName")
    dynamodb = place.client("dynamodb")
    _refuse_an_undeclared(DynamoTableIdentity(dynamodb, table))
    service = Backfill(
        scan=DynamoRowScan(dynamodb, table),
        store=S3HistoryStore(reader.client, reader.bucket),
        reader=reader,
        clock=SystemClock(),
    )
    rows_from = None if since is None else moment(since, now=datetime.now(UTC))
    with screen.aside().status("scanning…") as status:

        def report(progress: "BackfillProgress") -> None:
            status.update(f"{progress.rows:,} rows read, {progress.lines:,} lines…")

        done = service.run(
            generation=TableGeneration(dynamodb, table)(),
            rows_from=rows_from,
            dry_run=dry_run,
            report=report,
        )
    progress = done.progress
    if json:
        closed = {"closed": [gap.name for gap in done.closed], "dry_run": dry_run}
        screen.as_json({**progress.to_dict(), **closed, "open": len(done.still_open)})
    else:
        wrote = "would write" if dry_run else "wrote"
        screen.say(f"Read {progress.rows:,} rows, {wrote} {progress.lines:,} lines.")
        screen.say(f"Gaps {'that it would close' if dry_run else 'closed'}: {len(done.closed)}.")
    if done.still_open:
        screen.complain(
            f"{len(done.still_open)} gaps are still open: they are newer than this scan, or began "
            "before --from. Run `oncely archive backfill` again, without --from."
        )
        raise typer.Exit(Exit.ATTENTION)


def _refuse_an_undeclared(table: "DynamoTableIdentity") -> None:
    """A restored table lacks what a gap lost: its scan would close the gap that must stop it."""
    item, facts = table.identity(), table.facts()
    if item is None or item.table_id != facts.table_id:
        raise CommandError(
            f"{facts.name} is not the table of its identity item, so a scan of it does not show "
            "what a gap lost. Nothing was written. Scan the table that it replaces.",
            Exit.REFUSED,
        )


def _reader(place: Place) -> "S3HistoryReader":
    from oncely.adapters.history_reader import S3HistoryReader

    return S3HistoryReader(place.client("s3"), _output(place, "ArchiveBucketName"))


def _output(place: Place, name: str) -> str:
    found = place.outputs.get(name)
    if found is None:
        raise CommandError(
            f"The stack {place.name} has no output {name}: deploy it again.", Exit.UNREACHABLE
        )
    return found


def _show(found: "list[Gap]") -> None:
    screen.table(
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
