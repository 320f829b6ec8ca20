"""`oncely restore-proofs`: open a job table that was restored, copied or made anew."""

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ops_cli import screen
from ops_cli.exits import CommandError, Exit
from ops_cli.options import AsJson, DryRun, Yes, at_a_place
from ops_cli.place import Place
from ops_cli.repair import confirm

if TYPE_CHECKING:
    from oncely.services.restore_proofs import Declared, Report, RestoreProofs


@at_a_place
def restore_proofs(
    place: Place,
    *,
    replacement: Annotated[
        bool,
        typer.Option("--replacement", help="The table replaces a lost one: keep the identity."),
    ] = False,
    copy: Annotated[
        bool,
        typer.Option("--copy", help="The table is a copy: new identity, open jobs are parked."),
    ] = False,
    identity: Annotated[
        str | None,
        typer.Option(help="Identity to keep, if the history names several (with --replacement)."),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Restore proofs from the history, then open the job table.

    Run it again after an interruption.
    """
    from oncely.domain.times import minute
    from oncely.services.restore_proofs import CannotRestore

    if replacement == copy:
        raise CommandError(
            "Pass either --replacement (this table takes the place of a lost one) or --copy "
            "(this table is for another stage).",
            Exit.USAGE,
        )
    if copy and identity is not None:
        raise CommandError(
            "--identity goes with --replacement: a copy gets a new identity.", Exit.USAGE
        )
    service, table = _service(place)
    if not (yes or dry_run):
        kind = "a replacement" if replacement else "a copy"
        confirm(f"Declare {table} {kind}? No job runs on it until this is done.")
    with screen.aside().status("reading the history…") as status:

        def report(done: "Declared") -> None:
            status.update(f"{done.read:,} rows read, {done.written:,} written…")

        done = _run(place, service, copy=copy, identity=identity, dry_run=dry_run, report=report)
    if isinstance(done, CannotRestore):
        raise CommandError(f"Not restored: {done.why}.")
    if json:
        facts = {"identity": done.identity.deployment, "table_id": done.identity.table_id}
        counts = {"read": done.read, "written": done.written, "unresolved": done.unresolved}
        screen.as_json({**facts, **counts, "dry_run": dry_run})
        return
    wrote, left = ("would write", "would leave") if dry_run else ("wrote", "left")
    parked = "parked for review" if copy else "to ask providers about"
    screen.say(
        f"Read {done.read:,} rows, {wrote} {done.written:,}, {left} {done.unresolved:,} {parked}."
    )
    screen.say(f"The identity {'would be' if dry_run else 'is'} {done.identity.deployment}.")
    if done.identity.opens_at is not None and not dry_run:
        screen.say(
            f"Jobs resume at {minute(done.identity.opens_at)}, when no earlier worker can run."
        )


def _run(  # what the options say
    place: Place,
    service: "RestoreProofs",
    *,
    copy: bool,
    identity: str | None,
    dry_run: bool,
    report: "Report",
) -> Any:  # noqa: ANN401  # either of the service's outcomes
    if copy:
        return service.declare_copy(dry_run=dry_run, report=report)
    return service.replace_table(
        replays_for=_replays_for(place), named=identity, dry_run=dry_run, report=report
    )


def _service(place: Place) -> "tuple[RestoreProofs, str]":
    from oncely.adapters.deployment_identity import DynamoTableIdentity, new_identity
    from oncely.adapters.dynamodb_jobs import DynamoJobStore
    from oncely.adapters.history_reader import S3HistoryReader
    from oncely.adapters.row_scan import DynamoRowScan
    from oncely.adapters.system import SystemClock
    from oncely.services.restore_proofs import RestoreProofs

    table, client = _output(place, "JobsTableName"), place.client("dynamodb")
    service = RestoreProofs(
        table=DynamoTableIdentity(client, table),
        store=DynamoJobStore(client=client, table=table, tables={}),
        scan=DynamoRowScan(client, table),
        history=S3HistoryReader(place.client("s3"), _output(place, "ArchiveBucketName")),
        clock=SystemClock(),
        new_identity=new_identity,
    )
    return service, table


def _replays_for(place: Place) -> timedelta:
    """How long a message from before the restore may still arrive: in its queue, then as dead."""
    dead = place.outputs.get("DeadLetterQueueUrl")
    queues = [
        url
        for name, url in place.outputs.items()
        if name.endswith("QueueUrl") and name not in _NOT_JOBS
    ]
    if dead is None or not queues:
        raise CommandError(
            f"The stack {place.name} does not name its queues: deploy it again.", Exit.UNREACHABLE
        )
    return max(_retention(place, url) for url in queues) + _retention(place, dead)


_NOT_JOBS = frozenset({"RejectsQueueUrl", "DeadLetterQueueUrl", "MissedQueueUrl", "GapsQueueUrl"})


def _retention(place: Place, url: str) -> timedelta:
    found = place.client("sqs").get_queue_attributes(
        QueueUrl=url, AttributeNames=["MessageRetentionPeriod"]
    )
    return timedelta(seconds=int(found["Attributes"]["MessageRetentionPeriod"]))


def _output(place: Place, name: str) -> str:
    found = place.outputs.get(name)
    if found is None:
        raise CommandError(
            f"The stack {place.name} has no output {name}: deploy it again.", Exit.UNREACHABLE
        )
    return found
