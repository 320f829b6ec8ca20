"""Wall time of a batch of ten over the latency of the provider that each of its jobs waits for."""

import time
import uuid
from collections.abc import Callable
from typing import Final

from tests.bench.baseline_calls import baseline_jobs, record_calls, run_jobs
from tests.bench.candidates import BATCH_CONCURRENCY, Candidate, new_bodies
from tests.bench.figures import BatchTime

LATENCY: Final = 0.2
BATCH: Final = 10
ROUNDS: Final = 12

Bars = list[tuple[float, float]]


def measure(oncely: Candidate, powertools: Candidate) -> tuple[BatchTime, BatchTime, BatchTime]:
    """Both, and the calls of the first made bare; in turns, the best of each.

    Whatever else the machine does makes a batch longer, and never shorter.
    """
    works = (_candidate_work(oncely), _candidate_work(powertools), _baseline_work(oncely))
    for work in works:
        work()  # connections are opened, and classes built, by the first
    rounds = [[_time_work(work) for work in works] for _ in range(ROUNDS)]
    best = [min(runs, key=lambda run: run.seconds) for runs in zip(*rounds, strict=True)]
    return best[0], best[1], best[2]


def _time_work(work: Callable[[], Bars]) -> BatchTime:
    began = time.perf_counter()
    bars = work()
    seconds = time.perf_counter() - began
    return BatchTime(
        seconds=seconds,
        over_latency=seconds / LATENCY,
        bars=tuple((start - began, end - began) for start, end in sorted(bars)),
    )


def _candidate_work(contender: Candidate) -> Callable[[], Bars]:
    def work() -> Bars:
        contender.bars.clear()
        contender.work(new_bodies(BATCH), latency=LATENCY)
        return list(contender.bars)

    return work


def _baseline_work(contender: Candidate) -> Callable[[], Bars]:
    """The same calls and the same wait without an engine: what this machine leaves of the goal."""
    calls = record_calls(contender)

    def work() -> Bars:
        bars: Bars = []

        def wait() -> None:
            began = time.perf_counter()
            time.sleep(LATENCY)
            bars.append((began, time.perf_counter()))

        jobs = baseline_jobs(calls, [uuid.uuid4().hex for _ in range(BATCH)])
        run_jobs([[*job[:-1], wait, job[-1]] for job in jobs], at_once=BATCH_CONCURRENCY)
        return bars

    return work
