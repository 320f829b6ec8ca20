"""Text that others wrote, made safe to show."""

import pytest

from oncely.domain.text import masked


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("write to ada@example.com, please", "write to a***@example.com, please"),
        ("mailto:ada.b+c@example.com", "mailto:a***@example.com"),
        ("<ä@exämple.org>", "<ä***@exämple.org>"),
        ("no address", "no address"),
        ("hubspot#4419", "hubspot#4419"),
    ],
)
def test_masking(text: str, shown: str) -> None:
    assert masked(text) == shown


def test_masking_a_huge_text_takes_no_longer_than_reading_it() -> None:
    assert masked("a" * 300_000) == "a" * 300_000
