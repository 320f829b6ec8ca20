"""The pages that people read, and what stands in them."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parents[2]
_FENCE: Final = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class CodeBlock:
    """Code between fences; `titled` is the line before it, if that names a file."""

    language: str
    text: str
    title: str | None


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
            CodeBlock(found["language"], found["text"], _title(self.text[: found.start()]))
            for found in _FENCE.finditer(self.text)
        ]

    def file(self, name: str) -> str:
        """The code that the page says belongs into this file."""
        (only,) = (block.text for block in self.blocks() if block.title == name)
        return only


def pages() -> list[DocPage]:
    """Every page of the repository."""
    return [DocPage(path) for path in (*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/*.md"))]


def checked_pages() -> list[DocPage]:
    """Those whose links and words are checked: the guide for contributors, too."""
    return [*pages(), page(".github/CONTRIBUTING.md")]


def page(name: str) -> DocPage:
    return DocPage(REPOSITORY / name)


def _title(before: str) -> str | None:
    lines = before.rstrip().splitlines()
    found = re.match(r"`([\w./]+)`", lines[-1]) if lines else None
    return found[1] if found else None
