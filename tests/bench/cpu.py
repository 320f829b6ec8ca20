"""CPU time of a job over the bare AWS calls that it makes; in rounds that take turns."""

import time
import uuid
from statistics import median
from typing import Final

from tests.bench.bare_calls import bare_jobs, make, recorded
from tests.bench.contenders import Contender, fresh
from tests.bench.figures import Cpu

ROUNDS: Final = 60
BATCH: Final = 10


def measure(contender: Contender, *, at_once: int) -> Cpu:
    """The median of the rounds' ratios: what else the machine does hits both sides of one alike."""
    calls = recorded(contender)
    times: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        jobs = bare_jobs(calls, [uuid.uuid4().hex for _ in range(BATCH)])
        bodies = fresh(BATCH)
        began = time.process_time()
        make(jobs, at_once=at_once)
        between = time.process_time()
        contender.work(bodies)
        ended = time.process_time()
        times.append(((between - began) / BATCH, (ended - between) / BATCH))
    return Cpu(
        ratio=median(whole / bare for bare, whole in times),
        milliseconds=1e3 * median(whole for _, whole in times),
        bare_milliseconds=1e3 * median(bare for bare, _ in times),
        aws_calls=len(calls),
    )
