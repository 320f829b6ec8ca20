"""`oncely restore-proofs`: opens a job table that was restored, copied or recreated."""

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oncely.cli import console
from oncely.cli.errors import CommandError, ExitCode, usage_error
from oncely.cli.options import DryRunOption, JsonOption, YesOption, with_stack
from oncely.cli.stack_connection import StackConnection

if TYPE_CHECKING:
    from oncely.operate.restore_proofs import Declaration, ReportProgress


@with_stack
def restore_proofs(
    stack: StackConnection,
    *,
    replacement: Annotated[
        bool,
        typer.Option(
            "--replacement", help="Declare a replacement of a lost table: keep its identity."
        ),
    ] = False,
    copy: Annotated[
        bool,
        typer.Option("--copy", help="Declare a copy: create a new identity and park open jobs."),
    ] = False,
    identity: Annotated[
        str | None,
        typer.Option(help="Identity to keep, if the history has several (with --replacement)."),
    ] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """Restore the proofs, then unblock the job table.

    Reads them from the history. After an interruption, run it again.

    Examples:
    - `oncely restore-proofs --replacement --dry-run`
    - `oncely restore-proofs --replacement`
    - `oncely restore-proofs --copy`
    """
    from oncely.core.text import format_minute
    from oncely.operate.restore_proofs import RestoreRefused

    if replacement == copy:
        raise usage_error(
            "Pass either --replacement (this table replaces a lost one) or --copy (this table is "
            "for another stage)."
        )
    if copy and identity is not None:
        raise usage_error("--identity needs --replacement: a copy gets a new identity.")
    if not (yes or dry_run):
        table = stack.app.settings.jobs_table
        kind = "a replacement" if replacement else "a copy"
        console.confirm(
            f"Declare {table} {kind}? No job runs on it until the command has finished."
        )
    with console.stderr_console().status("reading the history…") as status:

        def report(done: "Declaration") -> None:
            status.update(f"{done.rows_read:,} rows read, {done.rows_written:,} written…")

        done = _run(stack, copy=copy, identity=identity, dry_run=dry_run, report=report)
    if isinstance(done, RestoreRefused):
        raise CommandError(f"Restore refused: {done.reason}.")
    if json:
        facts = {"identity": done.identity.deployment, "table_id": done.identity.table_id}
        counts = {"read": done.rows_read, "written": done.rows_written}
        more = {"unresolved": done.unresolved, "dry_run": dry_run}
        console.print_json({**facts, **counts, **more})
        return
    wrote, left = ("would write", "would leave") if dry_run else ("wrote", "left")
    parked = "parked for review" if copy else "to look up at providers"
    console.print_line(
        f"Read {done.rows_read:,} rows, {wrote} {done.rows_written:,}, "
        f"{left} {done.unresolved:,} {parked}."
    )
    verb = "would be" if dry_run else "is"
    console.print_line(f"The identity {verb} {done.identity.deployment}.")
    if done.identity.opens_at is not None and not dry_run:
        console.print_line(
            f"Jobs resume at {format_minute(done.identity.opens_at)}, after earlier workers end."
        )


def _run(
    stack: StackConnection,
    *,
    copy: bool,
    identity: str | None,
    dry_run: bool,
    report: "ReportProgress",
) -> Any:  # noqa: ANN401  # one of the service's outcomes
    service = stack.app.proof_restorer
    if copy:
        return service.declare_copy(dry_run=dry_run, report=report)
    return service.replace_table(
        replays_for=_replay_window(stack), identity=identity, dry_run=dry_run, report=report
    )


def _replay_window(stack: StackConnection) -> timedelta:
    """Return how long a message from before the restore may arrive: both retentions added."""
    dead = stack.outputs.get("DeadLetterQueueUrl")
    queues = [
        url
        for name, url in stack.outputs.items()
        if name.endswith("QueueUrl") and name not in _NON_JOB_QUEUES
    ]
    if dead is None or not queues:
        raise CommandError(
            f"Stack {stack.name} has no queue outputs. Deploy it again.", ExitCode.UNREACHABLE
        )
    return max(_retention(stack, url) for url in queues) + _retention(stack, dead)


_NON_JOB_QUEUES = {"RejectsQueueUrl", "DeadLetterQueueUrl", "MissedQueueUrl", "GapsQueueUrl"}


def _retention(stack: StackConnection, url: str) -> timedelta:
    name = "MessageRetentionPeriod"
    found = stack.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=[name])
    return timedelta(seconds=int(found["Attributes"][name]))
