"""What any workers are explored on: a queue, time, providers, somebody who edits, and replays."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from oncely.contract import encode_message
from oncely.domain.profiles import COMMIT_BUDGET
from oncely.testing.digest import Digester
from oncely.testing.in_memory_queue import InMemoryQueue, QueuedMessage
from oncely.testing.intercepted_provider import InterceptedProvider
from oncely.testing.interception import Interceptor
from oncely.testing.memory import MemoryBusinessRows
from oncely.testing.scenario import ProviderSpec, Scenario
from oncely.testing.schedule import Scheduler, WallClock
from oncely.testing.script import DIE
from oncely.testing.tasks import InFlightRequest, SimulatedProcess, Task

# What a function of the reconciler or of the stream has.
SWEEP_TIMEOUT: Final = timedelta(minutes=1)
END_FAULTS: Final = (DIE,)


class BaseSimulation(ABC):
    """One run of a scenario; it notes at once what breaks the promise in passing."""

    def __init__(self, scenario: Scenario, schedule: Scheduler) -> None:
        self.scenario = scenario
        self.schedule = schedule
        self.digest = Digester().digest
        self.interceptor = Interceptor(schedule, self.digest)
        self.rows = MemoryBusinessRows()
        self.queue = InMemoryQueue()
        self.bodies: set[str] = set()  # of every message that was ever sent
        self.in_flight: list[InFlightRequest] = []
        self.problems: list[str] = []
        self.phase = 0
        self.edited = False
        described = scenario.providers(WallClock(schedule))
        self.providers: dict[str, Any] = {
            name: one and one.target for name, one in described.items()
        }
        self.intercepted_providers = {
            name: None if one is None else self._intercept_provider(name, one)
            for name, one in described.items()
        }
        self._last_shared_digest = 0
        self._digested_at_mutation = -1
        scenario.seed_rows(self.rows)
        schedule.task_source = self
        for _ in range(scenario.duplicate_messages):
            self.send(encode_message(scenario.message))

    @abstractmethod
    def process(self, message: QueuedMessage, deadline: datetime) -> None:
        """Receive a message, as a worker that is killed at the deadline."""

    @abstractmethod
    def dead_letter(self, message: QueuedMessage) -> None:
        """Receive a message that its workers gave up on."""

    @abstractmethod
    def expire(self) -> None:
        """Let as much time pass as a replay may take, and what expires by then be forgotten."""

    @abstractmethod
    def shared_state(self) -> object:
        """Everything that is not in an actor, for a digest."""

    @abstractmethod
    def violations(self) -> list[str]:
        """What does not hold when all is quiet, in sentences."""

    @abstractmethod
    def final_statuses(self) -> Iterator[str]:
        """How the jobs ended."""

    @abstractmethod
    def describe(self) -> Iterator[str]:
        """What is left when all is quiet, for whoever replays a schedule."""

    def send(self, body: str) -> None:
        """Put a message into the queue."""
        self.bodies.add(body)
        self.queue.send(body, at=self.schedule.now)

    def tasks(self) -> list[Task]:
        """The next delivery, and what somebody may edit."""
        found = []
        message = self.queue.first()
        if message is not None:
            deliver = partial(self._deliver, message)
            found.append(Task("deliver", message.visible_at, deliver))
        if not self.edited and self.scenario.edit is not None:
            found.append(Task("edit", self.schedule.now, self._edit, optional=True))
        return found

    def next_in_flight(self, until: datetime) -> InFlightRequest | None:
        """Take out the request that arrives next, if one does until then."""
        due = [landing for landing in self.in_flight if landing.at <= until]
        if not due:
            return None
        first = min(due, key=lambda landing: landing.at)
        self.in_flight.remove(first)
        self.interceptor.mutations += 1
        return first

    def next_phase(self) -> bool:
        """First the message is replayed at once, then as late as a replay may come."""
        if self.in_flight:
            self.schedule.advance_to(max(landing.at for landing in self.in_flight))
            return True
        self.phase += 1
        if self.phase == 1:
            self.schedule.log("all is quiet; the message is replayed")
            self.send(encode_message(self.scenario.message))
        elif self.phase == 2:  # noqa: PLR2004  # the second phase
            self.expire()
            self.interceptor.mutations += 1
            self.send(encode_message(self.scenario.message))
        else:
            return False
        return True

    def new_process(
        self, kind: str, perform: Callable[[], None], context: object
    ) -> SimulatedProcess:
        """Whoever begins now, and what it was told."""
        actor = self.schedule.new_process(kind, perform)
        actor.history = self.digest((kind, context, self.schedule.now))
        actor.latest_call_at = self.schedule.now + SWEEP_TIMEOUT
        return actor

    def full_state(self) -> object:
        """Everything that what follows depends on: two schedules that meet in it go on alike."""
        schedule = self.schedule
        actors = (schedule.current, *schedule.waiting, None, *schedule.asleep)
        return (
            schedule.now,
            self.phase,
            self.edited,
            self.bodies,
            self._shared_digest(),
            [(one.body, one.visible_at, one.receive_count) for one in self.queue.messages],
            [(one.at, one.request_digest) for one in self.in_flight],
            [one and (one.history, one.in_flight_until, one.latest_call_at) for one in actors],
        )

    def _shared_digest(self) -> int:
        """What is outside the actors changes at few calls: it is not digested at the others."""
        if self._digested_at_mutation != self.interceptor.mutations:
            self._digested_at_mutation = self.interceptor.mutations
            self._last_shared_digest = self.digest(
                (self.rows.rows, self.providers, self.shared_state())
            )
        return self._last_shared_digest

    def _intercept_provider(self, name: str, one: ProviderSpec) -> InterceptedProvider:
        timeout = self.scenario.contract.policy.profile.request_timeout
        return InterceptedProvider(
            self.interceptor,
            name,
            one.target,
            one.effect_calls,
            one.lookup_calls,
            timeout,
            self.in_flight.append,
        )

    def _deliver(self, message: QueuedMessage) -> SimulatedProcess:
        message.receive(self.schedule.now)
        if message.is_dead_letter:
            return self.new_process("d", lambda: self.dead_letter(message), message.body)
        deadline = self.schedule.now + timedelta(seconds=self.scenario.worker_seconds)
        context = (message.body, message.receive_count, deadline)
        worker = self.new_process("w", lambda: self.process(message, deadline), context)
        # The last moment at which it may still call its provider.
        calls_take = self.scenario.contract.policy.profile.request_timeout + COMMIT_BUDGET
        worker.latest_call_at = deadline - calls_take
        return worker

    def _edit(self) -> SimulatedProcess:
        self.edited = True

        def edit() -> None:
            self.interceptor.mutations += 1
            if self.scenario.edit is not None:
                for message in self.scenario.edit(self.rows):
                    self.send(encode_message(message))

        return self.new_process("e", edit, None)
