"""`oncely audit`: our jobs against the payment providers' own lists."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from oncely.cli import console
from oncely.cli.errors import ExitCode, usage_error
from oncely.cli.options import JsonOption, time_option, with_stack
from oncely.cli.stack_connection import StackConnection
from oncely.core.money import Money
from oncely.core.text import format_minute

if TYPE_CHECKING:
    from oncely.operate.audit_book import AuditBook, AuditPeriod
    from oncely.operate.audit_payments import AuditResult, PaymentAuditor
    from oncely.plugins.ledger import LedgerTotal

app: Final = typer.Typer(help="Compare jobs with the providers' own lists.", no_args_is_help=True)

# The report, --json, has all of them.
_MAX_SHOWN: Final = 50


@app.callback()
def _group() -> None:
    pass


@app.command()
@with_stack
def payments(
    stack: StackConnection,
    *,
    since: Annotated[
        datetime | None,
        time_option("--from", help="Start: a duration (7d) or a date (default: yesterday, UTC)."),
    ] = None,
    until: Annotated[
        datetime | None, time_option("--to", help="End, excluded (default: today 00:00 UTC).")
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Discard an interrupted audit of this period.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Compare charges with jobs, in both directions.

    Read-only. After an interruption, run it again to continue. Exit code 4 if anything differs.

    Examples:
    - `oncely audit payments`
    - `oncely audit payments --from 2026-11-01 --to 2026-11-08 --json`
    """
    period = _period(since, until, now=datetime.now(UTC))
    auditor = stack.app.payment_auditor
    path = _book_path(auditor, period)
    if restart:
        path.unlink(missing_ok=True)
    with _open_book(path, period, auditor) as book:
        with console.step_bars() as bars:
            result = auditor.run(book, report=bars.show)
        if json:
            for line in auditor.report_lines(book, result):
                console.print_json(line)
        else:
            _print_result(book, result, stack.cli_options)
    path.unlink(missing_ok=True)
    if result.number:
        raise typer.Exit(ExitCode.ACTION_NEEDED)


def _period(since: datetime | None, until: datetime | None, *, now: datetime) -> "AuditPeriod":
    from oncely.operate.audit_book import AuditPeriod

    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    end = until or midnight
    start = since or end - timedelta(days=1)
    if end <= start:
        raise usage_error(f"--to ({format_minute(end)}) is not after --from.")
    # Providers count in whole seconds.
    return AuditPeriod(since=start.replace(microsecond=0), until=end.replace(microsecond=0))


def _book_path(auditor: "PaymentAuditor", period: "AuditPeriod") -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "oncely"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    days = "-".join(f"{one:%Y%m%dT%H%M%S}" for one in (period.since, period.until))
    return folder / f"audit-{auditor.deployment()}-{days}.sqlite"


@contextmanager
def _open_book(
    path: Path, period: "AuditPeriod", auditor: "PaymentAuditor"
) -> "Iterator[AuditBook]":
    from oncely.operate.audit_book import AuditBook

    if path.exists():
        with AuditBook(str(path), period) as book:
            resumes = auditor.can_resume(book)
        if resumes:
            line = "Continuing an interrupted audit. Pass --restart to start over."
            console.print_line(line, to=console.stderr_console())
        else:
            path.unlink()
    path.touch(mode=0o600)
    with AuditBook(str(path), period) as book:
        yield book


def _print_result(book: "AuditBook", result: "AuditResult", options: str) -> None:
    period = f"{format_minute(result.period.since)} to {format_minute(result.period.until)}"
    if result.number == 0:
        console.print_line(f"No differences, {period}.", style="bold green")
    else:
        noun = "difference" if result.number == 1 else "differences"
        console.print_line(f"{result.number:,} {noun}, {period}.", style="bold red")
        for kind, number in sorted(result.counts.items()):
            console.print_line(f"  {number:>7,}  {kind.label}")
    if result.notes:
        words = "entry is" if result.notes == 1 else "entries are"
        text = f"{result.notes:,} more {words} explained by our own records: --json has them."
        console.print_line(text)
    for total in result.totals:
        _print_total(total)
    if not result.number:
        return
    console.print_line("")
    console.print_table(
        ("job", "difference", "amount", "at the provider"),
        (
            (
                one.job_key,
                one.kind.label,
                one.text,
                f"{one.provider} {', '.join(one.provider_ids)}",
            )
            for one in islice(book.differences(), _MAX_SHOWN)
        ),
    )
    if result.number > _MAX_SHOWN:
        console.print_line(f"The first {_MAX_SHOWN} are shown. Pass --json for all of them.")
    console.print_line(f"Show a job with: oncely show JOB{options}")


def _print_total(total: "LedgerTotal") -> None:
    def money(amount: int) -> str:
        return str(Money(amount, total.currency))

    charges, jobs = total.charges, total.jobs
    console.print_line("")
    console.print_line(f"{total.provider}, {total.currency.upper()}", style="bold")
    console.print_line(f"  charged     {charges.count:>9,}  {money(charges.amount):>20}")
    console.print_line(f"  our jobs    {jobs.count:>9,}  {money(jobs.amount):>20}")
    difference = charges.amount - jobs.amount
    console.print_line(f"  difference  {'':>9}  {money(difference):>20}")
    more = {
        "unresolved": total.unresolved,
        "refunded": total.refunds,
        "disputed": total.disputes,
        "not ours": total.not_ours,
    }
    for label, one in more.items():
        if one.count:
            console.print_line(f"  {label:<10}  {one.count:>9,}  {money(one.amount):>20}")
