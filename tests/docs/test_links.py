"""No link of the pages leads nowhere."""

import re

import pytest

from tests.docs.pages import DocPage, pages

_LINK = re.compile(r"!?\[[^\]]*\]\((?P<to>[^)\s]+)\)|<img[^>]+src=\"(?P<image>[^\"]+)\"")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def _anchors(page: DocPage) -> set[str]:
    """The names that GitHub gives to a page's headings."""
    plain = (re.sub(r"[^\w\- ]", "", text.lower()) for text in _HEADING.findall(page.prose))
    return {text.strip().replace(" ", "-") for text in plain}


@pytest.mark.parametrize("page", pages(), ids=str)
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
