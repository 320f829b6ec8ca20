"""`oncely rejects`: lists rejected messages, and resends corrected ones."""

import json as json_module
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from oncely.alerts.headlines import sentence
from oncely.cli import console
from oncely.cli.errors import CommandError, ExitCode, usage_error
from oncely.cli.options import (
    ActorOption,
    DryRunOption,
    JsonOption,
    YesOption,
    time_option,
    with_stack,
)
from oncely.cli.stack_connection import StackConnection, actor_name, caller_identity

if TYPE_CHECKING:
    from oncely.operate.rejects import RejectView

app: Final = typer.Typer(help="List and resend rejected messages.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(help="Name of the message, as the list shows it.")]


@app.command("list")
@with_stack
def list_rejects(
    stack: StackConnection,
    *,
    since: Annotated[
        datetime | None,
        time_option(help="Only rejects after this time: a duration (24h) or a date."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="Maximum number to show.")] = 25,
    json: JsonOption = False,
) -> None:
    """List rejected messages, newest first (default: the last 7 days).

    Examples:
    - `oncely rejects list --since 24h`
    """
    found = stack.app.rejected_messages.recent(since=since, limit=limit)
    if json:
        for view in found:
            console.print_json(view.to_json())
    elif not found:
        console.print_line("No rejected messages.")
    else:
        for view in found:
            _print_reject(view)
        console.print_line(f"Resend one with: oncely rejects resend NAME{stack.cli_options}")


@app.command()
@with_stack
def show(stack: StackConnection, name: NameArgument, *, json: JsonOption = False) -> None:
    """Show one rejected message, with its body.

    Examples:
    - `oncely rejects show 2026/11/16/4f7b`
    """
    view = stack.app.rejected_messages.get(name)
    if json:
        console.print_json(view.to_json())
        return
    _print_reject(view)
    console.print_line("")
    console.print_line(str(view.to_json()["body"]))


@app.command()
@with_stack
def resend(
    stack: StackConnection,
    name: NameArgument,
    changes: Annotated[
        list[str] | None,
        typer.Argument(help="Corrected fields: name=value, or name= to remove one."),
    ] = None,
    *,
    actor: ActorOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """Correct and resend a rejected message, once.

    It stays the message of the same job: only fields outside the job key can be changed or
    removed. For anything else, use `oncely send`.
    Above the amount that the stage sets, a job that moves money waits until another operator
    returns it to ready (exit code 4).

    Examples:
    - `oncely rejects resend 2026/11/16/4f7b amount=1250`
    """
    from oncely.operate.operator_sender import OperatorSend

    service = stack.app.reject_resender
    message = service.corrected(name, _parse(changes or []))
    if not json:
        console.print_line(json_module.dumps(message))
    if dry_run:
        return
    if not yes:
        console.confirm("Send this message?")
    identity = caller_identity(stack)
    by = OperatorSend(actor=actor_name(identity, actor), signed_in_as=identity)
    result = service.resend(name, message, by)
    if json:
        told = {"job_key": result.job_key, "status": result.status, "conflict": result.conflict}
        console.print_json({**told, "sent": result.sent, "waits": result.waits})
    elif result.waits:
        console.print_line(f"{result.job_key} waits for a second operator: {result.waits}.")
    elif not result.conflict:
        console.print_line(f"Sent: {result.job_key} is {result.status.label}.")
    if result.waits:
        raise typer.Exit(ExitCode.ACTION_NEEDED)
    if result.conflict:
        raise CommandError(
            f"Refused: {result.job_key} has other values. {sentence(result.conflict)}",
            ExitCode.REFUSED,
        )


def _parse(words: "list[str]") -> dict[str, str | None]:
    changes: dict[str, str | None] = {}
    for word in words:
        field, separator, text = word.partition("=")
        if not separator or not field:
            raise usage_error(f"Invalid change {word!r}: write name=value, or name= to remove it.")
        changes[field] = text or None
    return changes


def _print_reject(view: "RejectView") -> None:
    shown = view.to_json()
    console.print_line(shown["name"], style="bold")
    pairs = {
        "time": f"{str(shown['at'])[:19].replace('T', ' ')} UTC",
        "queue": shown["queue"],
        "job": shown["job_key"],
        "reason": sentence(str(shown["reason"])),
        "resent": "yes" if view.resent else None,
    }
    console.print_pairs((label, value) for label, value in pairs.items() if value)
