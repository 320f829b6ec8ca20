"""`oncely send`: each message becomes one job, however often it is sent."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ops_cli import screen
from ops_cli.exits import CommandError, Exit
from ops_cli.moments import span
from ops_cli.options import AsJson, at_a_place
from ops_cli.place import Place

if TYPE_CHECKING:
    from oncely.services.enqueue import Enqueued
    from ops_cli.messages import Written

# Rows are written side by side; a chunk is what is lost from sight when the command is stopped.
_CHUNK: Final = 100
# So many complaints are read; of more, only the number matters.
_FAULTS_SHOWN: Final = 10


class Fate(StrEnum):
    """What became of a message."""

    CREATED = "created"  # a new job
    KEPT = "kept"  # a new job whose message the queue did not take: the reconciler sends it
    DUPLICATE = "duplicate"  # the job was there: this is the same one
    CONFLICT = "conflict"  # the job was there, and says something else


_STYLES: Final = {Fate.CREATED: "green", Fate.KEPT: "yellow", Fate.CONFLICT: "bold red"}


@at_a_place
def send(
    place: Place,
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
    json: AsJson = False,
) -> None:
    """Send jobs. Sending one twice is safe: the second answer is the first job's."""
    messages = _read(message or [], file)
    window = None if unique_for is None else span(unique_for)
    enqueuer = place.desk(actor="producer").enqueuer
    fates: Counter[Fate] = Counter()
    for chunk in _with_progress(messages):
        bodies = [one.body for one in chunk]
        for one, answer in zip(
            chunk, enqueuer.enqueue_many(bodies, unique_for=window), strict=True
        ):
            fate = _fate(answer)
            fates[fate] += 1
            _tell(one, answer, fate, as_json=json)
    if len(messages) > 1 and not json:
        screen.say(", ".join(f"{count} {fate}" for fate, count in sorted(fates.items())))
    if fates[Fate.CONFLICT]:
        raise typer.Exit(Exit.REFUSED)


def _read(words: Sequence[str], file: Path | None) -> "list[Written]":
    """Every message, or a complaint about each bad one: then none is sent."""
    from oncely.contracts import CONTRACTS
    from oncely.registry import Registry
    from ops_cli.messages import Fault, checked, of_arguments

    if bool(words) == (file is not None):
        raise CommandError(
            "Give a message (`oncely send payment.charge order_id=18452`) or a --file.", Exit.USAGE
        )
    registry = Registry(CONTRACTS)
    if file is not None:
        bodies = list(_lines(file))
    else:
        texts = of_arguments(words, registry)
        alone = len(texts) == 1
        bodies = [
            ("the message" if alone else f"message {number}", body)
            for number, body in enumerate(texts, start=1)
        ]
    found = list(checked(bodies, registry))
    faults = [one for one in found if isinstance(one, Fault)]
    if faults and len(found) == 1:
        raise CommandError(f"{screen.sentence(faults[0].why)} Nothing was sent.")
    for fault in faults[:_FAULTS_SHOWN]:
        screen.complain(f"{fault.place}: {fault.why}")
    if faults:
        raise CommandError(f"{len(faults)} of {len(found)} are not valid; nothing was sent.")
    return [one for one in found if not isinstance(one, Fault)]


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


def _with_progress(messages: "Sequence[Written]") -> "Iterator[Sequence[Written]]":
    from rich.progress import Progress

    chunks = [messages[at : at + _CHUNK] for at in range(0, len(messages), _CHUNK)]
    quiet = len(chunks) < 2 or not screen.aside().is_terminal  # noqa: PLR2004  # one needs no bar
    with Progress(console=screen.aside(), transient=True, disable=quiet) as progress:
        task = progress.add_task("sending", total=len(messages))
        for chunk in chunks:
            yield chunk
            progress.advance(task, len(chunk))


def _fate(answer: "Enqueued") -> Fate:
    if answer.conflict:
        return Fate.CONFLICT
    if answer.created:
        return Fate.CREATED if answer.sent else Fate.KEPT
    return Fate.DUPLICATE


def _tell(message: "Written", answer: "Enqueued", fate: Fate, *, as_json: bool) -> None:
    if as_json:
        screen.as_json(
            {
                "job_key": answer.job_key,
                "fate": fate,
                "status": answer.status,
                "conflict": answer.conflict,
            }
        )
        return
    line = screen.plain(f"{fate:<9}", _STYLES.get(fate, ""))
    line.append_text(screen.plain(f"  {answer.job_key}  {_why(message, answer, fate)}".rstrip()))
    screen.out().print(line, soft_wrap=True)


def _why(message: "Written", answer: "Enqueued", fate: Fate) -> str:
    match fate:
        case Fate.CREATED:
            return ""
        case Fate.KEPT:
            return "its queue did not take the message; the reconciler sends it"
        case Fate.DUPLICATE:
            return f"it is {answer.status.in_words}"
        case Fate.CONFLICT:
            return f"{message.place}: {answer.conflict}"
