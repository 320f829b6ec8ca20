"""Wall time of a batch of ten over the latency of the provider that each of its jobs waits for."""

import time
import uuid
from collections.abc import Callable
from typing import Final

from tests.bench.bare_calls import bare_jobs, make, recorded
from tests.bench.contenders import AT_ONCE, Contender, fresh
from tests.bench.figures import Batch

LATENCY: Final = 0.2
BATCH: Final = 10
ROUNDS: Final = 12

Bars = list[tuple[float, float]]


def measure(oncely: Contender, powertools: Contender) -> tuple[Batch, Batch, Batch]:
    """Both, and the calls of the first made bare; in turns, the best of each.

    Whatever else the machine does makes a batch longer, and never shorter.
    """
    works = (_working(oncely), _working(powertools), _bare(oncely))
    for work in works:
        work()  # connections are opened, and classes built, by the first
    rounds = [[_timed(work) for work in works] for _ in range(ROUNDS)]
    best = [min(runs, key=lambda run: run.seconds) for runs in zip(*rounds, strict=True)]
    return best[0], best[1], best[2]


def _timed(work: Callable[[], Bars]) -> Batch:
    began = time.perf_counter()
    bars = work()
    seconds = time.perf_counter() - began
    return Batch(
        seconds=seconds,
        over_latency=seconds / LATENCY,
        bars=tuple((start - began, end - began) for start, end in sorted(bars)),
    )


def _working(contender: Contender) -> Callable[[], Bars]:
    def work() -> Bars:
        contender.bars.clear()
        contender.work(fresh(BATCH), latency=LATENCY)
        return list(contender.bars)

    return work


def _bare(contender: Contender) -> Callable[[], Bars]:
    """The same calls and the same wait without an engine: what this machine leaves of the goal."""
    calls = recorded(contender)

    def work() -> Bars:
        bars: Bars = []

        def wait() -> None:
            began = time.perf_counter()
            time.sleep(LATENCY)
            bars.append((began, time.perf_counter()))

        jobs = bare_jobs(calls, [uuid.uuid4().hex for _ in range(BATCH)])
        make([[*job[:-1], wait, job[-1]] for job in jobs], at_once=AT_ONCE)
        return bars

    return work
