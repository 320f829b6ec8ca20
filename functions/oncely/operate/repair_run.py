"""What every repair needs: the job's contract, its business rows, the provider, and the writer."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

from oncely.contracts.contract import AnyContract
from oncely.contracts.message import Message
from oncely.core.ask_and_record import LookupResult, find_own_reference, lookup_effect
from oncely.core.effect_outcomes import (
    Anomalous,
    LookupFailed,
    LookupOutcome,
    LookupUnsupported,
    NotFound,
    Prepared,
)
from oncely.core.job_row import Decision, JobRow
from oncely.core.job_type import PrecheckResult
from oncely.core.repairs import Repair, note_reference, objection_to_failed
from oncely.core.table_guard import TableOpen, may_lack_reference
from oncely.operate.repair_request import (
    BusinessRowConflict,
    Contradicted,
    LookupAnswer,
    NotAllowed,
    ProviderUnavailable,
    RepairDetails,
    Repaired,
    RepairOutcome,
    RepairRequest,
)
from oncely.operate.repair_write import RepairWriter, lookup_answer

if TYPE_CHECKING:
    from oncely.app import App

# These rely on the reference: without one, the row says that nothing was prepared.
_NEEDS_REFERENCE: Final = frozenset(
    {Repair.REOPEN, Repair.MARK_FINISHED, Repair.MARK_FAILED, Repair.CANCEL}
)
# These trust a row without a reference, unless it may have been lost.
_BELIEVES_ROW: Final = frozenset({Repair.REOPEN, Repair.CANCEL})


@dataclass(frozen=True, kw_only=True)
class ProviderRun:
    """One repair that the life cycle allows, without what needs the message."""

    app: "App"
    request: RepairRequest
    contract: AnyContract
    table: TableOpen

    @property
    def writer(self) -> RepairWriter:
        return RepairWriter(self.app, self.request)

    @property
    def provider(self) -> str:
        return self.contract.policy.profile.name

    def as_ours(self, row: JobRow) -> JobRow:
        """The row as this deployment's: only its own effect ends a job, whatever the row says."""
        return replace(row, deployment=self.table.deployment)

    def answer(self, outcome: LookupOutcome) -> LookupAnswer:
        """What the provider answered, for the operator."""
        return lookup_answer(self.provider, outcome)

    def unavailable(self, outcome: LookupOutcome) -> ProviderUnavailable | None:
        """The failed lookup. Returns None if the provider answered."""
        if not isinstance(outcome, LookupFailed | LookupUnsupported):
            return None
        if isinstance(outcome, LookupFailed) and outcome.unknown_reference:
            return None  # it answered, and waiting does not help
        no_answer = LookupAnswer(self.provider, "no answer", self.answer(outcome).detail)
        return ProviderUnavailable(f"{no_answer}; nothing was changed: try again")

    def contradicted(self, claim: str, outcome: LookupOutcome, fix: str) -> Contradicted:
        """Both sides, and what to do."""
        named = self.request.reference
        said = claim if named is None else f"{claim}, as {named}"
        return Contradicted(said, self.answer(outcome), fix)


@dataclass(frozen=True, kw_only=True)
class RepairRun(ProviderRun):
    """One repair of a job whose message can be read."""

    message: Message

    @cached_property
    def precheck(self) -> PrecheckResult[Any]:
        """The business rows, read once: a write compares them again."""
        return self.contract.precheck(self.message)

    def at_provider(self, provider: str | None) -> Self:
        """Use the provider in the current business rows, if no worker has claimed the job."""
        contract = type(self.contract)(self.app.ports, provider)
        return replace(self, contract=contract)

    def recover_reference(self, row: JobRow) -> RepairOutcome | None:
        """Save the reference that a row lacks, before the repair relies on it."""
        repair = self.request.repair
        if repair not in _NEEDS_REFERENCE or row.provider_ref is not None:
            return None
        policy, replays_until = self.contract.policy, self.table.replays_until
        lacks_it = may_lack_reference(row, policy, replays_until, claims=row.fence)
        if repair in _BELIEVES_ROW and not lacks_it:
            return None
        looked_up_at = self.app.ports.clock.now()
        found = self.find_own_reference(row)
        if isinstance(found, NotFound) and lacks_it:
            fix = objection_to_failed(row, policy, found, looked_up_at=looked_up_at)
            return NotAllowed(f"{found.reason}; {fix}") if fix else None
        return (
            None if found is None or isinstance(found, NotFound) else self.after_search(row, found)
        )

    def look_up(self, row: JobRow) -> LookupResult:
        """Ask the provider, for a decision that the operator makes."""
        return lookup_effect(row, self.contract, self.message, self.table)

    def find_own_reference(self, row: JobRow) -> Prepared | LookupOutcome | None:
        """Search at the provider, by deployment and job key."""
        return find_own_reference(self.as_ours(row), self.contract, self.message)

    def after_search(self, row: JobRow, found: Prepared | LookupOutcome) -> RepairOutcome:
        """Save what a search found. The operator decides again, with the new row."""
        if not isinstance(found, Prepared):
            return self.unavailable(found) or NotAllowed(str(self.answer(found)))
        details = RepairDetails(
            note=f"{found.ref} was found and saved with the job: check it, then repair again"
        )
        reason = f"{found.ref} was found at the provider as this job's own; {self.request.reason}"
        saved = note_reference(
            reason,
            provider_ref=found.ref,
            deployment=self.table.deployment,
            provider=self.contract.provider,
        )
        return self.writer.write(row, saved, details)

    def write_and_send(
        self, row: JobRow, decision: Decision, details: RepairDetails
    ) -> RepairOutcome:
        """Write a decision after which a worker runs the job."""
        outcome = self.writer.write(row, decision, details)
        if self.request.dry_run or not isinstance(outcome, Repaired):
            return outcome
        # If this fails, the next sweep sends the message.
        sent = self.contract.send_message(outcome.after)
        return outcome if sent else with_send_failure(outcome)

    def check_lookup(
        self, lookup: LookupResult
    ) -> BusinessRowConflict | ProviderUnavailable | None:
        """Why nothing was looked up. Returns None if the provider answered."""
        outcome = lookup.outcome
        if lookup.facts is None and isinstance(outcome, Anomalous):
            return BusinessRowConflict(f"{outcome.reason}: fix the business rows first")
        return self.unavailable(outcome)


def with_send_failure(done: Repaired) -> Repaired:
    """The same repair, with a note that no worker can run the job now."""
    failed = "the queue rejected the message; the next sweep sends it"
    both = "; ".join(filter(None, (done.details.note, failed)))
    return replace(done, details=replace(done.details, note=both))
