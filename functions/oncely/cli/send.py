"""`oncely send`: each message becomes one job, however often it is sent."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from oncely.cli import console as screen
from oncely.cli.exits import CommandError, ExitCode
from oncely.cli.options import JsonOption, with_stack
from oncely.cli.stack_connection import StackConnection
from oncely.cli.time_arguments import parse_duration

if TYPE_CHECKING:
    from oncely.cli.messages import InputMessage
    from oncely.enqueue.enqueuer import EnqueueResult

# Rows are written side by side; a chunk is what is lost from sight when the command is stopped.
_CHUNK_SIZE: Final = 100
# So many complaints are read; of more, only the number matters.
_MAX_ERRORS_SHOWN: Final = 10


class SendOutcome(StrEnum):
    """What became of a message."""

    CREATED = "created"  # a new job
    QUEUED_LATER = "kept"  # a new job whose message the queue did not take: the reconciler sends it
    DUPLICATE = "duplicate"  # the job was there: this is the same one
    CONFLICT = "conflict"  # the job was there, and says something else


_STYLES: Final = {
    SendOutcome.CREATED: "green",
    SendOutcome.QUEUED_LATER: "yellow",
    SendOutcome.CONFLICT: "bold red",
}


@with_stack
def send(
    stack: StackConnection,
    message: Annotated[
        list[str] | None,
        typer.Argument(help="JSON, or a job type and fields: payment.charge order_id=18452."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(help="A file with one JSON message a line; - is the standard input."),
    ] = None,
    unique_for: Annotated[
        str | None,
        typer.Option(help="One job in this time, such as 10m, for jobs that may run again."),
    ] = None,
    *,
    json: JsonOption = False,
) -> None:
    """Send jobs. Sending one twice is safe: the second answer is the first job's."""
    messages = _read(message or [], file)
    window = None if unique_for is None else parse_duration(unique_for)
    enqueuer = stack.services(actor="producer").enqueuer
    outcomes: Counter[SendOutcome] = Counter()
    for chunk in _with_progress(messages):
        bodies = [one.body for one in chunk]
        for one, enqueued in zip(
            chunk, enqueuer.enqueue_many(bodies, unique_for=window), strict=True
        ):
            outcome = _classify(enqueued)
            outcomes[outcome] += 1
            _print_outcome(one, enqueued, outcome, as_json=json)
    if len(messages) > 1 and not json:
        screen.print_line(", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items())))
    if outcomes[SendOutcome.CONFLICT]:
        raise typer.Exit(ExitCode.REFUSED)


def _read(words: Sequence[str], file: Path | None) -> "list[InputMessage]":
    """Every message, or a complaint about each bad one: then none is sent."""
    from oncely.cli.messages import MessageError, parse_arguments, validate_messages
    from oncely.jobs import CONTRACTS
    from oncely.registry import ContractRegistry

    if bool(words) == (file is not None):
        raise CommandError(
            "Give a message (`oncely send payment.charge order_id=18452`) or a --file.",
            ExitCode.USAGE,
        )
    registry = ContractRegistry(CONTRACTS)
    if file is not None:
        bodies = list(_lines(file))
    else:
        texts = parse_arguments(words, registry)
        alone = len(texts) == 1
        bodies = [
            ("the message" if alone else f"message {number}", body)
            for number, body in enumerate(texts, start=1)
        ]
    found = list(validate_messages(bodies, registry))
    errors = [one for one in found if isinstance(one, MessageError)]
    if errors and len(found) == 1:
        raise CommandError(f"{screen.capitalize_sentence(errors[0].reason)} Nothing was sent.")
    for error in errors[:_MAX_ERRORS_SHOWN]:
        screen.print_error(f"{error.source}: {error.reason}")
    if errors:
        raise CommandError(f"{len(errors)} of {len(found)} are not valid; nothing was sent.")
    return [one for one in found if not isinstance(one, MessageError)]


def _lines(file: Path) -> Iterator[tuple[str, str]]:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{file} cannot be read: it is not UTF-8.") from error
    # Not splitlines: a JSON text may hold U+2028, which is no end of a line here.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield f"line {number}", line


def _with_progress(messages: "Sequence[InputMessage]") -> "Iterator[Sequence[InputMessage]]":
    from rich.progress import Progress

    chunks = [messages[at : at + _CHUNK_SIZE] for at in range(0, len(messages), _CHUNK_SIZE)]
    quiet = len(chunks) < 2 or not screen.stderr_console().is_terminal  # noqa: PLR2004  # one needs no bar
    with Progress(console=screen.stderr_console(), transient=True, disable=quiet) as progress:
        task = progress.add_task("sending", total=len(messages))
        for chunk in chunks:
            yield chunk
            progress.advance(task, len(chunk))


def _classify(enqueued: "EnqueueResult") -> SendOutcome:
    if enqueued.conflict:
        return SendOutcome.CONFLICT
    if enqueued.created:
        return SendOutcome.CREATED if enqueued.sent else SendOutcome.QUEUED_LATER
    return SendOutcome.DUPLICATE


def _print_outcome(
    message: "InputMessage", enqueued: "EnqueueResult", outcome: SendOutcome, *, as_json: bool
) -> None:
    if as_json:
        screen.print_json(
            {
                "job_key": enqueued.job_key,
                "outcome": outcome,
                "status": enqueued.status,
                "conflict": enqueued.conflict,
            }
        )
        return
    line = screen.safe_text(f"{outcome:<9}", _STYLES.get(outcome, ""))
    line.append_text(
        screen.safe_text(f"  {enqueued.job_key}  {_explain(message, enqueued, outcome)}".rstrip())
    )
    screen.stdout_console().print(line, soft_wrap=True)


def _explain(message: "InputMessage", enqueued: "EnqueueResult", outcome: SendOutcome) -> str:
    match outcome:
        case SendOutcome.CREATED:
            return ""
        case SendOutcome.QUEUED_LATER:
            return "its queue did not take the message; the reconciler sends it"
        case SendOutcome.DUPLICATE:
            return f"it is {enqueued.status.label}"
        case SendOutcome.CONFLICT:
            return f"{message.source}: {enqueued.conflict}"
