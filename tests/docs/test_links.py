"""Links and file names of the pages lead somewhere."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import REPOSITORY, DocPage, checked_pages

_LINK = re.compile(r"!?\[[^\]]*\]\((?P<to>[^)\s]+)\)|<img[^>]+src=\"(?P<image>[^\"]+)\"")
# A file with a suffix, or a folder that ends in a slash.
_FILE = re.compile(
    r"`((?:\w[\w.-]*/)*[\w-]+\.(?:py|toml|txt|json|js|md)|(?:functions|infra|tests|docs)/(?:[\w.-]+/)*)`"
)
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def _anchors(page: DocPage) -> set[str]:
    """The names that GitHub gives to a page's headings."""
    plain = (re.sub(r"[^\w\- ]", "", text.lower()) for text in _HEADING.findall(page.prose))
    return {text.strip().replace(" ", "-") for text in plain}


@pytest.mark.parametrize("page", checked_pages(), ids=str)
def test_every_internal_link_has_target(page: DocPage) -> None:
    dead = []
    for found in _LINK.finditer(page.prose):
        to = found["to"] or found["image"]
        if to.startswith(("http://", "https://", "mailto:")):
            continue
        name, _, anchor = to.partition("#")
        target = (page.path.parent / name).resolve() if name else page.path
        if not target.exists() or (anchor and anchor not in _anchors(DocPage(target))):
            dead.append(to)

    assert dead == []


def test_every_image_is_shown() -> None:
    shown = "\n".join(page.text for page in checked_pages())
    images = {path.name for path in (REPOSITORY / "docs" / "images").iterdir()}

    assert {name for name in images if name not in shown} == set()


@pytest.mark.parametrize("page", checked_pages(), ids=str)
def test_every_named_file_exists(page: DocPage) -> None:
    """In full, below the engine's folder, or by its name alone."""
    written = {block.title for block in page.blocks()}  # files that the reader of the page creates
    missing = [
        name
        for name in _FILE.findall(page.prose)
        if name not in written and not any(map(Path.exists, _candidates(name)))
    ]

    assert missing == []


def _candidates(name: str) -> Iterator[Path]:
    yield REPOSITORY / name
    yield REPOSITORY / "functions" / "oncely" / name
    if "/" not in name:
        for root in ("functions", "infra", "tests"):
            yield from (REPOSITORY / root).rglob(name)
