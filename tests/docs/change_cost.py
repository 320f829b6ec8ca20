"""Which files a change touches: `python -m tests.docs.change_cost` writes the table.

An example of each kind is searched in the code, without comments and docstrings. A new status is
different: every `match` over `Status` that ends in `assert_never` must handle it. `--mypy` adds a
status to a copy of the code and checks that the type checker names the same places; it takes
minutes.
"""

import ast
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.docs.pages import REPOSITORY

PAGE: Final = REPOSITORY / "docs" / "architecture.md"
BEGIN: Final = "<!-- python -m tests.docs.change_cost -->\n"
END: Final = "<!-- end -->"
LIFECYCLE: Final = "functions/oncely/core/lifecycle.py"
_LOCAL: Final = "infra/oncely_local/"


@dataclass(frozen=True, kw_only=True)
class Change:
    """A kind of change, and an example of it that the code already has."""

    adds: str
    example: str
    pattern: str
    new: tuple[str, ...] = ()  # files and folders that the change creates
    ignored: tuple[str, ...] = ()  # users of the example, which the change itself does not need
    strings: bool = True
    pages: tuple[str, ...] = ()
    then: str = ""


CHANGES: Final = (
    Change(
        adds="a provider",
        example="HubSpot",
        pattern="(?i)hubspot",
        new=("functions/oncely/providers/hubspot/",),
        ignored=("functions/oncely/jobs/",),
        pages=("Makefile", "pyproject.toml"),
        then="`make lock`, `make docs`",
    ),
    Change(
        adds="a job type",
        example="`sync.push`",
        pattern=r"sync\.push|sync_push|SyncPush",
        new=("functions/oncely/jobs/sync_push.py",),
        then="`make docs`, infra snapshots",
    ),
    Change(adds="a metric", example="`DeadLetters`", pattern=r"\bDEAD_LETTERS\b"),
    Change(
        adds="an alarm",
        example="`HistoryBehind`",
        pattern=r"HistoryBehind|history-behind|(?m:^## History behind$)",
        pages=("docs/operations.md",),
        then="infra snapshots",
    ),
    Change(
        adds="an operator action",
        example="`resubmit`",
        pattern=r"\bRESUBMIT\b|^resubmit$",
        then="`make docs`",
    ),
    Change(
        adds="a CLI command",
        example="`oncely redrive`",
        pattern=r"^redrive$|^oncely\.cli\.redrive$",
        new=("functions/oncely/cli/redrive.py",),
        strings=False,
        then="`make docs`",
    ),
)


def table() -> str:
    """The table of docs/architecture.md."""
    lines = ["| to add | create | edit | then run | measured on |", "|---|---|---|---|---|"]
    lines.extend(_row(change) for change in CHANGES)
    lines.insert(4, _status_row())
    return "\n".join(lines) + "\n"


def status_places() -> Counter[str]:
    """How many matches over `Status` each product file has that a new member must be added to."""
    found: Counter[str] = Counter()
    for path in _python_files():
        found[_relative(path)] += sum(_is_exhaustive(node) for node in ast.walk(_tree(path)))
    return +found


def product_strings() -> set[str]:
    """Every name and every string of the product."""
    return {word for path in _python_files() for word in _words(path, strings=True)}


@cache
def product_text() -> str:
    """The source of the product, with comments and docstrings."""
    return "\n".join(path.read_text(encoding="utf-8") for path in _python_files())


def mypy_places() -> Counter[str]:
    """The places that the type checker names when a status is added to a copy of the code."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("functions", "infra"):
            shutil.copytree(REPOSITORY / name, copy / name)
        shutil.copy(REPOSITORY / "pyproject.toml", copy)
        lifecycle = copy / LIFECYCLE
        text = lifecycle.read_text(encoding="utf-8")
        added = re.sub(
            r"(class Status\(.*?\n\n)", r'\1    ADDED = "added"\n', text, flags=re.DOTALL
        )
        lifecycle.write_text(added, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "mypy", "functions", "infra"],
            cwd=copy,
            capture_output=True,
            text=True,
            check=False,
        )
    return Counter(re.findall(r"^(.+?):\d+: error: .*assert_never", done.stdout, re.MULTILINE))


def _row(change: Change) -> str:
    touched = _touched(change)
    elsewhere = (*change.new, *change.ignored, _LOCAL)
    local = sum(name.startswith(_LOCAL) for name in touched)
    edit = _code(name for name in touched if not name.startswith(elsewhere)) + (
        f"; for the demo, {local} in `{_LOCAL}`" if local else ""
    )
    return _line(change.adds, _code(change.new), edit, change.then, change.example)


def _status_row() -> str:
    places = status_places()
    edit = f"{sum(places.values())} matches that mypy reports: {_code(places)}"
    return _line(
        "a status", "", edit, "the diagram of docs/concepts.md", "a new member of `Status`"
    )


def _line(*cells: str) -> str:
    return f"| {' | '.join(cell or 'none' for cell in cells)} |"


def _code(names: object) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))  # type: ignore[call-overload]


def _touched(change: Change) -> list[str]:
    pattern = re.compile(change.pattern)
    python = [
        path
        for path in _python_files()
        if any(map(pattern.search, _words(path, strings=change.strings)))
    ]
    static = (REPOSITORY / "functions").rglob("static/*")
    pages = (*static, *(REPOSITORY / name for name in change.pages))
    text = [path for path in pages if pattern.search(path.read_text(encoding="utf-8"))]
    return [_relative(path) for path in (*python, *text)]


@cache
def _words(path: Path, *, strings: bool) -> frozenset[str]:
    """The names and the strings of a file, without docstrings."""
    return frozenset(_all_words(_tree(path), strings=strings))


def _all_words(tree: ast.Module, *, strings: bool) -> Iterator[str]:
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.ImportFrom(module=str(name)):
                yield name
            case ast.Constant(value=str(text)) if strings and id(node) not in docstrings:
                yield text
            case _:
                pass


def _is_exhaustive(node: ast.AST) -> bool:
    if not isinstance(node, ast.Match):
        return False
    *cases, last = node.cases
    return "assert_never" in ast.unparse(last) and any(
        "Status." in ast.unparse(case.pattern) for case in cases
    )


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _python_files() -> list[Path]:
    return sorted(
        path for root in ("functions", "infra") for path in (REPOSITORY / root).rglob("*.py")
    )


def _relative(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def main() -> None:
    """Write the table into the page."""
    if "--mypy" in sys.argv:
        expected, named = status_places(), mypy_places()
        sys.exit(None if named == expected else f"mypy reports {named}, the page lists {expected}")
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    PAGE.write_text(before + BEGIN + "\n" + table() + "\n" + END + rest.partition(END)[2], "utf-8")


if __name__ == "__main__":
    main()
