"""Writes a repair over exactly the row that the operator saw, in the operator's name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import assert_never

from oncely.contract import AnyContract
from oncely.domain.actors import operator_actor
from oncely.domain.decisions import Decision
from oncely.domain.jobs import Job
from oncely.domain.writes import BusinessWrite
from oncely.operate.repair_request import (
    NO_DETAILS,
    BusinessRowConflict,
    RepairDetails,
    Repaired,
    RepairRequest,
    StaleVersion,
    WouldRepair,
)
from oncely.ports import BusinessWriteConflict, Swapped, VersionConflict
from oncely.reconcile.reconciler import Reconciler
from oncely.run.ending import apply_retention


@dataclass(frozen=True)
class RepairWriter:
    """Writes for one request. Fails if the row changed since the operator saw it."""

    reconciler: Reconciler
    request: RepairRequest

    @property
    def actor(self) -> str:
        """The operator, as evidence stores the name."""
        return operator_actor(self.request.actor)

    def write(
        self,
        row: Job,
        decision: Decision,
        details: RepairDetails = NO_DETAILS,
        *,
        business_writes: Callable[[Job], Sequence[BusinessWrite]] = lambda _: (),
        contract: AnyContract | None = None,
    ) -> Repaired | WouldRepair | StaleVersion | BusinessRowConflict:
        """Write a decision with its business rows. A dry run only returns the result."""
        now = self.reconciler.clock.now()
        after = apply_retention(
            row,
            decision.apply_to(row, now=now, actor=self.actor),
            contract,
            row_retention=self.reconciler.row_retention,
            now=now,
        )
        if self.request.dry_run:
            return self._dry_run(after, details, business_writes(after))
        match self.reconciler.store.compare_and_swap(
            row, after, business_writes=business_writes(after)
        ):
            case Swapped(job=job):
                return Repaired(row, job, details)
            case VersionConflict(row=newer):
                return StaleVersion(newer or row)
            case BusinessWriteConflict(reason=why):
                return BusinessRowConflict(why)
            case unreachable:
                assert_never(unreachable)

    def _dry_run(
        self, after: Job, details: RepairDetails, business_writes: Sequence[BusinessWrite]
    ) -> WouldRepair | BusinessRowConflict:
        # Check the business rows, so that a preview promises nothing that they reject now.
        table = self.reconciler.dependencies.table
        conflicts = [
            str(one) for one in business_writes if not one.applies_to(table(one.table).get(one.key))
        ]
        return (
            BusinessRowConflict(", ".join(conflicts)) if conflicts else WouldRepair(after, details)
        )
