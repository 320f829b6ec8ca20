"""Writes what a repair changes: over exactly the row that the person saw, and in their name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oncely.contract import AnyContract
from oncely.domain.actors import person
from oncely.domain.jobs import Job
from oncely.domain.moves import Decision
from oncely.domain.writes import LocalWrite
from oncely.ports import LocalRefused, Overtaken, Written
from oncely.services.ending import with_proof
from oncely.services.reconcile import Reconciler
from oncely.services.repair_order import (
    Changed,
    LocalRowsRefuse,
    Repaired,
    RepairOrder,
    WouldRepair,
)


@dataclass(frozen=True)
class RepairWrite:
    """One order's right to write: each write is over the row as it was seen, or it is none."""

    reconciler: Reconciler
    order: RepairOrder

    @property
    def actor(self) -> str:
        """Who it is written for."""
        return person(self.order.actor)

    def over(
        self,
        row: Job,
        decision: Decision,
        said: str = "",
        *,
        local: Callable[[Job], Sequence[LocalWrite]] = lambda _: (),
        contract: AnyContract | None = None,
    ) -> Repaired | WouldRepair | Changed | LocalRowsRefuse:
        """Write a decision and the rows that go along; a dry run only says what would be."""
        now = self.reconciler.clock.now()
        after = with_proof(
            row,
            decision.on(row, now=now, actor=self.actor),
            contract,
            row_retention=self.reconciler.row_retention,
            now=now,
        )
        if self.order.dry_run:
            return self._would_write(after, said, local(after))
        match self.reconciler.store.swap(row, after, local=local(after)):
            case Written(job=job):
                return Repaired(row, job, said)
            case Overtaken(row=newer):
                return Changed(newer or row)
            case LocalRefused(why=why):
                return LocalRowsRefuse(why)

    def _would_write(
        self, after: Job, said: str, local: Sequence[LocalWrite]
    ) -> WouldRepair | LocalRowsRefuse:
        """Read the rows that would go along: what they refuse now must not be promised."""
        table = self.reconciler.tools.table
        refused = [str(one) for one in local if not one.fits(table(one.table).get(one.key))]
        return LocalRowsRefuse(", ".join(refused)) if refused else WouldRepair(after, said)
