"""Writes a repair over exactly the row that the operator saw, in the operator's name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, assert_never

from oncely.contract import AlreadyResolved, AnyContract, Message, Mismatch, PrecheckResult
from oncely.domain.actors import operator_actor
from oncely.domain.due import escalate_if_values_changed
from oncely.domain.effect_outcomes import Anomalous, BusinessWrite, Succeeded
from oncely.domain.jobs import Decision, Job
from oncely.domain.keys import fingerprint
from oncely.domain.repairs import Repair, resolve_manually, resolved_elsewhere
from oncely.operate.repair_request import (
    NO_DETAILS,
    BusinessRowConflict,
    RepairDetails,
    Repaired,
    RepairOutcome,
    RepairRequest,
    StaleVersion,
    WouldRepair,
)
from oncely.ports import BusinessWriteConflict, Swapped, VersionConflict
from oncely.reconcile.reconciler import Reconciler
from oncely.run.attempt import row_after

_VALUES_UNKNOWN: Final = "the business rows no longer say what the job should do"


@dataclass(frozen=True)
class RepairWriter:
    """Writes for one request. Fails if the row changed since the operator saw it."""

    reconciler: Reconciler
    request: RepairRequest

    @property
    def actor(self) -> str:
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
        now, kept = self.reconciler.clock.now(), self.reconciler.row_retention
        after = row_after(decision, row, contract, now=now, actor=self.actor, row_retention=kept)
        writes = business_writes(after)
        if self.request.dry_run:
            return self._dry_run(after, details, writes)
        match self.reconciler.store.compare_and_swap(row, after, business_writes=writes):
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
        reason = ", ".join(conflicts)
        return BusinessRowConflict(reason) if conflicts else WouldRepair(after, details)


@dataclass(frozen=True)
class ManualResolution:
    """One manual resolution."""

    writer: RepairWriter

    def resolve_with_business_rows(
        self, row: Job, contract: AnyContract, message: Message
    ) -> RepairOutcome:
        decision = self._decision(row, self.writer.request.reason)
        local = self._business_writes(row, decision, contract, message)
        if isinstance(local, str):
            return BusinessRowConflict(local)
        return self.writer.write(
            row,
            decision,
            RepairDetails(note="resolved by the operator"),
            business_writes=local,
            contract=contract,
        )

    def resolve_job_only(self, row: Job) -> RepairOutcome:
        """End a job whose message cannot be read, without its business rows."""
        reason = f"closed without business rows: {self.writer.request.reason}"
        decision = self._decision(row, reason)
        note = "resolved by the operator; business rows are not changed, fix them by hand"
        return self.writer.write(row, decision, RepairDetails(note=note))

    def _decision(self, row: Job, reason: str) -> Decision:
        request = self.writer.request
        return resolve_manually(row, request.repair, reason=reason, reference=request.reference)

    def _business_writes(
        self, row: Job, decision: Decision, contract: AnyContract, message: Message
    ) -> Callable[[Job], Sequence[BusinessWrite]] | str:
        finishes = self.writer.request.repair is Repair.MARK_FINISHED
        precheck = contract.precheck(message)
        match precheck:
            case AlreadyResolved(outcome=Succeeded(), writes=writes) if finishes:
                return lambda _: writes  # the business rows say so already
            case AlreadyResolved(outcome=outcome) if resolved_elsewhere(row, outcome):
                return lambda _: ()  # keep what another job or an operator did
        moved_on = values_changed_since(row, precheck)
        facts = None if isinstance(precheck, Mismatch) or moved_on else precheck.facts
        if facts is not None:
            answer = Succeeded(self.writer.request.reason)
            return lambda after: contract.business_writes(decision.event, facts, after, answer)
        if finishes:
            reason = moved_on or _VALUES_UNKNOWN
            return f"{reason}: fix them, or undo it at the provider and mark it as failed"
        # An effect that did not happen changes no business rows.
        return lambda _: ()


def values_changed_since(row: Job, precheck: PrecheckResult[Any]) -> str | None:
    """How the business values changed since the claim. Returns None if they did not."""
    if isinstance(precheck, Mismatch):
        return precheck.reason
    if isinstance(precheck, AlreadyResolved) and isinstance(precheck.outcome, Anomalous):
        return precheck.outcome.reason
    values = precheck.values
    decision = escalate_if_values_changed(row, None if values is None else fingerprint(values))
    return None if decision is None else decision.reason


def claim_obstacle(row: Job, precheck: PrecheckResult[Any]) -> str | None:
    """Why no worker could claim this job. Returns None if one could."""
    if isinstance(precheck, Mismatch):
        return precheck.reason
    if precheck.facts is None:
        return _VALUES_UNKNOWN
    values = precheck.values
    decision = escalate_if_values_changed(row, None if values is None else fingerprint(values))
    return None if decision is None else decision.reason
