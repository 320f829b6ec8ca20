"""The scheduler: runs one process at a time, and may switch to another at each call to a port."""

import random
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

try:
    from greenlet import GreenletExit, getcurrent, greenlet  # type: ignore[import-untyped]  # three names are not worth a package of stubs
except ModuleNotFoundError as error:
    # An extra, because producers do not need it.
    raise ModuleNotFoundError(
        'oncely.testing needs the package greenlet: pip install "oncely[testing]"', name=error.name
    ) from error

from oncely.core.errors import InvariantError
from oncely.core.job_row import JobRow
from oncely.testing.script import DIE, SLEEP, SLOW, CallSite, Injection, Script

if TYPE_CHECKING:
    from oncely.testing.base_simulation import BaseSimulation  # which imports this module

START: Final = datetime(2026, 11, 16, 3, 0, tzinfo=UTC)
# More than any schedule needs to end; beyond this it loops.
MAX_PROCESSES: Final = 150
MAX_CALLS: Final = 4000
_MAX_VALUE_LENGTH: Final = 110  # of a value in a trace


@dataclass(frozen=True)
class InFlightRequest:
    """A request that arrives after the worker's timeout."""

    at: datetime
    request_digest: int
    effect: Callable[[], object]


@dataclass(frozen=True)
class Task:
    """A task that may start: a delivery, a sweep, a publication."""

    label: str  # its name in a script: deliver, sweep, publish
    at: datetime
    begin: Callable[[], "SimulatedProcess"]
    optional: bool = False  # starts only if a script names it


@dataclass(eq=False)
class SimulatedProcess:
    """One run of a service, which can be delayed at every call it makes."""

    name: str
    perform: Callable[[], None]
    history: int = 0  # a digest of all results it has seen, which is its whole state
    call_counts: Counter[str] = field(default_factory=Counter)
    tokens: int = 0
    latest_call: str = ""  # its name
    latest_call_at: datetime = START  # the longest that a delay can last
    clock_read_at: datetime = START
    in_flight_until: datetime | None = None  # when its request in flight arrives at the latest
    killed_at: datetime | None = None  # by Lambda, at its timeout; None: it may resume after that
    body: Any = None  # its greenlet, once it has started


class ProcessKilledError(BaseException):
    """A SIGKILL. It is not an Exception, so that no handler catches it."""


class ScheduleLimitError(Exception):
    """A schedule that does not end."""


class ScriptedChooser:
    """A chooser that follows a script, and then records the alternatives."""

    def __init__(self, script: Script) -> None:
        self._waiting: dict[CallSite, deque[str]] = {}
        for injection in script:
            self._waiting.setdefault(injection.call_site, deque()).append(injection.action)
        self.remaining = len(script)
        self.alternatives: list[Injection] = []
        self.on_new_state: Callable[[tuple[str, ...]], None] | None = None
        self.is_last_level = False  # its alternatives would exceed the limits
        self._begun: set[str] = set()

    def choose(self, call_site: CallSite, options: Callable[[], Iterable[str]]) -> str | None:
        """Return the action of the script at this call site. Returns None if it has none."""
        if self.remaining == 0:
            if self.on_new_state is not None and self._compares_state(call_site):
                offered = tuple(options())
                self.on_new_state(offered)
                self.alternatives += [Injection(call_site, action) for action in offered]
            return None
        actions = self._waiting.get(call_site)
        if not actions or actions[0] not in options():
            return None
        self.remaining -= 1
        return actions.popleft()

    def _compares_state(self, call_site: CallSite) -> bool:
        """Compare states at every call, or on the last level only where a process begins.

        Without alternatives, a known state is met early enough there. Digesting the state at every
        call takes as long as the calls themselves.
        """
        is_first_call = call_site.process not in self._begun
        self._begun.add(call_site.process)
        return is_first_call or not self.is_last_level


class RandomChooser:
    """A chooser that draws a random schedule after a fixed prefix."""

    def __init__(
        self, seed: int, *, injections: int, rate: float, fixed_prefix: Script = ()
    ) -> None:
        self._fixed_prefix = ScriptedChooser(fixed_prefix)
        self._random = random.Random(seed)  # noqa: S311  # nothing here is a secret
        self._remaining = injections
        self._rate = rate
        self.script: list[Injection] = list(fixed_prefix)

    def choose(self, call_site: CallSite, options: Callable[[], Iterable[str]]) -> str | None:
        """Return a random option at the configured rate, otherwise None."""
        if self._fixed_prefix.remaining:
            return self._fixed_prefix.choose(call_site, options)
        if self._remaining == 0 or self._random.random() >= self._rate:
            return None
        offered = list(options())
        if not offered:
            return None
        action = self._random.choice(offered)
        self._remaining -= 1
        self.script.append(Injection(call_site, action))
        return action


