"""An erasure that races workers, sweeps and the archiver, and a stream that feeds the archiver."""

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from oncely.core.ended_jobs import is_complete
from oncely.core.errors import InvalidRequestError
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.history.erasure_log import ARCHIVER_TIMEOUT, ErasedJobs, Person
from oncely.history.lines import HistoryLine, history_line
from oncely.operate.erase import Erasure
from oncely.testing.base_simulation import END_FAULTS
from oncely.testing.restored_table import GENERATION
from oncely.testing.simulated_services import ARCHIVE
from oncely.testing.tasks import SimulatedProcess, Task

if TYPE_CHECKING:
    from oncely.testing.world import Simulation  # which imports this module

# An erasure that dies is run again, and a second one may overlap it.
_MAX_CONCURRENT: Final = 2
_GZIP: Final = b"\x1f\x8b"


@dataclass
class SimulatedErasure:
    """The stream, its archiver, and one erasure that is repeated until it is complete."""

    world: "Simulation"
    lines: list[HistoryLine] = field(default_factory=list)  # in the stream
    archiving: bool = False
    erasing: int = 0
    tables_done: Erasure | None = None
    complete: bool = False
    required: bool = False  # all other work is done
    known: frozenset[JobKey] = frozenset()  # jobs by then; a replay of a lost one is a new job
    _batches: int = 0

    def on_write(self, old: JobRow | None, new: JobRow) -> None:
        """Add the line of a change to the stream."""
        if self.world.scenario.erases is not None:
            line = history_line(old, new, generation=GENERATION, at=self.world.schedule.now)
            self.lines += [] if line is None else [line]

    def tasks(self) -> Iterator[Task]:
        """Yield the next batch of the stream, and the next part of the erasure."""
        schedule, person = self.world.schedule, self.world.scenario.erases
        if self.lines and not self.archiving:
            yield Task("archive", schedule.now, self._begin_archiver)
        if person is None or self.complete or self.erasing >= _MAX_CONCURRENT:
            return
        if (open_at := self.world.table.sweeps_from(schedule.now)) is None:
            return  # until the proofs of a restored table are restored
        if self.tables_done is None:
            erase = partial(self._erase_tables, person)
            begin = partial(self.world.new_process, "x", erase)
            yield Task("erase", open_at, begin, optional=not self.required)
            return
        ready = self._erased().effective_at or open_at
        erase = partial(self._erase_archive, person, self.tables_done)
        begin = partial(self.world.new_process, "x", erase)
        yield Task("erase-archive", max(ready, open_at), begin)

    def require(self) -> bool:
        """Erase now, or again. Returns False if nothing is left to erase."""
        if self.world.scenario.erases is None or self.required:
            return False
        self.required = True
        self.known = frozenset(self.world.jobs)
        if any(job.erasure_requested_at is None for job in self.world.jobs.values()):
            # A job that was created later. The operator runs the erasure again after the messages.
            self.tables_done, self.complete = None, False
        return True

    def state(self) -> object:
        """Return the state that determines what follows."""
        if self.world.scenario.erases is None:
            return None
        own = (self.lines, self.archiving, self.erasing, self.tables_done, self.complete)
        return (own, self.required, self._batches, self.world.ports.archive_state())

    def has_erased(self, key: JobKey) -> bool:
        """Return whether an erasure of this job was recorded."""
        return self.world.scenario.erases is not None and self._erased().has_key(key)

    def _erased(self) -> ErasedJobs:
        with self.world.interceptor.silence():
            return self.world.ports.erasure_log.erased()

    def _begin_archiver(self) -> SimulatedProcess:
        batch, self.archiving = list(self.lines), True
        self._batches += 1
        name = str(self._batches)
        process = self.world.new_process("h", lambda: self._archive(batch, name), name)
        # Lambda ends it then, so it writes nothing later.
        process.latest_call_at = process.killed_at = self.world.schedule.now + ARCHIVER_TIMEOUT
        return process

    def _archive(self, batch: list[HistoryLine], name: str) -> None:
        try:
            with self.world.tolerate_unavailable():
                self.world.app.history_writer.write(batch, batch=name)
                del self.lines[: len(batch)]
        finally:
            # Lambda retries a batch, and starts no other before.
            self.archiving = False

    def _erase_tables(self, person: Person) -> None:
        with self._attempt():
            done = self.world.app.eraser.erase_tables(person, actor="ada")
            self.world.schedule.intercept("end", END_FAULTS)
            self.tables_done = done

    def _erase_archive(self, person: Person, done: Erasure) -> None:
        with self._attempt():
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
    known = world.erasure.known - world.table.lost
    jobs = [job for key, job in world.jobs.items() if key in known]
    lines = [
        line
        for versions in world.aws.s3.buckets[ARCHIVE].objects.values()
        for one in versions
        if one.body is not None
        for line in _lines(one.body)
    ]
    places: list[tuple[str, object]] = [
        *((f"the row of {job.job_key}", job) for job in jobs if is_complete(job)),
        *((f"a row of {name}", row) for name, row in world.rows.all() if name != "orders"),
        *(
            (f"the history of {line['job_key']}", line)
            for line in lines
            if line.get("job_key") in known
        ),
    ]
    for place, content in places:
        yield from (f"{place} holds {mark!r}" for mark in marks if mark in repr(content))
    for job in jobs:
        if job.erasure_requested_at is None:
            yield f"{job.job_key} is not marked"


def _lines(body: bytes) -> Iterator[dict[str, Any]]:
    """The lines of a history object. Other objects are not compressed."""
    if body.startswith(_GZIP):
        yield from map(json.loads, gzip.decompress(body).splitlines())
