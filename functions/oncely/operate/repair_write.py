"""Writes a repair over exactly the row that the operator saw, in the operator's name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, assert_never

from oncely.contracts.contract import AnyContract
from oncely.core.attempt import row_after, would_swap
from oncely.core.due import escalate_if_values_changed
from oncely.core.effect_outcomes import (
    Anomalous,
    BusinessWrite,
    Declined,
    LookupFailed,
    LookupOutcome,
    LookupUnsupported,
    NotFound,
    Pending,
    StillOpen,
    Succeeded,
)
from oncely.core.job_row import Decision, JobRow, operator_actor
from oncely.core.job_type import (
    AlreadyResolved,
    Mismatch,
    NotThereYet,
    PrecheckResult,
)
from oncely.core.keys import fingerprint
from oncely.core.repairs import (
    Repair,
    in_answer_to_request,
    resolve_manually,
    resolved_elsewhere,
)
from oncely.core.store import BusinessWriteConflict, Swapped, VersionConflict
from oncely.core.text import support_text
from oncely.operate.repair_request import (
    NO_DETAILS,
    BusinessRowConflict,
    LookupAnswer,
    RepairDetails,
    Repaired,
    RepairOutcome,
    RepairRequest,
    StaleVersion,
)

if TYPE_CHECKING:
    from oncely.app import App

_VALUES_UNKNOWN: Final = "the business rows no longer say what the job should do"


@dataclass(frozen=True)
class RepairWriter:
    """Writes for one request. Fails if the row changed since the operator saw it."""

    app: "App"
    request: RepairRequest

    @property
    def actor(self) -> str:
        return operator_actor(self.request.actor)

    def write(
        self,
        row: JobRow,
        decision: Decision,
        details: RepairDetails = NO_DETAILS,
        *,
        business_writes: Callable[[JobRow], Sequence[BusinessWrite]] = lambda _: (),
        contract: AnyContract | None = None,
    ) -> Repaired | StaleVersion | BusinessRowConflict:
        """Write a decision with its business rows. It voids an earlier request, or confirms it."""
        decision = in_answer_to_request(decision, self.request.message)
        ports, kept = self.app.ports, self.app.settings.row_retention
        after = row_after(
            decision, row, contract, now=ports.clock.now(), actor=self.actor, row_retention=kept
        )
        writes = business_writes(after)
        if self.request.dry_run:
            swapped = would_swap(after, writes, lambda table, key: ports.table(table).get(key))
        else:
            swapped = ports.job_store().swap(row, after, business_writes=writes)
        match swapped:
            case Swapped(job=job):
                return Repaired(row, job, details)
            case VersionConflict(row=newer):
                return StaleVersion(newer or row)
            case BusinessWriteConflict(reason=why):
                return BusinessRowConflict(why)
            case unreachable:
                assert_never(unreachable)


@dataclass(frozen=True)
class ManualResolution:
    """One manual resolution, with the provider's answer if it could be asked."""

    writer: RepairWriter
    confirmed: LookupOutcome | None = None

    def resolve_with_business_rows(
        self, row: JobRow, contract: AnyContract, precheck: PrecheckResult[Any]
    ) -> RepairOutcome:
        """End the job together with its business rows."""
        provider = contract.policy.profile.name
        answer = None if self.confirmed is None else lookup_answer(provider, self.confirmed)
        decision = self._decision(row, self.writer.request.reason, answer)
        local = self._business_writes(row, decision, contract, precheck)
        if isinstance(local, str):
            return BusinessRowConflict(local)
        note = "" if answer else f"{self._marked(contract)}; {provider} cannot be asked"
        return self.writer.write(
            row,
            decision,
            RepairDetails(lookup=answer, note=note),
            business_writes=local,
            contract=contract,
        )

    def resolve_job_only(
        self, row: JobRow, contract_type: type[AnyContract] | None
    ) -> RepairOutcome:
        """End a job whose message cannot be read, without its business rows."""
        reason = f"closed without business rows: {self.writer.request.reason}"
        answer = None
        if contract_type is not None and self.confirmed is not None:
            answer = lookup_answer(contract_type.policy_of(row).profile.name, self.confirmed)
        decision = self._decision(row, reason, answer)
        marked = "" if answer else f"{self._marked()}; "
        note = f"{marked}business rows are not changed, fix them by hand"
        return self.writer.write(row, decision, RepairDetails(lookup=answer, note=note))

    def _marked(self, contract: AnyContract | None = None) -> str:
        done = "done" if contract is None else contract.description.done_verb
        mark = done if self._finishes else "failed"
        return f"marked as {mark} by {self.writer.request.actor}"

    @property
    def _finishes(self) -> bool:
        return self.writer.request.repair is Repair.MARK_FINISHED

    def _decision(self, row: JobRow, reason: str, answer: LookupAnswer | None = None) -> Decision:
        request = self.writer.request
        return resolve_manually(
            row,
            request.repair,
            reason=reason,
            reference=request.reference,
            confirmed=self.confirmed,
            answer="" if answer is None else str(answer),
        )

    def _business_writes(
        self,
        row: JobRow,
        decision: Decision,
        contract: AnyContract,
        precheck: PrecheckResult[Any],
    ) -> Callable[[JobRow], Sequence[BusinessWrite]] | str:
        match precheck:
            case AlreadyResolved(outcome=Succeeded() as known, writes=writes) if self._finishes:
                # The business rows already say so, unless they have another effect.
                return self._second_effect(known) or (lambda _: writes)
            case AlreadyResolved(outcome=outcome) if resolved_elsewhere(row.result or {}, outcome):
                return lambda _: ()  # keep what another job or an operator did
        facts = _unchanged_facts(row, precheck)
        if facts is None:
            return lambda _: ()  # an effect that did not happen changes no business rows
        answer = self.confirmed
        if not isinstance(answer, Succeeded):
            answer = Succeeded(self.writer.request.reason)
        return lambda after: contract.business_writes(decision.event, facts, after, answer)

    def _second_effect(self, known: Succeeded) -> str | None:
        if not isinstance(self.confirmed, Succeeded | Anomalous):
            return None
        named = {name: value for name, value in known.result.items() if value}
        if not resolved_elsewhere(self.confirmed.result, Succeeded("", result=named)):
            return None
        return (
            f"{known.reason}, and the provider also reports: {self.confirmed.reason}. Undo this "
            "one there and mark the job as failed"
        )


