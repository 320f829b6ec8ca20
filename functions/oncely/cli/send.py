"""`oncely send`: one job per message, however often it is sent."""

import json as json_text
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from oncely.alerts.headlines import sentence
from oncely.cli import console
from oncely.cli.errors import CommandError, ExitCode, usage_error
from oncely.cli.options import JsonOption, parse_duration, with_stack
from oncely.cli.project import project_jobs
from oncely.cli.stack_connection import StackConnection, caller_identity
from oncely.core.errors import InvalidInputError

if TYPE_CHECKING:
    from oncely.contracts.job import AnyJob
    from oncely.contracts.registry import JobRegistry
    from oncely.operate.operator_sender import SendResult

# The rows of a chunk are written concurrently. An interrupted command prints no result for one.
_CHUNK_SIZE: Final = 100
_MAX_ERRORS_SHOWN: Final = 10
_REASON: Final = "sent from the command line"


@dataclass(frozen=True)
class InputMessage:
    """A valid message and where it was read."""

    body: Mapping[str, object]
    source: str


class SendOutcome(StrEnum):
    """What happened to a message."""

    CREATED = "created"  # a new job
    QUEUED_LATER = "kept"  # a new job whose message was not queued: the reconciler resends it
    QUEUED = "queued"  # the job exists, and a worker checks this message
    DUPLICATE = "duplicate"  # the job exists with the same values
    CONFLICT = "conflict"  # the job exists with other values
    WAITS = "waits"  # for a second operator: nothing was sent


_STYLES: Final = {
    SendOutcome.CREATED: "green",
    SendOutcome.QUEUED_LATER: "yellow",
    SendOutcome.CONFLICT: "bold red",
    SendOutcome.WAITS: "yellow",
}


@with_stack
def send(
    stack: StackConnection,
    message: Annotated[
        list[str] | None,
        typer.Argument(help="JSON, or a job type and its fields: payment.charge order_id=18452."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="File with one JSON message per line (- for stdin).")
    ] = None,
    unique_for: Annotated[
        timedelta | None,
        typer.Option(
            help="Create at most one job in this time (10m), for jobs that may run again.",
            parser=parse_duration,
            metavar="<str>",
        ),
    ] = None,
    *,
    json: JsonOption = False,
) -> None:
    """Send messages, one job each.

    Duplicates are safe: they return the existing job.
    Above the amount that the stage sets, a job that moves money waits until another operator
    returns it to ready. Exit code 4 if any message waits.

    Examples:
    - `oncely send payment.charge order_id=18452`
    - `oncely send '{"job": "payment.charge", "v": 1, "order_id": "18452"}'`
    - `oncely send --file jobs.jsonl`
    """
    from oncely.operate.operator_sender import OperatorSend

    messages = _read(message or [], file)
    by = OperatorSend(actor=caller_identity(stack), reason=_REASON, unique_for=unique_for)
    sender = stack.app.operator_sender
    outcomes: Counter[SendOutcome] = Counter()
    chunks = [messages[at : at + _CHUNK_SIZE] for at in range(0, len(messages), _CHUNK_SIZE)]
    for chunk in console.with_progress(chunks, "sending", total=len(chunks)):
        results = sender.send([one.body for one in chunk], by)
        for one, result in zip(chunk, results, strict=True):
            outcome = _classify(result)
            outcomes[outcome] += 1
            _print_outcome(one, result, outcome, as_json=json)
    if len(messages) > 1 and not json:
        console.print_line(", ".join(f"{count} {one}" for one, count in sorted(outcomes.items())))
    if outcomes[SendOutcome.CONFLICT]:
        raise typer.Exit(ExitCode.REFUSED)
    if outcomes[SendOutcome.WAITS]:
        raise typer.Exit(ExitCode.ACTION_NEEDED)


