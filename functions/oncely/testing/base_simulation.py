"""The base of a simulation: a queue, a clock, providers, concurrent edits, and replays."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from oncely.domain.profiles import COMMIT_BUDGET
from oncely.message import encode_message
from oncely.testing.digest import Digester
from oncely.testing.in_memory_queue import InMemoryQueue, QueuedMessage
from oncely.testing.intercepted_provider import InterceptedProvider
from oncely.testing.interception import Interceptor
from oncely.testing.memory import MemoryBusinessRows
from oncely.testing.scenario import ProviderSpec, Scenario
from oncely.testing.schedule import Scheduler, WallClock
from oncely.testing.script import DIE
from oncely.testing.tasks import InFlightRequest, SimulatedProcess, Task

# Timeout of the functions of the reconciler and of the stream.
SWEEP_TIMEOUT: Final = timedelta(minutes=1)
END_FAULTS: Final = (DIE,)


class BaseSimulation(ABC):
    """One run of a scenario, which records violations as they happen."""

    def __init__(self, scenario: Scenario, schedule: Scheduler) -> None:
        self.scenario = scenario
        self.schedule = schedule
        self.digest = Digester().digest
        self.interceptor = Interceptor(schedule, self.digest)
        self.rows = MemoryBusinessRows()
        self.queue = InMemoryQueue()
        self.bodies: set[str] = set()  # every message ever sent
        self.in_flight: list[InFlightRequest] = []
        self.problems: list[str] = []
        self.phase = 0
        self.edited = False
        specs = scenario.providers(WallClock(schedule))
        self.providers: dict[str, Any] = {name: one and one.target for name, one in specs.items()}
        self.intercepted_providers = {
            name: None if one is None else self._intercept_provider(name, one)
            for name, one in specs.items()
        }
        self._last_shared_digest = 0
        self._digested_at_mutation = -1
        scenario.seed_rows(self.rows)
        schedule.task_source = self
        for _ in range(scenario.duplicate_messages):
            self.send(encode_message(scenario.message))

    @abstractmethod
    def process(self, message: QueuedMessage, deadline: datetime) -> None:
        """Process a message, as a worker that Lambda kills at the deadline."""

    @abstractmethod
    def dead_letter(self, message: QueuedMessage) -> None:
        """Handle a dead letter."""

    @abstractmethod
    def expire(self) -> None:
        """Advance to the latest time of a replay, and expire what is due by then."""

    @abstractmethod
    def shared_state(self) -> object:
        """Return the state outside the processes, for a digest."""

    @abstractmethod
    def violations(self) -> list[str]:
        """Return the invariants that do not hold at the end of the schedule."""

    @abstractmethod
    def final_statuses(self) -> Iterator[str]:
        """Yield the final status of each job."""

    @abstractmethod
    def describe(self) -> Iterator[str]:
        """Describe the final state, for a replay."""

    def send(self, body: str) -> None:
        """Send a message to the queue."""
        self.bodies.add(body)
        self.queue.send(body, at=self.schedule.now)

    def tasks(self) -> list[Task]:
        """Return the next delivery, and the concurrent edit if it is still to come."""
        tasks = []
        message = self.queue.first()
        if message is not None:
            deliver = partial(self._deliver, message)
            tasks.append(Task("deliver", message.visible_at, deliver))
        if not self.edited and self.scenario.edit is not None:
            tasks.append(Task("edit", self.schedule.now, self._edit, optional=True))
        return tasks

    def next_in_flight(self, until: datetime) -> InFlightRequest | None:
        """Remove and return the request that arrives next, if one arrives by then."""
        due = [request for request in self.in_flight if request.at <= until]
        if not due:
            return None
        first = min(due, key=lambda request: request.at)
        self.in_flight.remove(first)
        self.interceptor.mutations += 1
        return first

    def next_phase(self) -> bool:
        """Replay the message: first immediately, then as late as a replay may arrive."""
        if self.in_flight:
            self.schedule.advance_to(max(request.at for request in self.in_flight))
            return True
        self.phase += 1
        if self.phase == 1:
            self.schedule.log("no work is left; the message is replayed")
            self.send(encode_message(self.scenario.message))
        elif self.phase == 2:  # noqa: PLR2004  # the second phase
            self.expire()
            self.interceptor.mutations += 1
            self.send(encode_message(self.scenario.message))
        else:
            return False
        return True

    def new_process(
        self, kind: str, perform: Callable[[], None], context: object = None
    ) -> SimulatedProcess:
        """Create a process that starts now with this context."""
        process = self.schedule.new_process(kind, perform)
        process.history = self.digest((kind, context, self.schedule.now))
        process.latest_call_at = self.schedule.now + SWEEP_TIMEOUT
        return process

    def full_state(self) -> object:
        """Return everything that determines how a schedule continues."""
        schedule = self.schedule
        processes = (schedule.current, *schedule.waiting, None, *schedule.asleep)
        return (
            schedule.now,
            self.phase,
            self.edited,
            self.bodies,
            self._shared_digest(),
            [(one.body, one.visible_at, one.receive_count) for one in self.queue.messages],
            [(one.at, one.request_digest) for one in self.in_flight],
            [one and (one.history, one.in_flight_until, one.latest_call_at) for one in processes],
        )

    def _shared_digest(self) -> int:
        # Few calls change the shared state, so it is digested only after those.
        if self._digested_at_mutation != self.interceptor.mutations:
            self._digested_at_mutation = self.interceptor.mutations
            self._last_shared_digest = self.digest(
                (self.rows.rows, self.providers, self.shared_state())
            )
        return self._last_shared_digest

    def _intercept_provider(self, name: str, one: ProviderSpec) -> InterceptedProvider:
        timeout = self._request_timeout()
        return InterceptedProvider(
            self.interceptor,
            name,
            one.target,
            one.effect_calls,
            one.lookup_calls,
            timeout,
            self.in_flight.append,
        )

    def _request_timeout(self) -> timedelta:
        policies = self.scenario.contract.all_policies()
        return max(policy.profile.request_timeout for policy in policies)

    def _deliver(self, message: QueuedMessage) -> SimulatedProcess:
        message.receive(self.schedule.now)
        if message.is_dead_letter:
            return self.new_process("d", lambda: self.dead_letter(message), message.body)
        deadline = self.schedule.now + timedelta(seconds=self.scenario.worker_seconds)
        context = (message.body, message.receive_count, deadline)
        worker = self.new_process("w", lambda: self.process(message, deadline), context)
        # The last time at which it may still call its provider.
        calls_take = self._request_timeout() + COMMIT_BUDGET
        worker.latest_call_at = deadline - calls_take
        return worker

    def _edit(self) -> SimulatedProcess:
        self.edited = True

        def edit() -> None:
            self.interceptor.mutations += 1
            if self.scenario.edit is not None:
                for message in self.scenario.edit(self.rows):
                    self.send(encode_message(message))

        return self.new_process("e", edit)
