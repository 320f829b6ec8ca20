"""Ports that the schedule intercepts: a call may fail, lose its response, or never be reached."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, NoReturn, TypeVar

from oncely.domain.alert_budget import AlertDigest, AlertKind
from oncely.domain.claims import Claim
from oncely.domain.due import DueAction
from oncely.domain.effect_outcomes import BusinessWrite
from oncely.domain.errors import UnavailableError
from oncely.domain.event_records import EventRecord
from oncely.domain.gate import GateSnapshot, GateState, Pause
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Status
from oncely.domain.provider_events import ChangeKind, EffectChange
from oncely.ports import Alert, ClaimResult, CreateResult, DueEntry, ForgedRow, SwapResult
from oncely.testing.digest import Digest
from oncely.testing.memory import (
    MemoryAlertBudget,
    MemoryDueIndex,
    MemoryJobStore,
    MemorySweepLeases,
)
from oncely.testing.memory_gates import MemoryGateTable
from oncely.testing.schedule import Scheduler
from oncely.testing.script import DIE
from oncely.testing.tasks import START

_T = TypeVar("_T")

FAIL: Final = "!fail"  # the call did not happen; the error may or may not show that
LOST: Final = "!lost"  # the call happened, and its response was lost

# Dying before a read equals dying before the next write: nothing changes in between.
READ_FAULTS: Final = (FAIL,)
WRITE_FAULTS: Final = (DIE, FAIL, LOST)
_TABLE_CALLS: Final = ("store.", "table.", "index.", "leases.")


@dataclass
class Interceptor:
    """The connection between calls and the schedule."""

    schedule: Scheduler
    digest: Digest
    mutations: int = 0  # calls so far that may have changed the shared state
    outage_until: datetime = START  # until then, every call to our tables fails

    def call(
        self,
        name: str,
        faults: Sequence[str],
        perform: Callable[[], _T],
        fail: Callable[[], _T],
        *,
        in_flight: timedelta | None = None,
    ) -> _T:
        """Perform a call, or the fault injected into it, and record the result."""
        fault = self.schedule.intercept(name, faults, in_flight=in_flight)
        if name.startswith(_TABLE_CALLS) and self.schedule.now < self.outage_until:
            fault = FAIL
        self.mutations += faults is not READ_FAULTS
        try:
            if fault == FAIL:
                result = fail()
            elif fault == LOST:
                perform()
                result = fail()
            else:
                result = perform()
        except Exception as error:
            self.record_result(name, error)
            raise
        self.record_result(name, result)
        return result

    def record_result(self, name: str, result: object) -> None:
        """Add a result to the history of the current process."""
        process = self.schedule.current
        if process is not None:
            if name != "clock":
                self.schedule.log(f"  {process.name}:{name} →", result)
            process.history = hash((process.history, name, self.digest(result)))


def _unavailable() -> NoReturn:
    raise UnavailableError("no response")


@dataclass(frozen=True)
class InterceptedClock:
    """The clock. A process that is delayed before it reads the clock sees a later time."""

    interceptor: Interceptor

    def now(self) -> datetime:
        schedule = self.interceptor.schedule
        schedule.intercept("clock")
        if schedule.current is not None:
            schedule.current.clock_read_at = schedule.now
        self.interceptor.record_result("clock", schedule.now)
        return schedule.now


@dataclass(frozen=True)
class InterceptedJobStore:
    """The job table."""

    interceptor: Interceptor
    store: MemoryJobStore
    on_write: Callable[[JobKey], None]  # after each write: the stream

    def get(self, key: JobKey) -> Job | None:
        return self.interceptor.call(
            "store.get", READ_FAULTS, lambda: self.store.get(key), _unavailable
        )

    def create(self, job: Job, *, replacing: ForgedRow | None = None) -> CreateResult:
        create = partial(self.store.create, job, replacing=replacing)
        return self._write("store.create", job.job_key, create)

    def claim(self, claim: Claim) -> ClaimResult:
        return self._write("store.claim", claim.job_key, lambda: self.store.claim(claim))

    def hint(self, key: JobKey, *, deployment: str | None, now: datetime) -> bool:
        hint = partial(self.store.hint, key, deployment=deployment, now=now)
        return self._write("store.hint", key, hint)

    def save_event(self, row: Job, event: EventRecord) -> bool:
        save = partial(self.store.save_event, row, event)
        return self._write("store.save_event", row.job_key, save)

    def compare_and_swap(
        self, before: Job, after: Job, *, business_writes: Sequence[BusinessWrite] = ()
    ) -> SwapResult:
        return self._write(
            "store.compare_and_swap",
            before.job_key,
            lambda: self.store.compare_and_swap(before, after, business_writes=business_writes),
        )

    def _write(self, name: str, key: JobKey, perform: Callable[[], _T]) -> _T:
        def write() -> _T:
            result = perform()
            self.on_write(key)
            return result

        return self.interceptor.call(name, WRITE_FAULTS, write, _unavailable)


@dataclass(frozen=True)
class InterceptedBusinessTable:
    """A business table."""

    interceptor: Interceptor
    store: MemoryJobStore
    name: str

    def get(self, key: Mapping[str, str]) -> Mapping[str, object] | None:
        return self.interceptor.call(
            "table.get",
            READ_FAULTS,
            lambda: self.store.business_rows.get(self.name, key),
            _unavailable,
        )

    def query_index(
        self, index: str, *, partitions: tuple[str, Sequence[str]], max_sort_key: tuple[str, str]
    ) -> Iterator[Mapping[str, object]]:
        rows = self.store.business_rows
        matches: list[Any] = self.interceptor.call(
            "table.query_index",
            READ_FAULTS,
            lambda: list(
                rows.query_index(self.name, index, partitions=partitions, max_sort_key=max_sort_key)
            ),
            _unavailable,
        )
        return iter(matches)

    def update(self, write: BusinessWrite) -> bool:
        return self.interceptor.call(
            "table.update",
            WRITE_FAULTS,
            lambda: self.store.business_rows.update(write),
            _unavailable,
        )


@dataclass(frozen=True)
class InterceptedEventBus:
    """The event bus; `published` has the key and status of each ended job."""

    interceptor: Interceptor
    published: set[tuple[JobKey, Status]] = field(default_factory=set)
    changes: set[tuple[JobKey, ChangeKind]] = field(default_factory=set)

    def publish(self, job: Job) -> None:
        def publish() -> None:
            self.published.add((job.job_key, job.status))

        self.interceptor.call("bus.publish", WRITE_FAULTS, publish, _unavailable)

    def publish_change(self, job: Job, change: EffectChange) -> None:
        def publish() -> None:
            self.changes.add((job.job_key, change.kind))

        self.interceptor.call("bus.publish_change", WRITE_FAULTS, publish, _unavailable)


@dataclass(frozen=True)
class InterceptedMessageSender:
    """A queue to send to."""

    interceptor: Interceptor
    deliver: Callable[[str], None]

    def send(self, bodies: Sequence[str], *, groups: Sequence[str | None] = ()) -> list[bool]:
        del groups  # the simulation has one tenant

        def send() -> list[bool]:
            for body in bodies:
                self.deliver(body)
            return [True] * len(bodies)

        return self.interceptor.call(
            "outbox.send", WRITE_FAULTS, send, lambda: [False] * len(bodies)
        )


@dataclass(frozen=True)
class InterceptedNotifier:
    """The notifier; `alerted` has the jobs that the operator was alerted about."""

    interceptor: Interceptor
    alerted: set[str] = field(default_factory=set)

    def notify(self, alert: Alert) -> bool:
        def notify() -> bool:
            self.alerted.update(alert.names)
            return True

        return self.interceptor.call("notifier.notify", WRITE_FAULTS, notify, lambda: False)


@dataclass(frozen=True)
class InterceptedAlertBudget:
    """The alert budget."""

    interceptor: Interceptor
    budget: MemoryAlertBudget

    def admit(self, kind: AlertKind, names: Sequence[str], *, now: datetime) -> bool:
        return self._call("admit", lambda: self.budget.admit(kind, names, now=now))

    def reserve(
        self, kind: AlertKind, name: str, *, now: datetime, until: datetime
    ) -> datetime | None:
        return self._call("reserve", lambda: self.budget.reserve(kind, name, now=now, until=until))

    def keep(self, kind: AlertKind, name: str, *, until: datetime) -> None:
        self._call("keep", lambda: self.budget.keep(kind, name, until=until))

    def take_digest(self, key: str, *, now: datetime, until: datetime) -> AlertDigest | None:
        return self._call("take_digest", lambda: self.budget.take_digest(key, now=now, until=until))

    def close_digest(self, digest: AlertDigest, *, now: datetime) -> bool:
        return self._call("close_digest", lambda: self.budget.close_digest(digest, now=now))

    def _call(self, name: str, perform: Callable[[], _T]) -> _T:
        return self.interceptor.call(f"budget.{name}", WRITE_FAULTS, perform, _unavailable)


@dataclass(frozen=True)
class InterceptedSweepLeases:
    """The sweep leases of the only shard."""

    interceptor: Interceptor
    leases: MemorySweepLeases = field(default_factory=MemorySweepLeases)

    @property
    def held(self) -> object:
        return self.leases.held

    def free_at(self) -> datetime:
        """Return when the next sweep can start."""
        return max((until for _, until in self.leases.held.values()), default=START)

    def acquire(self, shard: int, *, holder: str, now: datetime, until: datetime) -> bool:
        def acquire() -> bool:
            return self.leases.acquire(shard, holder=holder, now=now, until=until)

        return self.interceptor.call("leases.acquire", WRITE_FAULTS, acquire, _unavailable)

    def release(self, shard: int, *, holder: str) -> None:
        def release() -> None:
            self.leases.release(shard, holder=holder)

        self.interceptor.call("leases.release", WRITE_FAULTS, release, _unavailable)


@dataclass(frozen=True)
class InterceptedGateTable:
    """The gates. Slots are not simulated: a simulation has no rate limits."""

    interceptor: Interceptor
    gates: MemoryGateTable
    lease: Any = None

    def read(self) -> GateSnapshot:
        return self.interceptor.call("gates.read", READ_FAULTS, self.gates.read, _unavailable)

    def change_circuit(self, gate: str, before: GateState, after: GateState) -> bool:
        return self.interceptor.call(
            "gates.change_circuit",
            WRITE_FAULTS,
            lambda: self.gates.change_circuit(gate, before, after),
            _unavailable,
        )

    def write_pause(self, before: Pause | None, after: Pause) -> bool:
        return self.interceptor.call(
            "gates.write_pause",
            WRITE_FAULTS,
            lambda: self.gates.write_pause(before, after),
            _unavailable,
        )


@dataclass(frozen=True)
class InterceptedDueIndex:
    """The index of due rows."""

    interceptor: Interceptor
    index: MemoryDueIndex
    shards: int = 1  # more shards would add calls, but no behavior

    def due(
        self, action: DueAction, shard: int, *, since: datetime | None, until: datetime
    ) -> Iterator[DueEntry]:
        del shard

        def due() -> list[DueEntry]:
            return list(self.index.due(action, 0, since=since, until=until))

        if action is not DueAction.LOOK_UP:
            return iter(due())  # one intercepted read per sweep is enough
        entries: list[DueEntry] = self.interceptor.call("index.due", READ_FAULTS, due, _unavailable)
        return iter(entries)
