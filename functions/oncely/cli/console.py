"""Output for operators and programs. External values can neither color nor forge a line."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import IO, TYPE_CHECKING, Final, TypeVar

import typer

from oncely.cli.errors import usage_error
from oncely.core.text import single_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID
    from rich.text import Text

T = TypeVar("T")

# Wide enough that a job key is never cut in a file or a pipe.
_NON_TERMINAL_WIDTH: Final = 160
_MAX_CELL_LENGTH: Final = 500
_COLUMN_GAP: Final = 3


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


def safe_text(value: object, style: str = "") -> "Text":
    """Return a value as one printable line. Escape sequences and `[red]` are only text."""
    from rich.text import Text

    return Text("" if value is None else single_line(str(value), _MAX_CELL_LENGTH), style=style)


def print_line(*parts: object, style: str = "", to: "Console | None" = None) -> None:
    """Print one line. It wraps on a terminal and stays one line in a pipe."""
    console = to or stdout_console()
    text = safe_text(" ".join(str(part) for part in parts if part not in ("", None)), style)
    console.print(text, soft_wrap=not console.is_terminal)


def print_error(message: str) -> None:
    """Print an error to stderr."""
    print_line(message, style="bold red", to=stderr_console())


def print_table(columns: Sequence[str], rows: Iterable[Sequence["object | Text"]]) -> None:
    """Print rows under headings, or as blocks where they are too wide. Nothing is cut or broken."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    cells = [[cell if isinstance(cell, Text) else safe_text(cell) for cell in row] for row in rows]
    console = stdout_console()
    widths = (max(map(len, column)) for column in zip(columns, *cells, strict=True))
    if sum(widths) + _COLUMN_GAP * (len(columns) - 1) > console.width:
        _print_blocks(console, columns, cells)
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, no_wrap=True)
    for row in cells:
        table.add_row(*row)
    console.print(table)


def _print_blocks(
    console: "Console", columns: Sequence[str], rows: "Iterable[Sequence[Text]]"
) -> None:
    """Print the first cell of each row on a line of its own, and the others with their names."""
    from rich.padding import Padding
    from rich.text import Text

    for first, *others in rows:
        # A key that is longer than the terminal wraps there, and can still be copied.
        console.print(Text.assemble(first, style="bold"), soft_wrap=True)
        named = [
            Text.assemble((f"{name} ", "dim"), cell)
            for name, cell in zip(columns[1:], others, strict=True)
            if cell.plain
        ]
        console.print(Padding(Text(" · ").join(named), (0, 0, 0, 2)), soft_wrap=False)


def print_pairs(pairs: Iterable[tuple[str, object]]) -> None:
    """Print labels with a value or several lines beside them, which wrap between words."""
    from rich.table import Table
    from rich.text import Text

    console = stdout_console()
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for label, value in pairs:
        lines = [safe_text(line) for line in (value if isinstance(value, tuple) else (value,))]
        grid.add_row(Text(f"  {label}", "dim"), Text("\n").join(lines))
    console.print(grid)


def with_progress(items: Iterable[T], label: str, *, total: int) -> Iterator[T]:
    """Yield the items. Show a progress bar, if there are several and stderr is a terminal."""
    from rich.progress import track

    console = stderr_console()
    quiet = total < 2 or not console.is_terminal  # noqa: PLR2004  # one item needs no bar
    yield from track(items, label, total=total, console=console, transient=True, disable=quiet)


@dataclass
class StepBars:
    """A progress bar for each step, on stderr."""

    progress: "Progress"
    _tasks: "dict[str, TaskID]" = field(default_factory=dict)

    def show(self, step: str, share: float, count: int) -> None:
        """Show the progress of a step, from 0 to 1, and a number beside its bar."""
        if step not in self._tasks:
            self._tasks[step] = self.progress.add_task(step, total=1.0, number="")
        self.progress.update(self._tasks[step], completed=share, number=f"{count:,}")

    def print_line(self, line: str) -> None:
        """Print a result. On a terminal, it is above the bars."""
        shown = not self.progress.disable and sys.stdout.isatty()
        print_line(line, to=self.progress.console if shown else None)


@contextmanager
def step_bars(*, hidden: bool = False) -> Iterator[StepBars]:
    """Show the progress of several steps, if stderr is a terminal."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[number]}"))
    console = stderr_console()
    with Progress(
        *columns,
        TimeElapsedColumn(),
        console=console,
        disable=hidden or not console.is_terminal,
        redirect_stdout=False,  # which would write the results for a pipe to stderr
    ) as progress:
        yield StepBars(progress)


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


def format_age(at: datetime, now: datetime) -> str:
    """Format how long ago a time was, or how far ahead: "4 min ago", "in 2 h"."""
    minutes = abs(now - at).total_seconds() / 60
    if minutes < 1:
        return "now"
    if minutes < 60:  # noqa: PLR2004  # an hour
        text = f"{minutes:.0f} min"
    elif minutes < 48 * 60:
        text = f"{minutes / 60:.0f} h"
    else:
        text = f"{minutes / 1440:.0f} days"
    return f"{text} ago" if at <= now else f"in {text}"
