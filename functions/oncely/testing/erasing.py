"""An erasure that races workers, sweeps and the archiver, and a stream that feeds the archiver."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from oncely.domain.erasure import is_complete
from oncely.domain.erasure_log import ARCHIVER_TIMEOUT, ErasedJobs, ErasureEntry
from oncely.domain.errors import InvalidRequestError, UnavailableError
from oncely.domain.history import HistoryLine
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.operate.erase import Erasure
from oncely.publish.archive_history import RowChange
from oncely.testing.base_simulation import END_FAULTS
from oncely.testing.history import MemoryErasureLog, MemoryHistory
from oncely.testing.interception import (
    READ_FAULTS,
    WRITE_FAULTS,
    InterceptedBusinessTable,
    Interceptor,
)
from oncely.testing.schedule import ProcessKilledError
from oncely.testing.tasks import SimulatedProcess, Task

if TYPE_CHECKING:
    from oncely.testing.world import Simulation  # which imports this module

_T = TypeVar("_T")
# An erasure that dies is run again, and a second one may overlap it.
_MAX_CONCURRENT: Final = 2


def _no_response() -> NoReturn:
    raise UnavailableError("no response")


@dataclass(frozen=True)
class InterceptedErasureLog:
    """The erasure log."""

    interceptor: Interceptor
    log: MemoryErasureLog

    def record(self, entry: ErasureEntry) -> None:
        self.interceptor.call(
            "log.record", WRITE_FAULTS, lambda: self.log.record(entry), _no_response
        )

    def record_run(self, run: Mapping[str, object], *, at: datetime) -> None:
        self.log.record_run(run, at=at)

    def erased(self, *, since: date | None = None) -> ErasedJobs:
        return self.interceptor.call(
            "log.erased", READ_FAULTS, lambda: self.log.erased(since=since), _no_response
        )


@dataclass(frozen=True)
class InterceptedArchive:
    """The history. Lambda ends an archiver at its timeout, so it writes nothing later."""

    interceptor: Interceptor
    history: MemoryHistory

    def put(self, day: date, job_type: str, name: str, lines: Sequence[HistoryLine]) -> None:
        def put() -> None:
            schedule = self.interceptor.schedule
            if schedule.current is not None and schedule.now > schedule.current.latest_call_at:
                raise ProcessKilledError("timeout")
            self.history.put(day, job_type, name, lines)

        self.interceptor.call("history.put", WRITE_FAULTS, put, _no_response)

    def redact_history(
        self, redact: Callable[[Mapping[str, Any]], Mapping[str, Any]], *, dry_run: bool
    ) -> Iterator[bool]:
        objects = self.history.redact_history(redact, dry_run=dry_run)
        while (had_data := self._write("history.redact", lambda: next(objects, None))) is not None:
            yield had_data

    def delete_rejects(
        self, matches: Callable[[Mapping[str, Any]], bool], *, dry_run: bool
    ) -> Iterator[bool]:
        yield from self.history.delete_rejects(matches, dry_run=dry_run)

    def _write(self, name: str, perform: Callable[[], _T]) -> _T:
        return self.interceptor.call(name, WRITE_FAULTS, perform, _no_response)


@dataclass(frozen=True)
class InterceptedErasableTable(InterceptedBusinessTable):
    """A business table whose rows can be deleted."""

    def delete_partition(self, partition: Mapping[str, str], *, sort: str, dry_run: bool) -> int:
        rows = self.store.business_rows
        return self.interceptor.call(
            "table.delete",
            WRITE_FAULTS,
            lambda: rows.delete_partition(self.name, partition, sort=sort, dry_run=dry_run),
            _no_response,
        )


@dataclass
class SimulatedErasure:
    """The stream, its archiver, and one erasure that is repeated until it is complete."""

    world: "Simulation"
    changes: list[RowChange] = field(default_factory=list)
    archiving: bool = False
    erasing: int = 0
    tables_done: Erasure | None = None
    complete: bool = False
    required: bool = False  # all other work is done
    known: frozenset[JobKey] = frozenset()  # jobs by then; a replay of a lost one is a new job
    _rows: dict[JobKey, Job] = field(default_factory=dict)
    _batches: int = 0

    def on_write(self, key: JobKey) -> None:
        """Add the change to the stream."""
        if self.world.scenario.erases is None:
            return
        if (restored := self.world.table.restored_rows) is not None:
            self._rows, self.world.table.restored_rows = restored, None
        old, new = self._rows.get(key), self.world.store.jobs.get(key)
        if new is None or new == old:
            return
        self.changes.append(RowChange(job_key=key, at=self.world.schedule.now, old=old, new=new))
        self._rows[key] = new

    def tasks(self) -> Iterator[Task]:
        """Yield the next batch of the stream, and the next part of the erasure."""
        schedule, scenario = self.world.schedule, self.world.scenario
        if self.changes and not self.archiving:
            yield Task("archive", schedule.now, self._begin_archiver)
        if scenario.erases is None or self.complete or self.erasing >= _MAX_CONCURRENT:
            return
        if (open_at := self.world.table.sweeps_from(schedule.now)) is None:
            return  # until the proofs of a restored table are restored
        if self.tables_done is None:
            yield Task("erase", open_at, self._begin_tables, optional=not self.required)
            return
        ready = self.world.table.erasure_log.erased().effective_at or open_at
        yield Task("erase-archive", max(ready, open_at), self._begin_archive)

    def require(self) -> bool:
        """Erase now, or again. Returns False if nothing is left to erase."""
        if self.world.scenario.erases is None or self.required:
            return False
        self.required = True
        self.known = frozenset(self.world.store.jobs)
        if any(job.erasure_requested_at is None for job in self.world.store.jobs.values()):
            # A job that was created later. The operator runs the erasure again after the messages.
            self.tables_done, self.complete = None, False
        return True

    def state(self) -> object:
        """Return the state that determines what follows."""
        if self.world.scenario.erases is None:
            return None
        history, log = self.world.table.history, self.world.table.erasure_log
        own = (self.changes, self.archiving, self.erasing, self.tables_done, self.complete)
        return (own, self.required, self._batches, history.objects, history.older, log.entries)

    def _begin_archiver(self) -> SimulatedProcess:
        batch, self.archiving = list(self.changes), True
        self._batches += 1
        name = str(self._batches)
        process = self.world.new_process("h", lambda: self._archive(batch, name), name)
        process.latest_call_at = self.world.schedule.now + ARCHIVER_TIMEOUT
        return process

    def _archive(self, batch: list[RowChange], name: str) -> None:
        try:
            with self.world.tolerate_unavailable():
                self.world.app.history_writer.write(batch, generation="T1", batch=name)
                del self.changes[: len(batch)]
        finally:
            # Lambda retries a batch, and starts no other before.
            self.archiving = False

    def _begin_tables(self) -> SimulatedProcess:
        return self.world.new_process("x", self._erase_tables)

    def _erase_tables(self) -> None:
        person = self.world.scenario.erases
        with self._attempt():
            if person is not None:
                done = self.world.app.eraser.erase_tables(person, actor="ada")
                self.world.schedule.intercept("end", END_FAULTS)
                self.tables_done = done

    def _begin_archive(self) -> SimulatedProcess:
        return self.world.new_process("x", self._erase_archive)

    def _erase_archive(self) -> None:
        person, done = self.world.scenario.erases, self.tables_done
        with self._attempt():
            if person is not None and done is not None:
                self.world.app.eraser.erase_archive(person, done, actor="ada")
                self.complete = True

    @contextmanager
    def _attempt(self) -> Iterator[None]:
        self.erasing += 1
        try:
            # Until the proofs of a restored table are restored, it is refused.
            with suppress(InvalidRequestError), self.world.tolerate_unavailable():
                yield
        finally:
            self.erasing -= 1


def personal_data_left(world: Any, *marks: str) -> Iterator[str]:  # noqa: ANN401  # a simulation
    """Yield where one of these texts is left: job rows, business rows except orders, history."""
    history, known = world.table.history, world.erasure.known
    jobs = [job for key, job in world.store.jobs.items() if key in known]
    lines = [line for group in (*history.objects.values(), *history.older) for line in group]
    places: list[tuple[str, object]] = [
        *((f"the row of {job.job_key}", job) for job in jobs if is_complete(job)),
        *(
            (f"{name} {'/'.join(key)}", row)
            for (name, key), row in world.store.business_rows.rows.items()
            if name != "orders"
        ),
        *((f"the history of {line.job_key}", line) for line in lines if line.job_key in known),
    ]
    for place, content in places:
        yield from (f"{place} holds {mark!r}" for mark in marks if mark in repr(content))
    for job in jobs:
        if job.erasure_requested_at is None:
            yield f"{job.job_key} is not marked"
