"""A job table that may be restored once to an earlier time, while everything else continues."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from oncely.domain.history import history_line
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.table_identity import TableFacts, TableIdentity
from oncely.ports import TableBlocked
from oncely.run.table_guard import RETRY_AFTER, CheckedTable
from oncely.testing.history import MemoryErasureLog, MemoryHistory
from oncely.testing.memory import BusinessRow, MemoryJobStore
from oncely.testing.scenario import RestoreMode, Scenario
from oncely.testing.schedule import Scheduler, WallClock
from oncely.testing.tasks import SimulatedProcess, Task

# Deleting a table and restoring it under the same name takes minutes.
RESTORE_DURATION: Final = timedelta(minutes=10)
PROOFS_DELAY: Final = timedelta(minutes=5)
REPLAY_WINDOW: Final = timedelta(days=18)
# How many writes a restore may lose; more would add no behavior.
MAX_WRITES_BACK: Final = 3

_Snapshot = tuple[dict[JobKey, Job], dict[tuple[str, tuple[str, ...]], BusinessRow]]


@dataclass
class RestorableTable:
    """The rows, the identity item, and the archived history."""

    scenario: Scenario
    schedule: Scheduler
    store: MemoryJobStore
    identity_item: TableIdentity = field(init=False)
    table_id: str = "T1"
    restored: bool = False
    restored_rows: dict[JobKey, Job] | None = None  # where the stream of the new table begins
    snapshots: list[_Snapshot] = field(default_factory=list)
    history: MemoryHistory = field(default_factory=MemoryHistory)
    _rows: dict[JobKey, Job] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.identity_item = TableIdentity(deployment=self.scenario.deployment, table_id="T1")
        self.erasure_log = MemoryErasureLog()
        self.guard = CheckedTable(self, WallClock(self.schedule))
        self.snapshots.append(self._snapshot())

    def identity(self) -> TableIdentity:
        """Return the identity item, which a restore resets with the rows."""
        return self.identity_item

    def facts(self) -> TableFacts:
        """Return the table's description."""
        return TableFacts(name="jobs", table_id=self.table_id, has_stream=True)

    def with_protection(self, facts: TableFacts) -> TableFacts:
        """Return the facts unchanged: the restore kept every protection."""
        return facts

    def write(self, identity: TableIdentity, *, replacing: TableIdentity | None) -> bool:
        """Replace the identity item, if it is the one that was read."""
        if self.identity_item != replacing:
            return False
        self.identity_item = identity
        return True

    def is_empty(self) -> bool:
        """Return whether the table has no rows."""
        return not self.store.jobs

    def on_write(self, key: JobKey) -> None:
        """Save a snapshot after a write, for a restore."""
        if self.scenario.restore is None or self.restored:
            return
        row = self.store.jobs.get(key)
        line = history_line(self._rows.get(key), row, generation="T1", at=self.schedule.now)
        if row is not None:
            self._rows[key] = row
        if line is not None and self.scenario.restore is RestoreMode.ARCHIVED:
            self.history.put(line.at.date(), line.job_type, key, (line,))
        self.snapshots = [*self.snapshots, self._snapshot()][-MAX_WRITES_BACK - 1 :]

    def tasks(
        self,
        begin: Callable[[str, Callable[[], None]], SimulatedProcess],
        restore_proofs: Callable[[], None],
    ) -> Iterator[Task]:
        """Yield a restore to each snapshot or, after one, the restore of its proofs."""
        if self.scenario.restore is None:
            return
        if self.restored and self.identity_item.table_id != self.table_id:
            at = self.schedule.now + PROOFS_DELAY
            yield Task("proofs", at, lambda: begin("o", restore_proofs))
        for back in range(1, len(self.snapshots)) if not self.restored else ():
            at = self.schedule.now + RESTORE_DURATION
            yield Task(f"restore{back}", at, self._restore_task(back, begin), optional=True)

    def sweeps_from(self, now: datetime) -> datetime | None:
        """Return when sweeps can start. Returns None while the table is not declared."""
        if not isinstance(self.guard.check(), TableBlocked):
            return now
        opens_at = self.identity_item.opens_at
        return None if opens_at is None else max(now, opens_at + RETRY_AFTER)

    def state(self) -> object:
        """Return the state that determines what follows."""
        if self.scenario.restore is None:
            return None
        guard = (self.guard._state, self.guard._next_check)  # noqa: SLF001  # for a digest only
        images = () if self.restored else tuple(self.snapshots)
        return (self.table_id, self.identity_item, guard, images, self.history.newest())

    def _snapshot(self) -> _Snapshot:
        return dict(self.store.jobs), deepcopy(self.store.business_rows.rows)

    def _restore_task(
        self, back: int, begin: Callable[[str, Callable[[], None]], SimulatedProcess]
    ) -> Callable[[], SimulatedProcess]:
        return lambda: begin("x", lambda: self._restore(back))

    def _restore(self, back: int) -> None:
        # Without the history, business rows are restored too: only the provider knows the rest.
        jobs, rows = self.snapshots[-1 - back]
        self.restored, self.table_id = True, "T2"
        self.store.was_restored, self.restored_rows = True, dict(jobs)
        self.store.jobs.clear()
        self.store.jobs.update(jobs)
        if self.scenario.restore is RestoreMode.LAGGING:
            self.store.business_rows.rows.clear()
            self.store.business_rows.rows.update(deepcopy(rows))
