"""A job table that may be restored once, to an earlier moment, while everything else goes on."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from oncely.domain.errors import InvariantError
from oncely.domain.history import HistoryLine, history_line
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.table_identity import Identity, TableFacts
from oncely.ports import RowPage, TableRefused
from oncely.services.restore_proofs import Declared, RestoreProofs
from oncely.services.table_guard import RETRY_AFTER, CheckedTable
from oncely.testing.actors import Actor, Task
from oncely.testing.history import MemoryHistory
from oncely.testing.memory import MemoryJobStore, Row
from oncely.testing.scenario import Restore, Scenario
from oncely.testing.schedule import Schedule, WallClock

# A table under the same name takes minutes to delete and to restore.
RESTORE_TAKES: Final = timedelta(minutes=10)
PROOFS_COME_AFTER: Final = timedelta(minutes=5)
REPLAYS_FOR: Final = timedelta(days=18)
# How many writes back a restore may go; what is lost is the same beyond.
MOST_WRITES_BACK: Final = 3

_Image = tuple[dict[JobKey, Job], dict[tuple[str, tuple[str, ...]], Row]]


@dataclass
class RestorableTable:
    """The rows, the identity item, and what the stream had archived."""

    scenario: Scenario
    schedule: Schedule
    store: MemoryJobStore
    item: Identity = field(init=False)
    table_id: str = "T1"
    restored: bool = False
    images: list[_Image] = field(default_factory=list)
    newest: dict[str, HistoryLine] = field(default_factory=dict)
    _rows: dict[JobKey, Job] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.item = Identity(deployment=self.scenario.deployment, table_id="T1")
        self.guard = CheckedTable(self, WallClock(self.schedule))
        self.images.append(self._image())

    def identity(self) -> Identity:
        """The identity item, which comes back with the rows."""
        return self.item

    def facts(self) -> TableFacts:
        """What DynamoDB says."""
        return TableFacts(name="jobs", table_id=self.table_id, has_stream=True)

    def with_protection(self, facts: TableFacts) -> TableFacts:
        """The restore is done well: nothing is left off."""
        return facts

    def write(self, identity: Identity, *, instead_of: Identity | None) -> bool:
        """Write the item over the one that was read."""
        if self.item != instead_of:
            return False
        self.item = identity
        return True

    def pages(self, *, after: str | None = None) -> Iterator[RowPage]:
        """The rows, as a scan reads them."""
        del after
        yield RowPage(jobs=tuple(self.store.jobs.values()), unreadable=(), after=None)

    def wrote(self, key: JobKey) -> None:
        """Remember how the tables are after a write, for a restore."""
        if self.scenario.restore is None or self.restored:
            return
        row = self.store.jobs.get(key)
        line = history_line(self._rows.get(key), row, generation="T1", at=self.schedule.now)
        if row is not None:
            self._rows[key] = row
        if line is not None and self.scenario.restore is Restore.ARCHIVED:
            self.newest[key] = line
        self.images = [*self.images, self._image()][-MOST_WRITES_BACK - 1 :]

    def tasks(self, begin: Callable[[str, Callable[[], None]], Actor]) -> Iterator[Task]:
        """A restore to each earlier moment, if there was none; after it, its proofs."""
        if self.scenario.restore is None:
            return
        if self.restored and self.item.table_id != self.table_id:
            at = self.schedule.now + PROOFS_COME_AFTER
            yield Task("proofs", at, lambda: begin("o", self._restore_proofs))
        for back in range(1, len(self.images)) if not self.restored else ():
            at = self.schedule.now + RESTORE_TAKES
            yield Task(f"restore{back}", at, self._restoring(back, begin), optional=True)

    def sweeps_from(self, now: datetime) -> datetime | None:
        """When a sweep can do something. Returns None while the table is not declared."""
        if not isinstance(self.guard.check(), TableRefused):
            return now
        opens_at = self.item.opens_at
        return None if opens_at is None else max(now, opens_at + RETRY_AFTER)

    def state(self) -> object:
        """What else happens depends on this as well."""
        if self.scenario.restore is None:
            return None
        guard = (self.guard._state, self.guard._next_check)  # noqa: SLF001  # for a digest only
        images = () if self.restored else tuple(self.images)
        return (self.table_id, self.item, guard, images, dict(self.newest))

    def _image(self) -> _Image:
        return dict(self.store.jobs), deepcopy(self.store.business.rows)

    def _restoring(
        self, back: int, begin: Callable[[str, Callable[[], None]], Actor]
    ) -> Callable[[], Actor]:
        return lambda: begin("x", lambda: self._restore(back))

    def _restore(self, back: int) -> None:
        """Jobs are as they were that many writes ago; providers are not.

        Without the history, orders are lost as well: nothing but the provider knows of the time.
        """
        jobs, rows = self.images[-1 - back]
        self.restored, self.table_id = True, "T2"
        self.store.jobs.clear()
        self.store.jobs.update(jobs)
        if self.scenario.restore is Restore.LAGGING:
            self.store.business.rows.clear()
            self.store.business.rows.update(deepcopy(rows))

    def _restore_proofs(self) -> None:
        history = MemoryHistory()
        history.put(self.schedule.now.date(), "all", "newest", tuple(self.newest.values()))
        service = RestoreProofs(
            table=self,
            store=self.store,
            scan=self,
            history=history,
            clock=WallClock(self.schedule),
            new_identity=lambda: "another",
        )
        done = service.replace_table(replays_for=REPLAYS_FOR)
        if not isinstance(done, Declared):
            raise InvariantError(done.why)
