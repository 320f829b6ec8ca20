"""Ends a job with the outcome that an operator verified; business rows follow."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from oncely.contract import AlreadyResolved, AnyContract, Message, Mismatch, PrecheckResult
from oncely.domain.decisions import Decision
from oncely.domain.due import escalate_if_values_changed
from oncely.domain.effect_outcomes import Anomalous, Succeeded
from oncely.domain.fingerprint import fingerprint
from oncely.domain.jobs import Job
from oncely.domain.repairs import Repair, resolve_manually, resolved_elsewhere
from oncely.domain.writes import BusinessWrite
from oncely.operate.repair_request import BusinessRowConflict, RepairDetails, RepairOutcome
from oncely.operate.repair_write import RepairWriter

_VALUES_UNKNOWN: Final = "the business rows no longer say what the job should do"


@dataclass(frozen=True)
class ManualResolution:
    """One manual resolution."""

    writer: RepairWriter

    def resolve_with_business_rows(
        self, row: Job, contract: AnyContract, message: Message
    ) -> RepairOutcome:
        """End the job and update its business rows in one transaction."""
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
        decision = self._decision(
            row, f"closed without business rows: {self.writer.request.reason}"
        )
        note = "resolved by the operator; business rows are not changed, fix them by hand"
        return self.writer.write(row, decision, RepairDetails(note=note))

    def _decision(self, row: Job, reason: str) -> Decision:
        request = self.writer.request
        return resolve_manually(row, request.repair, reason=reason, reference=request.reference)

    def _business_writes(
        self, row: Job, decision: Decision, contract: AnyContract, message: Message
    ) -> Callable[[Job], Sequence[BusinessWrite]] | str:
        """The business writes that follow, or why there can be none."""
        finishes = self.writer.request.repair is Repair.MARK_FINISHED
        precheck = contract.precheck(message)
        if (
            isinstance(precheck, AlreadyResolved)
            and isinstance(precheck.outcome, Succeeded)
            and finishes
        ):
            writes = precheck.writes
            return lambda _: writes  # the business rows already say so
        if isinstance(precheck, AlreadyResolved) and resolved_elsewhere(row, precheck.outcome):
            return lambda _: ()  # keep what another payment did
        moved_on = values_changed_since(row, precheck)
        facts = None if isinstance(precheck, Mismatch) or moved_on else precheck.facts
        if facts is not None:
            answer = Succeeded(self.writer.request.reason)
            return lambda after: contract.business_writes(decision.event, facts, after, answer)
        if finishes:
            reason = moved_on or _VALUES_UNKNOWN
            return f"{reason}: fix them, or undo it at the provider and mark it as failed"
        # An effect that was not done changes no business rows, whatever they say now.
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
