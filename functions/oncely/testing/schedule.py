"""Runs actors one at a time; each call to a port is a point where another may run instead."""

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final, Protocol

try:
    from greenlet import GreenletExit, getcurrent, greenlet  # type: ignore[import-untyped]  # three names are not worth a package of stubs
except ModuleNotFoundError as error:
    # A producer does not need it, so the package alone does not bring it.
    raise ModuleNotFoundError(
        'oncely.testing needs the package greenlet: pip install "oncely[testing]"', name=error.name
    ) from error

from oncely.domain.errors import InvariantError
from oncely.testing.script import DIE, SLEEP, SLOW, CallSite
from oncely.testing.tasks import START, InFlightRequest, SimulatedProcess, Task
from oncely.testing.trace import format_value

# More than any run needs to come to rest; past this it goes round in circles.
MAX_PROCESSES: Final = 150
MAX_CALLS: Final = 4000


class ProcessKilledError(BaseException):
    """Not an Exception: nothing may catch a SIGKILL."""


class ScheduleLimitError(Exception):
    """The run does not come to rest."""


class Chooser(Protocol):
    """Decides what happens at each point."""

    def choose(self, call_site: CallSite, options: Callable[[], Iterable[str]]) -> str | None:
        """One of the options, or None: nothing happens here."""


class TaskSource(Protocol):
    """What may begin, from the world's point of view."""

    def tasks(self) -> list[Task]:
        """The next task of each kind."""

    def next_phase(self) -> bool:
        """Nothing is left to begin: go on to the next phase; False: there is none."""

    def next_in_flight(self, until: datetime) -> InFlightRequest | None:
        """Take out the request that arrives next, if one does until then."""


