"""Times as text: UTC, whatever the zone of the machine that reads them."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest

from oncely.core.text import format_minute, format_time, parse_time

THREE = datetime(2026, 11, 16, 3, 0, tzinfo=UTC)


@pytest.fixture
def far_from_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("far_from_utc")
@pytest.mark.parametrize(
    "text", ["2026-11-16T03:00:00", "2026-11-16T03:00:00Z", "2026-11-16T05:00:00+02:00"]
)
def test_time_without_zone_is_utc_on_any_machine(text: str) -> None:
    assert (parse_time(text), parse_time(text).tzinfo) == (THREE, UTC)


@pytest.mark.parametrize("text", ["yesterday", "", None, 7, "9999-12-31T23:59:59-05:00"])
def test_invalid_time_is_not_repeated_in_error(text: object) -> None:
    with pytest.raises(ValueError, match="a time is") as caught:
        parse_time(text)
    assert "yesterday" not in str(caught.value)


def test_time_is_written_in_utc() -> None:
    tokyo = THREE.astimezone(timezone(timedelta(hours=9)))
    assert format_time(THREE) == format_time(tokyo) == "2026-11-16T03:00:00.000Z"
    assert format_minute(tokyo) == "2026-11-16 03:00 UTC"
