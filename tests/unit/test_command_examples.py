"""Every `oncely` line in the docs is a valid command."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from oncely.cli.main import app
from oncely_local.engine import REPOSITORY
from tests.support.cli import run_cli

PAGES = [*sorted((REPOSITORY / "docs").glob("*.md")), REPOSITORY / "README.md"]
_INLINE = re.compile(r"`(oncely [a-z][^`]*)`")
_NAME = re.compile(r"oncely [a-z-]+")  # in a sentence, it is the name of the command


def examples(page: Path) -> Iterator[str]:
    for line in page.read_text().splitlines():
        if line.startswith("#"):  # a heading has a command without its arguments
            continue
        if line.startswith("oncely "):
            yield line
        inline = (found for found in _INLINE.findall(line) if "…" not in found)
        yield from (found for found in inline if not _NAME.fullmatch(found))


DOCUMENTED_COMMANDS = sorted({line for page in PAGES for line in examples(page)})


def test_docs_contain_examples() -> None:
    assert len(DOCUMENTED_COMMANDS) > 20


@pytest.mark.parametrize("line", DOCUMENTED_COMMANDS)
def test_example_is_valid_command_as_written(line: str) -> None:
    _, *words = shlex.split(line, comments=True)
    group: Any = typer.main.get_command(app)

    context = group.make_context("oncely", list(words))
    name, command, rest = group.resolve_command(context, list(words))

    context = command.make_context(name, list(rest), parent=context)
    if hasattr(command, "commands"):
        name, command, rest = command.resolve_command(context, rest)
        command.make_context(name, rest, parent=context)


def test_named_commands_exist() -> None:
    text = "\n".join(page.read_text() for page in PAGES)
    named = {found.split()[1] for found in _INLINE.findall(text) if _NAME.fullmatch(found)}
    group: Any = typer.main.get_command(app)

    assert len(named) > 10
    assert named <= set(group.commands)


def test_command_prints_its_version() -> None:
    result = run_cli("--version")
    assert result.exit_code == 0
    assert re.fullmatch(r"oncely \d+\.\d+\.\d+\n", result.stdout)
