"""Ports whose every call is a point: it may fail, happen unseen, or never be reached."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, NoReturn, TypeVar

from oncely.domain.claims import Claim
from oncely.domain.due import Action
from oncely.domain.errors import UnavailableError
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Status
from oncely.domain.writes import LocalWrite
from oncely.ports import Alert, ClaimResult, CreateResult, Due, SwapResult
from oncely.testing.actors import START
from oncely.testing.digest import Digest
from oncely.testing.memory import MemoryDueIndex, MemoryJobStore, MemorySweepLeases
from oncely.testing.schedule import Schedule
from oncely.testing.script import DIE

_T = TypeVar("_T")

FAIL: Final = "!fail"  # it did not happen, and an error says so or leaves it open
LOST: Final = "!lost"  # it happened, and its answer was lost

# A death before a read is one before the next write: nothing has changed in between.
READ: Final = (FAIL,)
WRITE: Final = (DIE, FAIL, LOST)


@dataclass
class Points:
    """Where calls meet the schedule."""

    schedule: Schedule
    digest: Digest
    changes: int = 0  # calls so far that may have changed something outside the actors

    def call(
        self,
        name: str,
        faults: Sequence[str],
        perform: Callable[[], _T],
        wrong: Callable[[], _T],
        *,
        in_flight: timedelta | None = None,
    ) -> _T:
        """Perform a call, or what a fault makes of it; the actor has seen its answer."""
        fault = self.schedule.point(name, faults, in_flight=in_flight)
        self.changes += faults is not READ
        try:
            if fault == FAIL:
                answer = wrong()
            elif fault == LOST:
                perform()
                answer = wrong()
            else:
                answer = perform()
        except Exception as error:
            self.seen(name, error)
            raise
        self.seen(name, answer)
        return answer

    def seen(self, name: str, answer: object) -> None:
        """Add to what the current actor knows."""
        actor = self.schedule.current
        if actor is not None:
            if name != "clock":
                self.schedule.log(f"  {actor.name}:{name} →", answer)
            actor.history = hash((actor.history, name, self.digest(answer)))


def _unavailable() -> NoReturn:
    raise UnavailableError("no answer")


@dataclass(frozen=True)
class PointClock:
    """A clock; whoever is held up just before a look at it may find that much time has passed."""

    points: Points

    def now(self) -> datetime:
        schedule = self.points.schedule
        schedule.point("clock")
        if schedule.current is not None:
            schedule.current.last_look = schedule.now
        self.points.seen("clock", schedule.now)
        return schedule.now


@dataclass(frozen=True)
class PointStore:
    """The job table."""

    points: Points
    store: MemoryJobStore
    wrote: Callable[[JobKey], None]  # after each write: the stream

    def get(self, key: JobKey) -> Job | None:
        return self.points.call("store.get", READ, lambda: self.store.get(key), _unavailable)

    def create(self, job: Job) -> CreateResult:
        return self._write("store.create", job.job_key, lambda: self.store.create(job))

    def claim(self, claim: Claim) -> ClaimResult:
        return self._write("store.claim", claim.job_key, lambda: self.store.claim(claim))

    def swap(self, before: Job, after: Job, *, local: Sequence[LocalWrite] = ()) -> SwapResult:
        return self._write(
            "store.swap", before.job_key, lambda: self.store.swap(before, after, local=local)
        )

    def _write(self, name: str, key: JobKey, perform: Callable[[], _T]) -> _T:
        def write() -> _T:
            answer = perform()
            self.wrote(key)
            return answer

        return self.points.call(name, WRITE, write, _unavailable)


@dataclass(frozen=True)
class PointTable:
    """A business table."""

    points: Points
    store: MemoryJobStore
    name: str

    def get(self, key: Mapping[str, str]) -> Mapping[str, object] | None:
        return self.points.call(
            "table.get", READ, lambda: self.store.business.get(self.name, key), _unavailable
        )

    def waiting(
        self, index: str, *, partitions: tuple[str, Sequence[str]], up_to: tuple[str, str]
    ) -> Iterator[Mapping[str, object]]:
        rows = self.store.business
        found: list[Any] = self.points.call(
            "table.waiting",
            READ,
            lambda: list(rows.waiting(self.name, index, partitions=partitions, up_to=up_to)),
            _unavailable,
        )
        return iter(found)

    def update(self, write: LocalWrite) -> bool:
        return self.points.call(
            "table.update", WRITE, lambda: self.store.business.update(write), _unavailable
        )


@dataclass(frozen=True)
class PointBus:
    """The event bus; `heard` are the ends that it has taken, each by its key and status."""

    points: Points
    heard: set[tuple[JobKey, Status]] = field(default_factory=set)

    def publish(self, job: Job) -> None:
        def publish() -> None:
            self.heard.add((job.job_key, job.status))

        self.points.call("bus.publish", WRITE, publish, _unavailable)


@dataclass(frozen=True)
class PointOutbox:
    """A queue to send to."""

    points: Points
    deliver: Callable[[str], None]

    def send(self, bodies: Sequence[str]) -> list[bool]:
        def send() -> list[bool]:
            for body in bodies:
                self.deliver(body)
            return [True] * len(bodies)

        return self.points.call("outbox.send", WRITE, send, lambda: [False] * len(bodies))


@dataclass(frozen=True)
class PointAlerts:
    """Tells a person; `told` are the jobs that one has heard of."""

    points: Points
    told: set[JobKey | None] = field(default_factory=set)

    def tell(self, alert: Alert) -> bool:
        def tell() -> bool:
            self.told.add(alert.job_key)
            return True

        return self.points.call("alerts.tell", WRITE, tell, lambda: False)


@dataclass(frozen=True)
class PointLeases:
    """Sweep leases; there is one shard."""

    points: Points
    leases: MemorySweepLeases = field(default_factory=MemorySweepLeases)

    @property
    def held(self) -> object:
        return self.leases.held

    def free_at(self) -> datetime:
        """When the next sweep can begin."""
        return max((until for _, until in self.leases.held.values()), default=START)

    def take(self, shard: int, *, holder: str, now: datetime, until: datetime) -> bool:
        def take() -> bool:
            return self.leases.take(shard, holder=holder, now=now, until=until)

        return self.points.call("leases.take", WRITE, take, _unavailable)

    def give_back(self, shard: int, *, holder: str) -> None:
        def give_back() -> None:
            self.leases.give_back(shard, holder=holder)

        self.points.call("leases.give_back", WRITE, give_back, _unavailable)


@dataclass(frozen=True)
class PointIndex:
    """The index of due rows."""

    points: Points
    index: MemoryDueIndex
    shards: int = 1  # one query is as good as many here

    def due(
        self, action: Action, shard: int, *, since: datetime | None, until: datetime
    ) -> Iterator[Due]:
        del shard

        def due() -> list[Due]:
            return list(self.index.due(action, 0, since=since, until=until))

        if action is not Action.ASK:
            return iter(due())  # read in the same breath as the first
        found: list[Due] = self.points.call("index.due", READ, due, _unavailable)
        return iter(found)
