"""Marking a job as done or failed. The provider is asked first, wherever it can be asked."""

from dataclasses import dataclass
from typing import Final

from oncely.core.ask_and_record import lookup_closed
from oncely.core.decide import close_then_fail, needs_closing
from oncely.core.effect_outcomes import (
    Anomalous,
    LookupOutcome,
    LookupUnsupported,
    NotFound,
    StillOpen,
)
from oncely.core.job_row import JobRow
from oncely.core.repairs import (
    Repair,
    objection_to_failed,
    objection_to_finished,
    objection_to_reference,
)
from oncely.operate.repair_request import (
    BusinessRowConflict,
    RepairDetails,
    RepairOutcome,
)
from oncely.operate.repair_run import ProviderRun, RepairRun
from oncely.operate.repair_write import ManualResolution, claim_obstacle, finish_obstacle

_NOT_OURS: Final = (
    "the row's reference is not this job's, and without its message nothing says where to search "
    "for its own. If another version can read the message, deploy that one"
)


@dataclass(frozen=True, kw_only=True)
class MarkingRun(RepairRun):
    """The repairs that record an operator's decision."""

    def mark_finished(self, row: JobRow) -> RepairOutcome:
        """Finish the job if the provider confirms it, or cannot be asked."""
        if why := finish_obstacle(row, self.precheck):
            return BusinessRowConflict(why)
        if (outcome := self._ask(row)) is None:
            return self._resolve_as_said(row, None)
        fix = objection_to_finished(
            outcome,
            reference=self.request.reference,
            references=self.contract.references(outcome),
        )
        if fix is None:
            return self._resolve_as_said(row, outcome)
        return self.unavailable(outcome) or self.contradicted("that it is done", outcome, fix)

    def mark_failed(self, row: JobRow) -> RepairOutcome:
        """Fail the job if the provider did not do it, or cannot be asked."""
        policy = self.contract.policy
        if policy.leaves_open:
            return self._fail_if_closed(row)
        looked_up_at = self.app.ports.clock.now()
        if (outcome := self._ask(row)) is None:
            return self._resolve_as_said(row, None)
        if refusal := self.unavailable(outcome):
            return refusal
        fix = objection_to_failed(row, policy, outcome, looked_up_at=looked_up_at)
        return self._fail_unless(fix, row, outcome)

    def _ask(self, row: JobRow) -> LookupOutcome | None:
        """Look up the effect. Returns None if the provider cannot be asked about it."""
        if not self.contract.policy.can_look_up:
            return None
        lookup = self.look_up(self.as_ours(row))
        without_facts = lookup.facts is None and isinstance(lookup.outcome, Anomalous)
        # Without the business rows, it is not known what to look up.
        unasked = without_facts or isinstance(lookup.outcome, LookupUnsupported)
        return None if unasked else lookup.outcome

    def _fail_if_closed(self, row: JobRow) -> RepairOutcome:
        """Fail the job only if nothing is open at the provider; otherwise close that first."""
        looked_up_at = self.app.ports.clock.now()
        answer = lookup_closed(self.as_ours(row), self.contract)
        if refusal := self.unavailable(answer):
            return refusal
        if isinstance(answer, NotFound):
            return self._search_own(row, answer)
        if isinstance(answer, StillOpen):
            return self._close_first(row, answer)
        fix = objection_to_failed(row, self.contract.policy, answer, looked_up_at=looked_up_at)
        return self._fail_unless(fix, row, answer)

    def _search_own(self, row: JobRow, foreign: NotFound) -> RepairOutcome:
        """The row's reference is not this job's. Its own effect may still exist: search for it."""
        match self.find_own_reference(row):
            case None:
                return BusinessRowConflict(
                    f"{foreign.reason}, and the business rows do not say where to search for this "
                    "job's own: fix them first"
                )
            case NotFound() as absent:
                absent = NotFound(f"{foreign.reason}; {absent.reason}", conclusive=True)
                fix = objection_to_reference(self.request.reference, frozenset())
                return self._fail_unless(fix, row, absent)
            case found:
                return self.after_search(row, found)

    def _close_first(self, row: JobRow, outcome: StillOpen) -> RepairOutcome:
        """Have a worker close it, because repairs only read. The worker needs the business rows."""
        if why := claim_obstacle(row, self.precheck):
            return BusinessRowConflict(
                f"{outcome.reason}, and no worker can close it: {why}. Fix the business rows, or "
                f"cancel it at {self.provider}. Then mark it as failed"
            )
        if fix := self._reference_objection(row, outcome):
            return self.contradicted("that it is not done", outcome, fix)
        decision = close_then_fail(
            row,
            reason=self.request.reason,
            reference=self.request.reference,
            now=self.app.ports.clock.now(),
        )
        details = RepairDetails(lookup=self.answer(outcome), note="a worker closes it first")
        return self.write_and_send(row, decision, details)

    def _fail_unless(self, fix: str | None, row: JobRow, outcome: LookupOutcome) -> RepairOutcome:
        if fix := fix or self._reference_objection(row, outcome):
            return self.contradicted("that it is not done", outcome, fix)
        return self._resolve_as_said(row, outcome)

    def _reference_objection(self, row: JobRow, outcome: LookupOutcome) -> str | None:
        own = frozenset(() if row.provider_ref is None else (row.provider_ref,))
        known = own | self.contract.references(outcome)
        return objection_to_reference(self.request.reference, known)

    def _resolve_as_said(self, row: JobRow, confirmed: LookupOutcome | None) -> RepairOutcome:
        resolution = ManualResolution(self.writer, confirmed)
        return resolution.resolve_with_business_rows(row, self.contract, self.precheck)


@dataclass(frozen=True, kw_only=True)
class UnreadableRun(ProviderRun):
    """The same for a job whose message cannot be read: it is looked up by its reference."""

    def mark(self, row: JobRow) -> RepairOutcome:
        """End the job without its business rows, if the provider does not contradict."""
        policy = self.contract.policy
        if not needs_closing(row, policy):
            return self._resolve(row, None)
        looked_up_at = self.app.ports.clock.now()
        outcome = lookup_closed(self.as_ours(row), self.contract)
        if refusal := self.unavailable(outcome):
            return refusal
        finishes = self.request.repair is Repair.MARK_FINISHED
        named, known = self.request.reference, self.contract.references(outcome)
        if isinstance(outcome, NotFound):
            fix: str | None = _NOT_OURS
        elif finishes:
            fix = objection_to_finished(outcome, reference=named, references=known)
        elif isinstance(outcome, StillOpen):
            fix = f"cancel it at {self.provider} first"
        else:
            fix = objection_to_failed(row, policy, outcome, looked_up_at=looked_up_at)
            fix = fix or objection_to_reference(named, known | {str(row.provider_ref)})
        if fix is None:
            return self._resolve(row, outcome)
        return self.contradicted(f"that it is {'' if finishes else 'not '}done", outcome, fix)

    def _resolve(self, row: JobRow, confirmed: LookupOutcome | None) -> RepairOutcome:
        return ManualResolution(self.writer, confirmed).resolve_job_only(row, type(self.contract))
