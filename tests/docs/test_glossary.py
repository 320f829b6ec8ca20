"""The product uses the terms of docs/glossary.md."""

import re
from typing import Final

import pytest

from tests.docs.change_cost import product_text
from tests.docs.pages import page

TERMS: Final = re.findall(r"\*\*(.+?)\*\*", page("docs/glossary.md").text)


def test_terms_are_unique() -> None:
    assert len(TERMS) == len(set(TERMS)) > 50


@pytest.mark.parametrize("term", TERMS)
def test_term_is_used(term: str) -> None:
    spellings = re.escape(term).replace(r"\ ", "[ _]?")

    assert re.search(spellings, product_text(), re.IGNORECASE)
