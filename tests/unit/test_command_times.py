"""Durations and times in options and output."""

from datetime import UTC, datetime, timedelta

import pytest

from oncely.cli.console import format_age
from oncely.cli.errors import CommandError, ExitCode
from oncely.cli.options import parse_duration, parse_time_argument
from tests.unit.samples import NOW


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("30s", timedelta(seconds=30)),
        ("90m", timedelta(minutes=90)),
        (" 24h ", timedelta(hours=24)),
        ("7d", timedelta(days=7)),
        ("2w", timedelta(weeks=2)),
    ],
)
def test_time_span_is_number_with_unit(text: str, length: timedelta) -> None:
    assert parse_duration(text) == length
    assert parse_time_argument(text, now=NOW) == NOW - length


@pytest.mark.parametrize("text", ["", "24", "h", "-1h", "1.5h", "24 h", "1234567s"])
def test_any_other_text_is_not_time_span(text: str) -> None:
    with pytest.raises(CommandError, match="Invalid duration") as caught:
        parse_duration(text)
    assert caught.value.code is ExitCode.USAGE


def test_moment_is_utc_and_clamps_huge_time_span() -> None:
    assert parse_time_argument(" 2026-11-16T03:00 ", now=NOW) == NOW
    assert parse_time_argument("999999w", now=NOW) == datetime.min.replace(tzinfo=UTC)
    with pytest.raises(CommandError, match="Invalid time"):
        parse_time_argument("yesterday", now=NOW)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "now"),
        (59, "now"),
        (60, "1 min ago"),
        (3_599, "60 min ago"),
        (3_600, "1 h ago"),
        (86_400, "24 h ago"),
        (172_800, "2 days ago"),
        (-7_200, "in 2 h"),
    ],
)
def test_age_is_shown_in_largest_unit_that_fits(seconds: int, words: str) -> None:
    assert format_age(NOW - timedelta(seconds=seconds), NOW) == words
