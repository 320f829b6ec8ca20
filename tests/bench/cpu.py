"""CPU time of a job over the bare AWS calls that it makes; in rounds in which all take turns."""

import time
import uuid
from collections.abc import Sequence
from statistics import median
from typing import Final

from tests.bench.baseline_calls import baseline_jobs, record_calls, run_jobs
from tests.bench.candidates import Candidate, RecordedCall, new_bodies
from tests.bench.figures import CpuTime

ROUNDS: Final = 60
BATCH: Final = 10


def measure(*contenders: tuple[Candidate, int]) -> list[CpuTime]:
    """Of each with so many jobs at once, the median of its rounds' ratios.

    Whatever else the machine does hits both sides of one ratio, and all contenders, alike.
    """
    calls = [record_calls(contender) for contender, _ in contenders]
    rounds = [
        [
            _round(contender, asked, at_once)
            for (contender, at_once), asked in zip(contenders, calls, strict=True)
        ]
        for _ in range(ROUNDS)
    ]
    return [
        CpuTime(
            ratio=median(whole / bare for bare, whole in times),
            milliseconds=1e3 * median(whole for _, whole in times),
            bare_milliseconds=1e3 * median(bare for bare, _ in times),
            aws_calls=len(asked),
        )
        for times, asked in zip(zip(*rounds, strict=True), calls, strict=True)
    ]


def cpu_ratio(contender: Candidate, other: Candidate) -> float:
    """CPU of a job over that of the same job elsewhere; the median of rounds that take turns."""
    ratios = []
    for _ in range(ROUNDS):
        began = time.process_time()
        contender.work(new_bodies(BATCH))
        between = time.process_time()
        other.work(new_bodies(BATCH))
        ratios.append((between - began) / (time.process_time() - between))
    return median(ratios)


def _round(
    contender: Candidate, calls: Sequence[RecordedCall], at_once: int
) -> tuple[float, float]:
    """Seconds for one job: the bare calls, and the whole."""
    jobs = baseline_jobs(calls, [uuid.uuid4().hex for _ in range(BATCH)])
    bodies = new_bodies(BATCH)
    began = time.process_time()
    run_jobs(jobs, at_once=at_once)
    between = time.process_time()
    contender.work(bodies)
    ended = time.process_time()
    return (between - began) / BATCH, (ended - between) / BATCH
