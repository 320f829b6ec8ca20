"""Faults of the demo: provider errors, killed workers, slow decisions and extra sweeps."""

import itertools
import random
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

from oncely.testing.sandbox import FaultKind, FaultSet, ProviderSandbox, Sandbox
from oncely_local.processes import kill_worker, list_busy_workers
from oncely_local.stack import LocalStack

KILL_POLL_SECONDS: Final = 0.02
PENDING_TIME: Final = timedelta(seconds=5)
# The schedule sweeps once a minute, which is too slow for a demo.
SWEEP_INTERVAL_SECONDS: Final = 5.0
# Per call; the next call handles others.
MAX_REQUESTED_SWEEPS: Final = 10
# A killed function can leave an execution waiting for its timeout. Others run beside it.
MAX_SWEEP_SECONDS: Final = 60.0

_PERCENT: Final = 100
_REQUESTS_APART: Final = 50
_ENDLESS_SECONDS: Final = 600.0  # far beyond any function's timeout


class FaultLevel(StrEnum):
    """How many faults the demo injects."""

    NONE = "none"
    SOME = "some"
    HEAVY = "heavy"


@dataclass(frozen=True)
class FaultPlan:
    """The faults of one level."""

    rate_factor: float  # multiplies the rates of the providers
    hanging: int  # responses that never end: the function is stopped at its timeout
    silent: int  # responses that never start
    kill_every: int  # average number of provider requests between kills; 0 means never

    def apply(self, faults: FaultSet, providers: Iterable[type[ProviderSandbox]]) -> None:
        for provider in providers:
            if provider.hanging_call:
                self._hang(faults, provider.requests[provider.hanging_call])
            for kind, call, percent in provider.fault_rates:
                if rate := percent * self.rate_factor / _PERCENT:
                    pattern = provider.requests[call]
                    faults.add(kind, times=None, rate=min(rate, 0.5), **pattern)

    def _hang(self, faults: FaultSet, pattern: Mapping[str, str]) -> None:
        # Spread out: each blocks a worker and its messages for a minute.
        for n in range(self.hanging):
            endless: dict[str, Any] = {"seconds": _ENDLESS_SECONDS, **pattern}
            faults.add(FaultKind.ACCEPT_THEN_TRICKLE, skip=_REQUESTS_APART * n + 15, **endless)
        for n in range(self.silent):
            faults.add(FaultKind.ACCEPT_THEN_HANG, skip=_REQUESTS_APART * n + 5, **pattern)

    def kill_intervals(self, seed: int) -> Iterator[int]:
        """The numbers of requests between kills, repeatable by seed."""
        draw = random.Random(seed)  # noqa: S311  # repeatable, not secret
        while self.kill_every:
            yield draw.randint(self.kill_every // 2, self.kill_every * 3 // 2)


FAULT_PLANS: Final = {
    FaultLevel.NONE: FaultPlan(rate_factor=0, hanging=0, silent=0, kill_every=0),
    FaultLevel.SOME: FaultPlan(rate_factor=1, hanging=2, silent=2, kill_every=60),
    FaultLevel.HEAVY: FaultPlan(rate_factor=2.5, hanging=3, silent=10, kill_every=50),
}


class WorkerKiller:
    """Kills a worker process of the engine after each interval of provider requests.

    Intervals count requests, not seconds, so that workers die in the middle of work on any machine.
    """

    def __init__(self, stack: LocalStack, kill_intervals: Iterator[int], seed: int) -> None:
        self._stack = stack
        self._kill_intervals = kill_intervals
        self._random = random.Random(seed)  # noqa: S311  # repeatable, not secret
        self.kills = 0

    def run(self, stop: threading.Event) -> None:
        next_one = 0
        for more in self._kill_intervals:
            next_one += more
            while len(self._stack.sandbox.ledger.requests) < next_one:
                if stop.wait(KILL_POLL_SECONDS):
                    return
            workers = list_busy_workers(self._stack.engine.pid)
            if workers and kill_worker(self._random.choice(workers)):
                self.kills += 1


def complete_pending_effects(sandbox: Sandbox, stop: threading.Event) -> None:
    """Complete pending effects after a delay, as a bank decides a payment."""
    while not stop.wait(1.0):
        moment = sandbox.options.clock() - PENDING_TIME
        for provider in sandbox.providers.values():
            provider.complete_pending_since(moment)


class SweepTrigger:
    """Starts sweeps in addition to the schedule."""

    def __init__(self, stack: LocalStack) -> None:
        self._stack = stack
        self.sweeps = 0

    def request_sweep(self, keys: Iterable[str]) -> None:
        for key in itertools.islice(keys, MAX_REQUESTED_SWEEPS):
            self._stack.account.start_sweep(self._stack.outputs["ReconcilerArn"], key=key)
            self.sweeps += 1

    def run(self, stop: threading.Event) -> None:
        account, machine = self._stack.account, self._stack.outputs["ReconcilerArn"]
        while not stop.wait(SWEEP_INTERVAL_SECONDS):
            execution = account.start_sweep(machine)
            self.sweeps += 1
            began = time.monotonic()
            while account.sweep_result(execution) is None:
                if stop.wait(0.5) or time.monotonic() - began > MAX_SWEEP_SECONDS:
                    break
