"""What the demo does to its own stack: workers die, banks take their time, sweeps are started."""

import itertools
import random
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Final

from infra.local.processes import busy_workers_of, kill
from infra.local.sandbox.ledger import IntentStatus
from infra.local.stack import LocalStack

GLANCE_SECONDS: Final = 0.02
# How long a bank processes a payment that is not decided at once.
PROCESSING_SECONDS: Final = 5.0
# The schedule sweeps once a minute; whoever cannot wait starts one, as `oncely` does.
SWEEP_SECONDS: Final = 5.0
# At once; the next time, it is the turn of others.
MOST_ASKED_ABOUT: Final = 10


class Killer:
    """Ends a worker process of the engine every so many requests to a provider.

    Counted in requests and not in seconds: however slow the machine, workers die while they act.
    """

    def __init__(self, stack: LocalStack, after: Iterator[int], seed: int) -> None:
        self._stack = stack
        self._after = after
        self._draw = random.Random(seed)  # noqa: S311  # repeatable, not secret
        self.kills = 0

    def run(self, stop: threading.Event) -> None:
        """Kill until told to stop."""
        next_one = 0
        for more in self._after:
            next_one += more
            while len(self._stack.sandbox.ledger.requests) < next_one:
                if stop.wait(GLANCE_SECONDS):
                    return
            workers = busy_workers_of(self._stack.engine.pid)
            if workers and kill(self._draw.choice(workers)):
                self.kills += 1


class Bank:
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
                    sandbox.settle(intent.intent_id, succeeded=True)


class Sweeper:
    """Starts the reconciler's state machine between the schedule's minutes."""

    def __init__(self, stack: LocalStack) -> None:
        self._stack = stack
        self.sweeps = 0

    def ask_about(self, keys: Iterable[str]) -> None:
        """Have these looked at though their time has not come, as support staff do."""
        for key in itertools.islice(keys, MOST_ASKED_ABOUT):
            self._stack.account.start_sweep(self._stack.outputs["ReconcilerArn"], key=key)
            self.sweeps += 1

    def run(self, stop: threading.Event) -> None:
        """One sweep at a time; each does what is due when it begins."""
        account, machine = self._stack.account, self._stack.outputs["ReconcilerArn"]
        while not stop.wait(SWEEP_SECONDS):
            execution = account.start_sweep(machine)
            self.sweeps += 1
            began = time.monotonic()
            while account.sweep_ended(execution) is None:
                if stop.wait(0.5) or time.monotonic() - began > _LONGEST_SWEEP:
                    break


# A killed function may leave an execution waiting for its own timeout; others go on beside it.
_LONGEST_SWEEP: Final = 60.0
