"""The product uses the terms of the glossary in docs/concepts.md."""

import re
from typing import Final

import pytest

from tests.docs.change_cost import product_text
from tests.docs.pages import page

_GLOSSARY: Final = page("docs/concepts.md").text.partition("\n## Glossary\n")[2]
TERMS: Final = re.findall(r"\*\*(.+?)\*\*", _GLOSSARY)


def test_terms_are_unique() -> None:
    assert len(TERMS) == len(set(TERMS)) > 50


@pytest.mark.parametrize("term", TERMS)
def test_term_is_used(term: str) -> None:
    spellings = re.escape(term).replace(r"\ ", "[ _]?")

    assert re.search(spellings, product_text(), re.IGNORECASE)
