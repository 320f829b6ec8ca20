"""External text, made safe to show."""

import pytest

from oncely.core.text import mask_emails, redacted_line, single_line


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
def test_email_addresses_are_masked(text: str, shown: str) -> None:
    assert mask_emails(text) == shown


def test_huge_text_without_address_stays_unchanged() -> None:
    assert mask_emails("a" * 300_000) == "a" * 300_000


def test_line_holds_at_most_500_characters_and_no_break() -> None:
    assert single_line("x" * 501) == "x" * 500
    assert single_line("one\ntwo\x07", 6) == "one tw"


def test_log_line_masks_email_addresses() -> None:
    assert redacted_line("not verified:\nada@example.com") == "not verified: a***@example.com"
