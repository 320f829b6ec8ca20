"""`oncely restore-proofs`: opens a job table that replaces a lost one."""

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from oncely.cli import console
from oncely.cli.errors import CommandError, ExitCode
from oncely.cli.options import DryRunOption, JsonOption, YesOption, with_stack
from oncely.cli.stack_connection import StackConnection

if TYPE_CHECKING:
    from oncely.operate.restore_proofs import Declaration


@with_stack
def restore_proofs(
    stack: StackConnection,
    *,
    identity: Annotated[
        str | None, typer.Option(help="Identity to keep, if the history has several.")
    ] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """Restore the proofs, then unblock a job table that replaces a lost one.

    Reads them from the history. After an interruption, run it again.

    Examples:
    - `oncely restore-proofs --dry-run`
    - `oncely restore-proofs`
    """
    from oncely.core.text import format_minute
    from oncely.operate.restore_proofs import RestoreRefused

    if not (yes or dry_run):
        table = stack.app.settings.jobs_table
        console.confirm(
            f"Does {table} replace a lost table? Its open jobs will run here, so never declare a "
            "copy of a table that is in use. No job runs until the command has finished."
        )
    with console.stderr_console().status("reading the history…") as status:

        def report(done: "Declaration") -> None:
            status.update(f"{done.rows_read:,} rows read, {done.rows_written:,} written…")

        done = stack.app.proof_restorer.replace_table(
            replays_for=_replay_window(stack), identity=identity, dry_run=dry_run, report=report
        )
    if isinstance(done, RestoreRefused):
        raise CommandError(f"Restore refused: {done.reason}.")
    if json:
        facts = {"identity": done.identity.deployment, "table_id": done.identity.table_id}
        counts = {"read": done.rows_read, "written": done.rows_written}
        more = {"unresolved": done.unresolved, "dry_run": dry_run}
        console.print_json({**facts, **counts, **more})
        return
    wrote, left = ("would write", "would leave") if dry_run else ("wrote", "left")
    console.print_line(
        f"Read {done.rows_read:,} rows, {wrote} {done.rows_written:,}, "
        f"{left} {done.unresolved:,} to look up at providers."
    )
    verb = "would be" if dry_run else "is"
    console.print_line(f"The identity {verb} {done.identity.deployment}.")
    if done.identity.opens_at is not None and not dry_run:
        console.print_line(
            f"Jobs resume at {format_minute(done.identity.opens_at)}, after earlier workers end."
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
