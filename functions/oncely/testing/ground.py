"""What any workers are explored on: a queue, time, providers, somebody who edits, and replays."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from oncely.contract import COMMIT_BUDGET, body_of
from oncely.testing.actors import Actor, Landing, Task
from oncely.testing.digest import Digester
from oncely.testing.letters import Letter, Letters
from oncely.testing.memory import MemoryRows
from oncely.testing.point_provider import PointProvider
from oncely.testing.points import Points
from oncely.testing.scenario import Provider, Scenario
from oncely.testing.schedule import Schedule, WallClock
from oncely.testing.script import DIE

# What a function of the reconciler or of the stream has.
SWEEP_TIMEOUT: Final = timedelta(minutes=1)
END: Final = (DIE,)


class Ground(ABC):
    """One run of a scenario; it notes at once what breaks the promise in passing."""

    def __init__(self, scenario: Scenario, schedule: Schedule) -> None:
        self.scenario = scenario
        self.schedule = schedule
        self.digest = Digester().of
        self.points = Points(schedule, self.digest)
        self.rows = MemoryRows()
        self.letters = Letters()
        self.bodies: set[str] = set()  # of every message that was ever sent
        self.landings: list[Landing] = []
        self.problems: list[str] = []
        self.phase = 0
        self.edited = False
        described = scenario.providers(WallClock(schedule))
        self.providers: dict[str, Any] = {
            name: one and one.target for name, one in described.items()
        }
        self.pointed = {
            name: None if one is None else self._pointed(name, one)
            for name, one in described.items()
        }
        self._state_of_outside = 0
        self._at_changes = -1
        scenario.rows(self.rows)
        schedule.agenda = self
        for _ in range(scenario.copies):
            self.send(body_of(scenario.message))

    @abstractmethod
    def work(self, letter: Letter, deadline: datetime) -> None:
        """Receive a message, as a worker that is killed at the deadline."""

    @abstractmethod
    def give_up(self, letter: Letter) -> None:
        """Receive a message that its workers gave up on."""

    @abstractmethod
    def expire(self) -> None:
        """Let as much time pass as a replay may take, and what expires by then be forgotten."""

    @abstractmethod
    def outside(self) -> object:
        """Everything that is not in an actor, for a digest."""

    @abstractmethod
    def broken(self) -> list[str]:
        """What does not hold when all is quiet, in sentences."""

    @abstractmethod
    def ends(self) -> Iterator[str]:
        """How the jobs ended."""

    @abstractmethod
    def story(self) -> Iterator[str]:
        """What is left when all is quiet, for whoever replays a schedule."""

    def send(self, body: str) -> None:
        """Put a message into the queue."""
        self.bodies.add(body)
        self.letters.send(body, at=self.schedule.now)

    def tasks(self) -> list[Task]:
        """The next delivery, and what somebody may edit."""
        found = []
        letter = self.letters.first()
        if letter is not None:
            deliver = partial(self._deliver, letter)
            found.append(Task("deliver", letter.visible_at, deliver))
        if not self.edited and self.scenario.edit is not None:
            found.append(Task("edit", self.schedule.now, self._edit, optional=True))
        return found

    def next_landing(self, until: datetime) -> Landing | None:
        """Take out the request that arrives next, if one does until then."""
        due = [landing for landing in self.landings if landing.at <= until]
        if not due:
            return None
        first = min(due, key=lambda landing: landing.at)
        self.landings.remove(first)
        self.points.changes += 1
        return first

    def quiet(self) -> bool:
        """First the message is replayed at once, then as late as a replay may come."""
        if self.landings:
            self.schedule.move_to(max(landing.at for landing in self.landings))
            return True
        self.phase += 1
        if self.phase == 1:
            self.schedule.log("all is quiet; the message is replayed")
            self.send(body_of(self.scenario.message))
        elif self.phase == 2:  # noqa: PLR2004  # the second phase
            self.expire()
            self.points.changes += 1
            self.send(body_of(self.scenario.message))
        else:
            return False
        return True

    def actor(self, kind: str, perform: Callable[[], None], told: object) -> Actor:
        """Whoever begins now, and what it was told."""
        actor = self.schedule.actor(kind, perform)
        actor.history = self.digest((kind, told, self.schedule.now))
        actor.last_moment = self.schedule.now + SWEEP_TIMEOUT
        return actor

    def state(self) -> object:
        """Everything that what follows depends on: two schedules that meet in it go on alike."""
        schedule = self.schedule
        actors = (schedule.current, *schedule.waiting, None, *schedule.asleep)
        return (
            schedule.now,
            self.phase,
            self.edited,
            self.bodies,
            self._outside(),
            [(one.body, one.visible_at, one.receives) for one in self.letters.held],
            [(one.at, one.what) for one in self.landings],
            [one and (one.history, one.in_flight_until, one.last_moment) for one in actors],
        )

    def _outside(self) -> int:
        """What is outside the actors changes at few calls: it is not digested at the others."""
        if self._at_changes != self.points.changes:
            self._at_changes = self.points.changes
            self._state_of_outside = self.digest((self.rows.rows, self.providers, self.outside()))
        return self._state_of_outside

    def _pointed(self, name: str, one: Provider) -> PointProvider:
        timeout = self.scenario.contract.terms.profile.request_timeout
        return PointProvider(
            self.points, name, one.target, one.acts, one.asks, timeout, self.landings.append
        )

    def _deliver(self, letter: Letter) -> Actor:
        letter.receive(self.schedule.now)
        if letter.is_dead:
            return self.actor("d", lambda: self.give_up(letter), letter.body)
        deadline = self.schedule.now + timedelta(seconds=self.scenario.seconds)
        told = (letter.body, letter.receives, deadline)
        worker = self.actor("w", lambda: self.work(letter, deadline), told)
        # The last moment at which it may still call its provider.
        calls_take = self.scenario.contract.terms.profile.request_timeout + COMMIT_BUDGET
        worker.last_moment = deadline - calls_take
        return worker

    def _edit(self) -> Actor:
        self.edited = True

        def edit() -> None:
            self.points.changes += 1
            if self.scenario.edit is not None:
                for message in self.scenario.edit(self.rows):
                    self.send(body_of(message))

        return self.actor("e", edit, None)
