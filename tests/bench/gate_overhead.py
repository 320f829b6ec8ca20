"""What the gate costs: write units for each job, and the worst second, by a moved clock.

python -m tests.bench.gate_overhead
"""

import heapq
import random
from bisect import bisect_left
from datetime import timedelta
from typing import Final

from oncely.core.surroundings import Hold
from oncely.gates.gate import MAX_SLOT_WAIT, Gate
from oncely.jobs.payment_charge import PaymentCharge
from oncely.plugins.provider import ProviderSettings
from tests.bench.figures import GateOverhead
from tests.support import engines
from tests.support.dynamo import DynamoFixture
from tests.support.fakes import START, FakeClock
from tests.support.in_memory_stack import InMemoryStack

BATCH: Final = 10
# What a batch does apart from waiting for its slots.
WORK: Final = timedelta(milliseconds=600)
REQUEST_LATENCY: Final = timedelta(milliseconds=5)


class _Worker:
    """The gate of one execution environment. Its jobs wait concurrently."""

    def __init__(self, dynamo: DynamoFixture, limit: float) -> None:
        self.clock = FakeClock()
        table = dynamo.gates()
        self.gate = Gate(
            table=table,
            clock=self.clock,
            settings={"stripe": ProviderSettings(effects_per_second=limit)},
            sleep=lambda seconds: self.clock.advance(seconds=seconds),
            snapshot_age=timedelta(days=1),
        )
        self.contract = PaymentCharge(order_id="18452").with_tools(InMemoryStack().tools, "stripe")

    def run_batch(self) -> list[float]:
        """Take the slots of a batch. Returns when its jobs passed; a job on hold returns later."""
        passed = []
        for _ in range(BATCH):
            held: Hold | None = self.gate.enter(self.contract)
            while held is not None:
                self.clock.time += MAX_SLOT_WAIT
                held = self.gate.enter(self.contract)
            passed.append((self.clock.time - START).total_seconds())
        return passed


def measure(
    dynamo: DynamoFixture, *, limit: float, jobs_per_second: float, workers: int, seconds: int
) -> GateOverhead:
    """Deliver batches at this rate, each to the worker that has been free for longest."""
    source = random.Random(7)  # noqa: S311  # repeatable, not secret
    fleet = [_Worker(dynamo, limit) for _ in range(workers)]
    free = [(0.0, number) for number in range(workers)]
    dynamo.calls.reset()
    passed: list[float] = []
    arrival = 0.0
    while arrival < seconds:
        arrival += source.expovariate(jobs_per_second / BATCH)
        free_at, number = heapq.heappop(free)
        worker = fleet[number]
        began = max(arrival, free_at)
        worker.clock.time = START + timedelta(seconds=began) + REQUEST_LATENCY
        passed += worker.run_batch()
        ended = (worker.clock.time - START + WORK).total_seconds()
        heapq.heappush(free, (ended, number))
    passed.sort()
    worst = max(bisect_left(passed, at + 1) - place for place, at in enumerate(passed))
    return GateOverhead(
        jobs=len(passed),
        writes=dynamo.calls.by_operation().get("UpdateItem", 0),
        worst_second=worst,
        limit=limit,
        jobs_per_second=jobs_per_second,
    )


def measure_all() -> tuple[GateOverhead, ...]:
    """A gate with room, one that is full, and one with more jobs than it lets through."""
    cases = ((200.0, 100.0, 20), (25.0, 25.0, 4), (25.0, 60.0, 4))
    with engines.moto() as url:
        return tuple(
            measure(
                DynamoFixture(url), limit=limit, jobs_per_second=offered, workers=number, seconds=60
            )
            for limit, offered, number in cases
        )


if __name__ == "__main__":
    for found in measure_all():
        print(found)  # noqa: T201  # the figure