def _read(words: Sequence[str], file: Path | None) -> list[InputMessage]:
    """Return every message. If one is invalid, print the errors and send none."""
    from oncely.contracts.registry import JobRegistry

    if bool(words) == (file is not None):
        raise usage_error("Pass a message (`oncely send payment.charge order_id=18452`) or --file.")
    registry = JobRegistry(project_jobs())
    if file is not None:
        bodies = list(_lines(file))
    else:
        texts = _parse_arguments(words, registry)
        alone = len(texts) == 1
        bodies = [
            ("the message" if alone else f"message {number}", body)
            for number, body in enumerate(texts, start=1)
        ]
    messages: list[InputMessage] = []
    errors: list[str] = []
    for source, body in bodies:
        # As its worker would parse it.
        try:
            message = registry.parse_body(body)
            message.job_key()
        except InvalidInputError as error:
            if len(bodies) == 1:
                raise CommandError(f"{sentence(str(error))} Nothing was sent.") from error
            errors.append(f"{source}: {error}")
        else:
            messages.append(InputMessage(message.to_sent_dict(), source))
    for line in errors[:_MAX_ERRORS_SHOWN]:
        console.print_error(line)
    if errors:
        raise CommandError(
            f"{len(errors)} of {len(bodies)} messages are invalid. Nothing was sent."
        )
    return messages


def _parse_arguments(words: Sequence[str], registry: "JobRegistry") -> list[str]:
    """Return JSON arguments unchanged, or build one message from a job type and its fields."""
    if words[0].lstrip().startswith("{"):
        return list(words)
    return [json_text.dumps(_message(registry.contract(words[0]), words[1:]))]


def _message(contract: "type[AnyJob]", fields: Sequence[str]) -> dict[str, object]:
    schema: dict[str, Any] = contract.model_json_schema()
    known: dict[str, dict[str, Any]] = schema["properties"]
    message: dict[str, object] = {"job": contract.job_type, "v": known["v"].get("const", 1)}
    for field in fields:
        name, equals, value = field.partition("=")
        if not equals:
            raise usage_error(f"Invalid field {field!r}: write name=value, such as order_id=18452.")
        message[name] = _parse_value(value, known.get(name, {}))
    return message


def _parse_value(value: str, field: Mapping[str, Any]) -> object:
    """Convert to the contract's type: an order id stays text, an amount becomes a number."""
    json_types = {one.get("type") for one in (field, *field.get("anyOf", ()))}
    if "string" in json_types or not json_types - {None, "null"}:
        return value
    try:
        return json_text.loads(value)
    except (ValueError, RecursionError):
        return value  # the contract's validation reports it


def _lines(file: Path) -> Iterator[tuple[str, str]]:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except OSError as error:
        raise CommandError(f"Cannot read {file}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"Cannot read {file}: it is not UTF-8.") from error
    # Not splitlines, which also splits at a U+2028 inside a JSON string.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield f"line {number}", line


def _classify(result: "SendResult") -> SendOutcome:
    if result.waits:
        return SendOutcome.WAITS
    if result.conflict:
        return SendOutcome.CONFLICT
    if result.created:
        return SendOutcome.CREATED if result.sent else SendOutcome.QUEUED_LATER
    return SendOutcome.QUEUED if result.sent else SendOutcome.DUPLICATE


def _print_outcome(
    message: InputMessage, result: "SendResult", outcome: SendOutcome, *, as_json: bool
) -> None:
    if as_json:
        told = {"job_key": result.job_key, "outcome": outcome, "status": result.status}
        console.print_json({**told, "conflict": result.conflict})
        return
    line = console.safe_text(f"{outcome:<9}", _STYLES.get(outcome, ""))
    line.append_text(
        console.safe_text(f"  {result.job_key}  {_explain(message, result, outcome)}".rstrip())
    )
    console.stdout_console().print(line, soft_wrap=True)


def _explain(message: InputMessage, result: "SendResult", outcome: SendOutcome) -> str:
    match outcome:
        case SendOutcome.WAITS:
            return f"for a second operator: {result.waits}"
        case SendOutcome.CREATED:
            return ""
        case SendOutcome.QUEUED_LATER:
            return "not queued: the reconciler will resend the message"
        case SendOutcome.QUEUED:
            return f"the job is {result.status.label}; a worker checks this message"
        case SendOutcome.DUPLICATE:
            return f"the job is {result.status.label}"
        case SendOutcome.CONFLICT:
            return f"{message.source}: {result.conflict}"
