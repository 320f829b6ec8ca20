"""A job table that may be restored once to an earlier time, while everything else continues."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.table_guard import RETRY_AFTER, TableBlocked, TableIdentity
from oncely.history.lines import history_line
from oncely.operate.own_tables import GATES, JOBS
from oncely.testing.memory_aws.dynamodb import Item, Key
from oncely.testing.rows import JobRows
from oncely.testing.scenario import RestoreMode, Scenario
from oncely.testing.schedule import Scheduler, SimulatedProcess, Task
from oncely.testing.simulated_services import SimulatedPorts

# Deleting a table and restoring it under the same name takes minutes.
RESTORE_DURATION: Final = timedelta(minutes=10)
PROOFS_DELAY: Final = timedelta(minutes=5)
REPLAY_WINDOW: Final = timedelta(days=18)
# How many writes a restore may lose; more would add no behavior.
MAX_WRITES_BACK: Final = 3
# DynamoDB restores a table to a time within its last 35 days.
RECOVERY_WINDOW: Final = timedelta(days=35)
GENERATION: Final = "T1"
TAG_KEY: Final = "the key of tags"

_Snapshot = dict[str, dict[Key, Item]]


@dataclass
class RestorableTable:
    """The tables as they were after the last writes, and what the archive has of them."""

    scenario: Scenario
    schedule: Scheduler
    ports: SimulatedPorts
    restored: bool = False
    lost: frozenset[JobKey] = frozenset()  # jobs without a row after the restore
    snapshots: list[tuple[datetime, _Snapshot]] = field(default_factory=list)  # since when

    def __post_init__(self) -> None:
        self._dynamo = self.ports.aws.dynamodb
        self._dynamo.table_ids[JOBS] = GENERATION
        self._job_rows = JobRows(self._dynamo, JOBS)
        identity = TableIdentity(
            deployment=self.scenario.deployment, table_id=GENERATION, tag_key=TAG_KEY
        )
        with self.ports.interceptor.silence():
            self.ports.table_identity.write(identity, replacing=None)
        self.snapshots.append((self.schedule.now, self._snapshot()))

    def on_write(self, old: JobRow | None, new: JobRow) -> None:
        """Save a snapshot after a write, for a restore."""
        if self.scenario.restore is None or self.restored:
            return
        line = history_line(old, new, generation=GENERATION, at=self.schedule.now)
        if line is not None and self.scenario.restore is RestoreMode.ARCHIVED:
            with self.ports.interceptor.silence():
                self.ports.history.put(line.at.date(), line.job_type, new.job_key, (line,))
        latest = (self.schedule.now, self._snapshot())
        self.snapshots = [*self.snapshots, latest][-MAX_WRITES_BACK - 1 :]

    def tasks(
        self,
        begin: Callable[[str, Callable[[], None]], SimulatedProcess],
        restore_proofs: Callable[[], None],
    ) -> Iterator[Task]:
        """Yield a restore to each snapshot or, after one, the restore of its proofs."""
        if self.scenario.restore is None:
            return
        if self.restored and self._identity().table_id == GENERATION:
            at = self.schedule.now + PROOFS_DELAY
            yield Task("proofs", at, lambda: begin("o", restore_proofs))
        for back in range(1, len(self.snapshots)) if not self.restored else ():
            until, _ = self.snapshots[-back]
            at = self.schedule.now + RESTORE_DURATION
            if until < self.schedule.now - RECOVERY_WINDOW:
                return
            restore = partial(begin, "x", partial(self._restore, back))
            yield Task(f"restore{back}", at, restore, optional=True)

    def sweeps_from(self, now: datetime) -> datetime | None:
        """Return when sweeps can start. Returns None while the table is not declared."""
        if not isinstance(self.ports.table_guard.check(), TableBlocked):
            return now
        opens_at = self._identity().opens_at
        return None if opens_at is None else max(now, opens_at + RETRY_AFTER)

    def state(self) -> object:
        """Return the state that determines what follows."""
        if self.scenario.restore is None:
            return None
        known = self.ports.table_guard
        guard = (known._state, known._next_check)  # noqa: SLF001  # for a digest only
        images = () if self.restored else tuple(self.snapshots)
        return (self._dynamo.table_ids[JOBS], guard, images, self.ports.archive_state())

    def _identity(self) -> TableIdentity:
        with self.ports.interceptor.silence():
            identity = self.ports.table_identity.identity()
        assert identity is not None, "only a restore replaces it"  # noqa: S101  # for the type checker
        return identity

    def _snapshot(self) -> _Snapshot:
        # Items are replaced and never changed.
        return {name: dict(items) for name, items in self._dynamo.tables.items() if name != GATES}

    def _restore(self, back: int) -> None:
        # Where business rows are restored too, only the provider knows the rest.
        _, snapshot = self.snapshots[-1 - back]
        lost = snapshot if self.scenario.restore is RestoreMode.LAGGING else {JOBS: snapshot[JOBS]}
        before = frozenset(self._job_rows.all())
        for name, items in lost.items():
            table = self._dynamo.tables[name]
            table.clear()
            table.update(items)
        self.restored, self.lost = True, before - self._job_rows.all().keys()
        self._dynamo.table_ids[JOBS] = "T2"