def finish_obstacle(row: JobRow, precheck: PrecheckResult[Any]) -> str | None:
    """Why the business rows do not let the job finish. Returns None if they do."""
    if isinstance(precheck, AlreadyResolved) and isinstance(precheck.outcome, Succeeded):
        return None
    if _unchanged_facts(row, precheck) is not None:
        return None
    reason = values_changed_since(row, precheck) or _VALUES_UNKNOWN
    return f"{reason}: fix them, or undo it at the provider and mark it as failed"


def _unchanged_facts(row: JobRow, precheck: PrecheckResult[Any]) -> Any | None:  # noqa: ANN401  # the contract's own type
    if isinstance(precheck, Mismatch) or values_changed_since(row, precheck):
        return None
    return precheck.facts


def lookup_answer(provider: str, outcome: LookupOutcome) -> LookupAnswer:
    """What the provider answered, for the operator."""
    return LookupAnswer(provider, _short_label(outcome), support_text(outcome.reason))


def values_changed_since(row: JobRow, precheck: PrecheckResult[Any]) -> str | None:
    """How the business values changed since the claim. Returns None if they did not."""
    if isinstance(precheck, Mismatch):
        return precheck.reason
    if isinstance(precheck, NotThereYet):
        return f"it waits for {precheck.waits_for}"
    if isinstance(precheck, AlreadyResolved) and isinstance(precheck.outcome, Anomalous):
        return precheck.outcome.reason
    values = precheck.values
    decision = escalate_if_values_changed(row, None if values is None else fingerprint(values))
    return None if decision is None else decision.reason


def claim_obstacle(row: JobRow, precheck: PrecheckResult[Any]) -> str | None:
    """Why no worker could claim this job. Returns None if one could."""
    if isinstance(precheck, Mismatch):
        return precheck.reason
    if isinstance(precheck, NotThereYet):
        return f"it waits for {precheck.waits_for}"
    if precheck.facts is None:
        return _VALUES_UNKNOWN
    values = precheck.values
    decision = escalate_if_values_changed(row, None if values is None else fingerprint(values))
    return None if decision is None else decision.reason


def _short_label(outcome: LookupOutcome) -> str:
    """The answer of a lookup in two or three words."""
    match outcome:
        case Succeeded():
            return "succeeded"
        case Declined():
            return "declined"
        case StillOpen():
            return "declined, still open"
        case NotFound():
            return "not done"
        case Pending():
            return "in progress"
        case Anomalous(effect_done=done, undone=undone):
            return "succeeded, changed later" if done or undone else "does not match the job"
        case LookupFailed(unknown_reference=True):
            return "unknown reference"
        case LookupFailed() | LookupUnsupported():
            return "no response"
        case unreachable:
            assert_never(unreachable)
