"""Cancelling a job for an operator: by a write of its row, or by a worker that closes it first."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncely.contracts.contract import AnyContract
from oncely.core.decide import needs_closing
from oncely.core.effect_outcomes import BusinessWrite, LookupUnsupported
from oncely.core.job_row import JobRow, operator_actor
from oncely.core.job_type import AlreadyResolved, Proceed
from oncely.core.lifecycle import Event
from oncely.core.profiles import RetrySafety
from oncely.core.repairs import cancel, cancelled_job, close_then_cancel
from oncely.core.store import AlreadyExists, Created, ForgedRow
from oncely.core.table_guard import TableOpen, may_have_lost_history
from oncely.operate.mark_job import MarkingRun
from oncely.operate.repair_request import (
    BusinessRowConflict,
    NotAllowed,
    RepairDetails,
    Repaired,
    RepairOutcome,
    RepairRequest,
    StaleVersion,
)
from oncely.operate.repair_write import claim_obstacle

if TYPE_CHECKING:
    from oncely.app import App


@dataclass(frozen=True, kw_only=True)
class CancellingRun(MarkingRun):
    """The repair that ends a job before anything is done."""

    def cancel(self, row: JobRow) -> RepairOutcome:
        """End the job, or have a worker close what is open first: repairs only read."""
        if needs_closing(row, self.contract.policy):
            return self._close_then_cancel(row)
        # The same write frees what an earlier run reserved, which needs the business values.
        if row.was_claimed and (why := claim_obstacle(row, self.precheck)):
            return BusinessRowConflict(f"{why}. Fix the business rows first")
        if self._may_have_run(row):
            return NotAllowed(
                "the job table was restored, so it may have been done before, and "
                f"{self.provider} cannot be asked: wait until it needs review"
            )
        details = RepairDetails(note="nothing was sent, and no later message sends anything")
        return self.writer.write(
            row,
            cancel(self.request.reason),
            details,
            business_writes=self._business_writes,
            contract=self.contract,
        )

    def _close_then_cancel(self, row: JobRow) -> RepairOutcome:
        if why := claim_obstacle(row, self.precheck):
            return BusinessRowConflict(
                f"{row.provider_ref} may be open at {self.provider}, and no worker can close it: "
                f"{why}. Fix the business rows first"
            )
        decision = close_then_cancel(self.request.reason, self.app.ports.clock.now())
        note = f"a worker cancels {row.provider_ref} at {self.provider} first"
        return self.write_and_send(row, decision, RepairDetails(note=note))

    def _may_have_run(self, row: JobRow) -> bool:
        """Whether a restore may have lost a run that cannot be looked up."""
        policy = self.contract.policy
        if policy.safety is RetrySafety.NATURAL or policy.leaves_open:
            return False  # the reference was searched for
        return may_have_lost_history(row, self.table.replays_until)

    def _business_writes(self, after: JobRow) -> tuple[BusinessWrite, ...]:
        precheck = self.precheck
        if not isinstance(precheck, Proceed | AlreadyResolved) or precheck.facts is None:
            return ()  # the business rows request nothing
        return self.contract.business_writes(
            Event.CANCEL, precheck.facts, after, LookupUnsupported()
        )


def cancel_absent(
    request: RepairRequest, contract_type: type[AnyContract], *, app: "App", table: TableOpen
) -> RepairOutcome:
    """Write the row of a job that has none, so that every later message is a duplicate."""
    now = app.ports.clock.now()
    if not table.has_all_rows(now):
        return NotAllowed("the job table was restored, and its row may be lost: try again later")
    row = cancelled_job(
        request.key,
        contract_type.job_type,
        now=now,
        actor=operator_actor(request.actor),
        reason=request.reason,
        retention=contract_type.effective_retention(app.settings.row_retention),
    )
    written = Created(row) if request.dry_run else app.ports.job_inserter.insert(row)
    if isinstance(written, ForgedRow):
        return NotAllowed("its row is not ours: wait until it needs review, then cancel it")
    if isinstance(written, AlreadyExists):
        return StaleVersion(written.row)
    return Repaired(None, row, RepairDetails(note="its first message will be a duplicate"))
