"""Pace: requests of any number of threads keep within a rate."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from oncely.http.pace import UNLIMITED, RateLimiter


class FakeTime:
    def __init__(self) -> None:
        self.seconds = 100.0
        self.sleeps: list[float] = []

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(round(seconds, 6))


def test_requests_are_spread_without_saving_up_bursts() -> None:
    time = FakeTime()
    pace = RateLimiter(4, now=time.now, sleep=time.sleep)

    for _ in range(4):
        pace()
    time.seconds += 60
    for _ in range(3):
        pace()

    assert time.sleeps == [0.25, 0.5, 0.75, 0.25, 0.5]


def test_threads_share_one_pace() -> None:
    time = FakeTime()
    pace = RateLimiter(10, now=time.now, sleep=time.sleep)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: pace(), range(50)))

    assert sorted(time.sleeps) == pytest.approx([number / 10 for number in range(1, 50)])


def test_requests_do_not_wait_without_rate() -> None:
    time = FakeTime()
    pace = RateLimiter(None, now=time.now, sleep=time.sleep)

    for _ in range(100):
        pace()
    UNLIMITED()

    assert time.sleeps == []
