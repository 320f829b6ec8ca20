"""Output for operators and programs. Values from elsewhere can neither color nor forge a line."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import IO, TYPE_CHECKING, Final

import typer

from oncely.cli.errors import usage_error
from oncely.domain.text import single_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

# Wide enough that a job key is never cut in a file or a pipe.
_NON_TERMINAL_WIDTH: Final = 160
_MAX_CELL_LENGTH: Final = 500


def stdout_console() -> "Console":
    """Return the console for results."""
    return _console(sys.stdout)


def stderr_console() -> "Console":
    """Return the console for progress, prompts and errors, which must not reach a pipe."""
    return _console(sys.stderr)


def _console(file: IO[str]) -> "Console":
    from rich.console import Console

    width = None if file.isatty() else _NON_TERMINAL_WIDTH
    return Console(file=file, width=width, markup=False, emoji=False, highlight=False)


def safe_text(value: object, style: str = "", max_length: int = _MAX_CELL_LENGTH) -> "Text":
    """Return a value as one printable line. Escape sequences and `[red]` are only text."""
    from rich.text import Text

    return Text("" if value is None else single_line(str(value), max_length), style=style)


def print_line(*parts: object, style: str = "", to: "Console | None" = None) -> None:
    """Print one line. It wraps on a terminal and stays one line in a pipe."""
    console = to or stdout_console()
    text = safe_text(" ".join(str(part) for part in parts if part not in ("", None)), style)
    console.print(text, soft_wrap=not console.is_terminal)


def capitalize_sentence(text: str) -> str:
    """Return the text with a capital and a full stop."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?', '…')) else '.'}"


def print_error(message: str) -> None:
    """Print an error to stderr."""
    print_line(message, style="bold red", to=stderr_console())


def print_table(columns: Sequence[str], rows: Iterable[Sequence["object | Text"]]) -> None:
    """Print rows under headings. Long values are folded, never cut."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else safe_text(cell) for cell in row))
    stdout_console().print(table)


def print_json(value: object) -> None:
    """Print one line of ASCII JSON, which no terminal or log can misread."""
    # Not through rich, which would wrap it.
    sys.stdout.write(json.dumps(value, default=str) + "\n")


def confirm(question: str) -> None:
    """Prompt for confirmation. Without a terminal, fail instead of assuming yes."""
    if not _is_terminal():
        raise usage_error(
            "Cannot prompt for confirmation: stdin is not a terminal. Pass --yes or --dry-run."
        )
    typer.confirm(question, abort=True, err=True)


def _is_terminal() -> bool:
    return sys.stdin.isatty()
