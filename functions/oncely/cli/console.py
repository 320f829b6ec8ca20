"""What people see and programs read; what others wrote can neither colour nor forge a line."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import IO, TYPE_CHECKING, Final

from oncely.domain.text import single_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

# Wide enough that a key is never cut when a program or a file takes the place of a terminal.
_NON_TERMINAL_WIDTH: Final = 160
_MAX_CELL_LENGTH: Final = 500


def stdout_console() -> "Console":
    """Where answers go."""
    return _console(sys.stdout)


def stderr_console() -> "Console":
    """Where progress, questions and complaints go: never into a pipe."""
    return _console(sys.stderr)


def _console(file: IO[str]) -> "Console":
    from rich.console import Console

    width = None if file.isatty() else _NON_TERMINAL_WIDTH
    return Console(file=file, width=width, markup=False, emoji=False, highlight=False)


def safe_text(value: object, style: str = "", max_length: int = _MAX_CELL_LENGTH) -> "Text":
    """A value as one printable line: an escape sequence or `[red]` in it is only text."""
    from rich.text import Text

    return Text("" if value is None else single_line(str(value), max_length), style=style)


def print_line(*parts: object, style: str = "", to: "Console | None" = None) -> None:
    """One line; it wraps on a terminal and stays one line in a pipe."""
    console = to or stdout_console()
    text = safe_text(" ".join(str(part) for part in parts if part not in ("", None)), style)
    console.print(text, soft_wrap=not console.is_terminal)


def capitalize_sentence(text: str) -> str:
    """What a service says, as a person would write it."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?', '…')) else '.'}"


def print_error(message: str) -> None:
    """What went wrong, in one sentence."""
    print_line(message, style="bold red", to=stderr_console())


def print_table(columns: Sequence[str], rows: Iterable[Sequence["object | Text"]]) -> None:
    """Rows under headings; long values are folded, never cut."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for name in columns:
        shown.add_column(name, overflow="fold")
    for row in rows:
        shown.add_row(*(cell if isinstance(cell, Text) else safe_text(cell) for cell in row))
    stdout_console().print(shown)


def print_json(value: object) -> None:
    """One line of JSON, in ASCII: no terminal and no log can be tricked by it."""
    # Not through rich, which would wrap it.
    sys.stdout.write(json.dumps(value, default=str) + "\n")
