"""What the demo does to its own stack: workers die, banks take their time, sweeps are started."""

import itertools
import random
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Final

from oncely.testing.sandbox.ledger import IntentStatus
from oncely_local.processes import kill_worker, list_busy_workers
from oncely_local.stack import LocalStack

KILL_POLL_SECONDS: Final = 0.02
# How long a bank processes a payment that is not decided at once.
PROCESSING_SECONDS: Final = 5.0
# The schedule sweeps once a minute; whoever cannot wait starts one, as `oncely` does.
SWEEP_INTERVAL_SECONDS: Final = 5.0
# At once; the next time, it is the turn of others.
MAX_REQUESTED_SWEEPS: Final = 10


class WorkerKiller:
    """Ends a worker process of the engine every so many requests to a provider.

    Counted in requests and not in seconds: however slow the machine, workers die while they act.
    """

    def __init__(self, stack: LocalStack, kill_intervals: Iterator[int], seed: int) -> None:
        self._stack = stack
        self._kill_intervals = kill_intervals
        self._random = random.Random(seed)  # noqa: S311  # repeatable, not secret
        self.kills = 0

    def run(self, stop: threading.Event) -> None:
        """Kill until told to stop."""
        next_one = 0
        for more in self._kill_intervals:
            next_one += more
            while len(self._stack.sandbox.ledger.requests) < next_one:
                if stop.wait(KILL_POLL_SECONDS):
                    return
            workers = list_busy_workers(self._stack.engine.pid)
            if workers and kill_worker(self._random.choice(workers)):
                self.kills += 1


class PendingPaymentResolver:
    """Decides payments that were left processing, some time later."""

    def __init__(self, stack: LocalStack) -> None:
        self._stack = stack

    def run(self, stop: threading.Event) -> None:
        """Settle each when its time has come."""
        sandbox = self._stack.sandbox
        while not stop.wait(1.0):
            now = sandbox.clock()
            for intent in sandbox.ledger.intents:
                age = (now - intent.created).total_seconds()
                if intent.status is IntentStatus.PROCESSING and age > PROCESSING_SECONDS:
                    sandbox.complete_pending(intent.intent_id, succeeded=True)


class SweepTrigger:
    """Starts the reconciler's state machine between the schedule's minutes."""

    def __init__(self, stack: LocalStack) -> None:
        self._stack = stack
        self.sweeps = 0

    def request_sweep(self, keys: Iterable[str]) -> None:
        """Have these looked at though their time has not come, as support staff do."""
        for key in itertools.islice(keys, MAX_REQUESTED_SWEEPS):
            self._stack.account.start_sweep(self._stack.outputs["ReconcilerArn"], key=key)
            self.sweeps += 1

    def run(self, stop: threading.Event) -> None:
        """One sweep at a time; each does what is due when it begins."""
        account, machine = self._stack.account, self._stack.outputs["ReconcilerArn"]
        while not stop.wait(SWEEP_INTERVAL_SECONDS):
            execution = account.start_sweep(machine)
            self.sweeps += 1
            began = time.monotonic()
            while account.sweep_result(execution) is None:
                if stop.wait(0.5) or time.monotonic() - began > _MAX_SWEEP_SECONDS:
                    break


# A killed function may leave an execution waiting for its own timeout; others go on beside it.
_MAX_SWEEP_SECONDS: Final = 60.0
