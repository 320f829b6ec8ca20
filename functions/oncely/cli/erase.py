"""`oncely erase`: removes personal data, and keeps the proof that each job ran."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from oncely.cli import console
from oncely.cli.errors import CommandError, ExitCode
from oncely.cli.options import ActorOption, DryRunOption, JsonOption, YesOption, with_stack
from oncely.cli.stack_connection import StackConnection, actor_name, caller_identity

if TYPE_CHECKING:
    from oncely.operate.erase import Eraser, Erasure

_POLL_SECONDS = 5.0


@with_stack
def erase(
    stack: StackConnection,
    *,
    customer: Annotated[str | None, typer.Option(help="Customer id, as in your orders.")] = None,
    record: Annotated[
        list[str] | None,
        typer.Option(help="Record of another system, as SOURCE:ID (crm:4419). Repeatable."),
    ] = None,
    email: Annotated[
        list[str] | None,
        typer.Option(help="Email address to find in rejected messages and pauses. Repeatable."),
    ] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    name: ActorOption = None,
    json: JsonOption = False,
) -> None:
    """Erase the personal data of one customer or contact.

    Removes it from job rows, records, import events, the history, rejected messages and the reasons
    of pauses. The proof that each job ran stays: key, status, times and provider reference. Open
    jobs drop the data when they end. After an interruption, run it again.

    Examples:
    - `oncely erase --customer cus_7 --record crm:4419 --dry-run`
    - `oncely erase --customer cus_7 --record crm:4419 --email ada@example.com`
    """
    from dataclasses import replace

    from oncely.history.erasure_log import Person

    person = Person.parse(customer, record or (), email or ())
    _require_all_tables(stack)
    actor = actor_name(caller_identity(stack), name)
    if not (yes or dry_run):
        console.confirm("Erase this personal data? This cannot be undone.")
    with console.stderr_console().status("reading job rows…") as status:
        eraser = replace(
            stack.app.eraser, report=lambda done: status.update(_describe_progress(done))
        )
        done = eraser.erase_tables(person, actor=actor, dry_run=dry_run)
        if not dry_run:
            _wait_for_archiver(eraser, status.update)
        done = eraser.erase_archive(person, done, actor=actor, dry_run=dry_run)
        if not dry_run and not done.found_nothing:
            eraser.record_run(done, actor=actor)
    if done.found_nothing:
        raise CommandError(
            "Nothing to erase: no job, record, import event, rejected message or pause contains "
            "these ids. If nothing was erased before, check them."
        )
    _print_result(done, dry_run=dry_run, as_json=json)


def _require_all_tables(stack: StackConnection) -> None:
    """Refuse if one of the stack's tables has no job type here that knows what to erase."""
    from oncely.contracts.settings import pascal_case

    used = {name for one in stack.app.registry for name in one.table_names()}
    known = {f"{pascal_case(name)}TableName" for name in ("jobs", "gates", *used)}
    tables = {name for name in stack.outputs if name.endswith("TableName")}
    if missing := sorted(tables - known):
        raise CommandError(
            f"The stack has tables that no job type of this project uses ({', '.join(missing)}), "
            "so their rows would stay. Run this in the project that was deployed."
        )


def _wait_for_archiver(eraser: "Eraser", update: Callable[[str], None]) -> None:
    """Wait until a function that read the log before this run can no longer write."""
    while (ready_at := eraser.archive_ready_at()) is not None:
        left = (ready_at - eraser.app.ports.clock.now()).total_seconds()
        update(f"waiting {left:.0f} s for changes that are being archived…")
        time.sleep(min(left, _POLL_SECONDS))


def _describe_progress(done: "Erasure") -> str:
    jobs = len(done.erased) + len(done.marked)
    return (
        f"{jobs:,} jobs, {done.history_read:,} history objects and {done.rejects_read:,} rejected "
        "messages read…"
    )


def _print_result(done: "Erasure", *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        console.print_json({**done.to_json(), "dry_run": dry_run})
    else:
        erased = "Would erase" if dry_run else "Erased"
        console.print_line(
            f"{erased} the data in {len(done.erased):,} jobs, {done.records:,} records, "
            f"{done.events:,} import events, {done.history:,} history objects, "
            f"{done.rejects:,} rejected messages and {done.pauses:,} pauses."
        )
    if done.marked:
        console.print_error(
            f"Still open: {', '.join(done.marked)}. An open job may still send messages, and drops "
            "the data when it ends. Run this again then."
        )
    if done.unreadable:
        console.print_error(
            f"Not erased: {', '.join(done.unreadable)}. Another version wrote these rows. Deploy "
            "it, and run this again."
        )
    if done.marked or done.unreadable:
        raise typer.Exit(ExitCode.ACTION_NEEDED)