class Scheduler:
    """The scheduler, and the clock that only it moves."""

    def __init__(self, chooser: Chooser) -> None:
        self.chooser = chooser
        self.now = START
        self.task_source: TaskSource
        self.current: SimulatedProcess | None = None
        self.waiting: list[SimulatedProcess] = []  # held up; the last one goes on first
        self.asleep: list[SimulatedProcess] = []
        self.listener: Callable[[float, str], None] | None = None
        self._requested: str | None = None
        self._process_count = 0
        self._call_count = 0
        self._numbers: Counter[str] = Counter()

    def new_process(self, kind: str, perform: Callable[[], None]) -> SimulatedProcess:
        """A new actor: w1 is the first worker, r2 the second sweep."""
        self._process_count += 1
        self._numbers[kind] += 1
        return SimulatedProcess(f"{kind}{self._numbers[kind]}", perform)

    def run(self) -> None:
        """Until all is quiet, in every phase."""
        hub = getcurrent()
        try:
            while (actor := self._next()) is not None:
                self.current = actor
                if actor.body is None:
                    actor.body = greenlet(self._process_body(actor), hub)
                actor.body.switch()
                self.current = None
        finally:
            self._clear()

    def intercept(
        self, name: str, faults: Iterable[str] = (), *, in_flight: timedelta | None = None
    ) -> str | None:
        """Ask what happens at this call; gives a fault, or None. Others may run meanwhile."""
        actor = self.current
        if actor is None:
            return None
        self._call_count += 1
        if self._call_count > MAX_CALLS:
            raise ScheduleLimitError(f"more than {MAX_CALLS} calls, and still no rest")
        actor.call_counts[name] += 1
        call_site = CallSite(actor.name, name, actor.call_counts[name])
        if in_flight is not None:
            actor.in_flight_until = actor.clock_read_at + in_flight
        what = self.chooser.choose(call_site, lambda: [*faults, *self._alternatives(name)])
        while what is not None and what.startswith(">"):
            self._delay(actor, call_site, what)
            what = self.chooser.choose(call_site, lambda: [*faults, *self._alternatives(name)])
        actor.in_flight_until = None
        if what is not None:
            self.log(f"  {call_site}: {what[1:]}")
        if what == DIE:
            raise ProcessKilledError(str(call_site))
        return what

    def new_token(self) -> str:
        """An owner token that a person can read."""
        if self.current is None:
            raise InvariantError("only an actor claims")
        self.current.tokens += 1
        return f"{self.current.name}.{self.current.tokens}"

    def log(self, line: str, *answers: object) -> None:
        """Tell whoever follows this schedule."""
        if self.listener is not None:
            text = " ".join([line, *map(format_value, answers)])
            self.listener((self.now - START).total_seconds(), text)

    def advance_to(self, at: datetime) -> None:
        """Let time pass; what is under way arrives at its own time."""
        while (landing := self.task_source.next_in_flight(at)) is not None:
            self._advance_clock(landing.at)
            self.log("a late request arrives")
            landing.effect()
        self._advance_clock(at)

    def _advance_clock(self, at: datetime) -> None:
        if at > self.now:
            self.log(f"{at - self.now} pass")
            self.now = at

    def _delay(self, actor: SimulatedProcess, call_site: CallSite, what: str) -> None:
        self.log(f"  {call_site}: held up, {what[1:]}")
        if what == SLOW:
            self.advance_to(actor.latest_call_at)
            return
        if what == SLEEP:
            self.asleep.append(actor)
        else:
            self.waiting.append(actor)
            self._requested = what[1:]
        getcurrent().parent.switch()
        self.log(f"  {call_site}: goes on")

    def _alternatives(self, name: str) -> list[str]:
        """Who may run instead; a request under way arrives before more time passes than it has."""
        known = [one.in_flight_until for one in (*self.waiting, self.current) if one]
        limits = [limit for limit in known if limit is not None]
        limit = min(limits, default=None)
        tasks = [task for task in self.task_source.tasks() if limit is None or task.at <= limit]
        may_sleep = self.current is not None and self.current.in_flight_until is None
        sleep = [SLEEP] if may_sleep else []
        if name == "clock":
            # Without a move of the clock, this is the same as being held up at the next call.
            slow = [SLOW] if self._can_be_slow(limit) else []
            return [f">{task.label}" for task in tasks if task.at > self.now] + sleep + slow
        return [
            *(f">{task.label}" for task in tasks),
            *(f">{one.name}" for one in self.waiting),
            *sleep,
        ]

    def _can_be_slow(self, limit: datetime | None) -> bool:
        actor = self.current
        if actor is None or actor.latest_call_at <= self.now:
            return False
        return limit is None or actor.latest_call_at <= limit

    def _next(self) -> SimulatedProcess | None:
        if self._process_count > MAX_PROCESSES:
            raise ScheduleLimitError(f"more than {MAX_PROCESSES} runs, and still no rest")
        wish, self._requested = self._requested, None
        if wish is not None and (wished := self._find_requested(wish)):
            return wished
        if self.waiting:
            return self.waiting.pop()
        tasks = [task for task in self.task_source.tasks() if not task.optional]
        if tasks:
            return self._begin(min(tasks, key=lambda task: max(task.at, self.now)))
        if self.asleep:
            return self.asleep.pop(0)
        return self._next() if self.task_source.next_phase() else None

    def _find_requested(self, label: str) -> SimulatedProcess | None:
        for one in self.waiting:
            if one.name == label:
                self.waiting.remove(one)
                return one
        for task in self.task_source.tasks():
            if task.label == label:
                return self._begin(task)
        return None

    def _begin(self, task: Task) -> SimulatedProcess:
        self.advance_to(task.at)
        actor = task.begin()
        self.log(f"{actor.name} begins: {task.label}")
        return actor

    def _process_body(self, actor: SimulatedProcess) -> Callable[[], None]:
        def live() -> None:
            try:
                actor.perform()
            except ProcessKilledError:
                self.log(f"{actor.name} is dead")

        return live

    def _clear(self) -> None:
        self.current = None
        for actor in (*self.waiting, *self.asleep):
            if actor.body is not None and not actor.body.dead:
                actor.body.throw(GreenletExit)
        self.waiting.clear()
        self.asleep.clear()


class WallClock:
    """The same time for a provider of the test's; to look at it is no point."""

    undigested = True

    def __init__(self, schedule: Scheduler) -> None:
        self._schedule = schedule

    def now(self) -> datetime:
        """The time."""
        return self._schedule.now