class Scheduler:
    """The scheduler and its clock, which only it advances."""

    def __init__(self, chooser: ScriptedChooser | RandomChooser) -> None:
        self.chooser = chooser
        self.now = START
        self.task_source: BaseSimulation
        self.current: SimulatedProcess | None = None
        self.waiting: list[SimulatedProcess] = []  # delayed; the last one resumes first
        self.asleep: list[SimulatedProcess] = []
        self.listener: Callable[[float, str], None] | None = None
        self._requested: str | None = None
        self._process_count = 0
        self._call_count = 0
        self._numbers: Counter[str] = Counter()

    def new_process(self, kind: str, perform: Callable[[], None]) -> SimulatedProcess:
        """Create a process. w1 is the first worker, r2 the second sweep."""
        self._process_count += 1
        self._numbers[kind] += 1
        return SimulatedProcess(f"{kind}{self._numbers[kind]}", perform)

    def run(self) -> None:
        """Run every phase until no work is left."""
        hub = getcurrent()
        try:
            while (process := self._next()) is not None:
                self.current = process
                if process.body is None:
                    process.body = greenlet(self._process_body(process), hub)
                process.body.switch()
                self.current = None
        finally:
            self._clear()

    def intercept(
        self, name: str, faults: Iterable[str] = (), *, in_flight: timedelta | None = None
    ) -> str | None:
        """Return the fault to inject into this call. Returns None if there is none.

        Other processes may run before this returns.
        """
        process = self.current
        if process is None:
            return None
        self._call_count += 1
        if self._call_count > MAX_CALLS:
            raise ScheduleLimitError(f"the schedule does not end after {MAX_CALLS} calls")
        process.call_counts[name] += 1
        call_site = CallSite(process.name, name, process.call_counts[name])
        if in_flight is not None:
            process.in_flight_until = process.clock_read_at + in_flight
        action = self.chooser.choose(call_site, lambda: [*faults, *self._alternatives(name)])
        while action is not None and action.startswith(">"):
            self._delay(process, call_site, action)
            action = self.chooser.choose(call_site, lambda: [*faults, *self._alternatives(name)])
        process.in_flight_until = None
        if action is not None:
            self.log(f"  {call_site}: {action[1:]}")
        if action == DIE:
            raise ProcessKilledError(str(call_site))
        return action

    def new_token(self) -> str:
        """Return a readable owner token."""
        if self.current is None:
            raise InvariantError("only a simulated process can claim")
        self.current.tokens += 1
        return f"{self.current.name}.{self.current.tokens}"

    def log(self, line: str, *values: object) -> None:
        """Send a line to the listener, if there is one."""
        if self.listener is not None:
            text = " ".join([line, *map(_format_value, values)])
            self.listener((self.now - START).total_seconds(), text)

    def advance_to(self, at: datetime) -> None:
        """Advance the clock. Requests in flight arrive at their time."""
        while (request := self.task_source.next_in_flight(at)) is not None:
            self._advance_clock(request.at)
            self.log("a late request arrives")
            request.effect()
        self._advance_clock(at)

    def _advance_clock(self, at: datetime) -> None:
        if at > self.now:
            self.log(f"{at - self.now} pass")
            self.now = at

    def _delay(self, process: SimulatedProcess, call_site: CallSite, action: str) -> None:
        self.log(f"  {call_site}: delayed, {action[1:]}")
        if action == SLOW:
            self.advance_to(process.latest_call_at)
            return
        if action == SLEEP:
            self.asleep.append(process)
        else:
            self.waiting.append(process)
            self._requested = action[1:]
        getcurrent().parent.switch()
        self.log(f"  {call_site}: resumes")

    def _alternatives(self, name: str) -> list[str]:
        # A request in flight arrives within its timeout, so no later task can start before it.
        known = [one.in_flight_until for one in (*self.waiting, self.current) if one]
        limits = [limit for limit in known if limit is not None]
        limit = min(limits, default=None)
        tasks = [task for task in self.task_source.tasks() if limit is None or task.at <= limit]
        may_sleep = self.current is not None and self.current.in_flight_until is None
        sleep = [SLEEP] if may_sleep else []
        if name == "clock":
            # If the clock does not advance, this equals a delay at the next call.
            slow = [SLOW] if self._can_be_slow(limit) else []
            return [f">{task.label}" for task in tasks if task.at > self.now] + sleep + slow
        return [
            *(f">{task.label}" for task in tasks),
            *(f">{one.name}" for one in self.waiting),
            *sleep,
        ]

    def _can_be_slow(self, limit: datetime | None) -> bool:
        process = self.current
        if process is None or process.latest_call_at <= self.now:
            return False
        return limit is None or process.latest_call_at <= limit

    def _next(self) -> SimulatedProcess | None:
        if self._process_count > MAX_PROCESSES:
            raise ScheduleLimitError(f"the schedule does not end after {MAX_PROCESSES} processes")
        label, self._requested = self._requested, None
        if label is not None and (requested := self._find_requested(label)):
            return requested
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
        process = task.begin()
        self.log(f"{process.name} starts: {task.label}")
        return process

    def _process_body(self, process: SimulatedProcess) -> Callable[[], None]:
        def run() -> None:
            try:
                process.perform()
            except ProcessKilledError:
                self.log(f"{process.name} was killed")

        return run

    def _clear(self) -> None:
        self.current = None
        for process in (*self.waiting, *self.asleep):
            if process.body is not None and not process.body.dead:
                process.body.throw(GreenletExit)
        self.waiting.clear()
        self.asleep.clear()


def _format_value(value: object) -> str:
    """Format a value in a few words."""
    return _describe(value)[:_MAX_VALUE_LENGTH]


def _describe(value: object) -> str:
    if isinstance(value, JobRow):
        return f"{value.status} v{value.version} of {value.owner or 'no owner'}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_describe, value))}]"
    if is_dataclass(value) and not isinstance(value, type):
        values = (getattr(value, one.name) for one in fields(value) if one.repr)
        text = ", ".join(_describe(one) for one in values if one not in (None, (), {}, False))
        return f"{type(value).__name__}({text})"
    return str(value)


class WallClock:
    """The simulated time for a fake provider; reading it is not intercepted."""

    undigested = True

    def __init__(self, schedule: Scheduler) -> None:
        self._schedule = schedule

    def now(self) -> datetime:
        """Return the current time."""
        return self._schedule.now
