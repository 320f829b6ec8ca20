"""The pages of the documentation, and their contents."""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parents[2]
# A block of a list is indented.
_FENCE: Final = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
# Readers see it: a comment of one command, or of the whole block in its first line.
_NOT_RUN: Final = re.compile(r"# not run by the tests: (?P<reason>.+)")


@dataclass(frozen=True)
class CodeBlock:
    """Code between fences; `titled` is the line before it, if that names a file."""

    language: str
    text: str
    title: str | None


@dataclass(frozen=True)
class ShellCommand:
    """A command of a page, and the reason if no test runs it."""

    line: str
    not_run: str | None = None


@dataclass(frozen=True)
class DocPage:
    """One page, by its path in the repository."""

    path: Path

    def __str__(self) -> str:
        return str(self.path.relative_to(REPOSITORY))

    @property
    def text(self) -> str:
        return self.path.read_text()

    @property
    def prose(self) -> str:
        """The page without its code."""
        return _FENCE.sub("", self.text)

    def blocks(self) -> list[CodeBlock]:
        return [
            CodeBlock(
                found["language"],
                textwrap.dedent(found["text"]),
                _title(self.text[: found.start()]),
            )
            for found in _FENCE.finditer(self.text)
        ]

    def commands(self) -> Iterator[ShellCommand]:
        """The commands of its shell blocks, without comments."""
        for block in self.blocks():
            if block.language != "sh":
                continue
            lines = block.text.replace("\\\n", " ").splitlines()
            whole = _NOT_RUN.match(lines[0])
            for line in lines:
                command = " ".join(line.partition(" # ")[0].split())
                if command and not command.startswith("#"):
                    marked = whole or _NOT_RUN.search(line)
                    yield ShellCommand(command, marked["reason"] if marked else None)

    def file(self, name: str) -> str:
        """The code that the page says belongs into this file."""
        (only,) = (block.text for block in self.blocks() if block.title == name)
        return only


def pages() -> list[DocPage]:
    """Every page of the repository."""
    return [DocPage(path) for path in (*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/*.md"))]


def checked_pages() -> list[DocPage]:
    """Those whose links and words are checked: those of .github, too."""
    return [*pages(), page(".github/CONTRIBUTING.md"), page(".github/SECURITY.md")]


def page(name: str) -> DocPage:
    return DocPage(REPOSITORY / name)


def _title(before: str) -> str | None:
    lines = before.rstrip().splitlines()
    found = re.match(r"`([\w./]+)`", lines[-1]) if lines else None
    return found[1] if found else None
