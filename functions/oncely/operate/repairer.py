"""Repairs by operators: conditional on the version they saw, with their name in the evidence."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self, assert_never

from oncely.contracts.job import AnyJob
from oncely.core.ask_and_record import (
    LookupResult,
    Question,
    find_own_reference,
    lookup_closed,
    lookup_effect,
)
from oncely.core.attempt import row_after, would_swap
from oncely.core.decide import close_then_fail, needs_closing, reschedule
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
    Prepared,
    StillOpen,
    Succeeded,
)
from oncely.core.errors import InvalidInputError
from oncely.core.job_row import Decision, JobRow, operator_actor
from oncely.core.job_type import (
    AlreadyResolved,
    Mismatch,
    NotThereYet,
    PrecheckResult,
    Proceed,
)
from oncely.core.keys import fingerprint, is_job_key, job_type_of
from oncely.core.lifecycle import Event
from oncely.core.profiles import EndpointGroup, RetrySafety
from oncely.core.repairs import (
    Repair,
    RepairOption,
    can_reopen_without_lookup,
    cancel,
    cancelled_job,
    close_then_cancel,
    in_answer_to_request,
    note,
    note_reference,
    note_resubmission,
    objection_to_failed,
    objection_to_finished,
    objection_to_reference,
    operator_resend,
    reopen,
    repair_option,
    resolve_manually,
    resolved_elsewhere,
    unreadable_job_option,
)
from oncely.core.schedule import later_run_at
from oncely.core.store import (
    AlreadyExists,
    BusinessWriteConflict,
    Created,
    ForgedRow,
    Swapped,
    VersionConflict,
)
from oncely.core.surroundings import Hold
from oncely.core.table_guard import (
    TableBlocked,
    TableOpen,
    may_have_lost_history,
    may_lack_reference,
)
from oncely.core.text import MAX_REASON_LENGTH, format_minute, support_text
from oncely.operate.job_view import contract_for, lookup_summary
from oncely.operate.repair_request import (
    NO_DETAILS,
    NO_VERSION,
    BusinessRowConflict,
    Contradicted,
    JobNotFound,
    LookupAnswer,
    NotAllowed,
    ProviderUnavailable,
    RepairDetails,
    Repaired,
    RepairOutcome,
    RepairRequest,
    RepairRequested,
    StaleVersion,
)
from oncely.operate.second_operator import (
    REQUEST_VALIDITY,
    PendingRepair,
    needs_second_operator,
    request_second_operator,
)

if TYPE_CHECKING:
    from oncely.app import App

_VALUES_UNKNOWN: Final = "the business rows no longer say what the job should do"
# These rely on the reference: without one, the row says that nothing was prepared.
_NEEDS_REFERENCE: Final = frozenset(
    {Repair.REOPEN, Repair.MARK_FINISHED, Repair.MARK_FAILED, Repair.CANCEL}
)
# These trust a row without a reference, unless it may have been lost.
_BELIEVES_ROW: Final = frozenset({Repair.REOPEN, Repair.CANCEL})
_NOT_OURS: Final = (
    "the row's reference is not this job's, and without its message nothing says where to search "
    "for its own. If another version can read the message, deploy that one"
)


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
        contract: AnyJob | None = None,
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

    def resolve_job_only(
        self,
        row: JobRow,
        contract_type: type[AnyJob] | None,
        confirmed: LookupOutcome | None = None,
    ) -> RepairOutcome:
        """End a job whose message cannot be read, without its business rows."""
        reason = f"closed without business rows: {self.request.reason}"
        answer = None
        if contract_type is not None and confirmed is not None:
            answer = lookup_answer(contract_type.policy_of(row).profile.name, confirmed)
        decision = self.decide_manually(row, reason, confirmed, answer)
        marked = "" if answer else f"{self.marked('done')}; "
        note = f"{marked}business rows are not changed, fix them by hand"
        return self.write(row, decision, RepairDetails(lookup=answer, note=note))

    def decide_manually(
        self,
        row: JobRow,
        reason: str,
        confirmed: LookupOutcome | None,
        answer: LookupAnswer | None,
    ) -> Decision:
        """End the job as the operator says, with what the provider answered."""
        return resolve_manually(
            row,
            self.request.repair,
            reason=reason,
            reference=self.request.reference,
            confirmed=confirmed,
            answer="" if answer is None else str(answer),
        )

    def marked(self, done_verb: str) -> str:
        """How the job is marked, and by whom."""
        mark = done_verb if self.request.repair is Repair.MARK_FINISHED else "failed"
        return f"marked as {mark} by {self.request.actor}"


def _second_effect(known: Succeeded, confirmed: LookupOutcome | None) -> str | None:
    if not isinstance(confirmed, Succeeded | Anomalous):
        return None
    named = {name: value for name, value in known.result.items() if value}
    if not resolved_elsewhere(confirmed.result, Succeeded("", result=named)):
        return None
    return (
        f"{known.reason}, and the provider also reports: {confirmed.reason}. Undo this one there "
        "and mark the job as failed"
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


@dataclass(frozen=True, kw_only=True)
class ProviderRun:
    """One repair that the life cycle allows, without what needs the message."""

    app: "App"
    request: RepairRequest
    contract: AnyJob
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

    def mark_unreadable(self, row: JobRow) -> RepairOutcome:
        """End a job whose message cannot be read, if the provider does not contradict.

        It is looked up by its reference, and its business rows do not change.
        """
        policy = self.contract.policy
        if not needs_closing(row, policy):
            return self.writer.resolve_job_only(row, type(self.contract))
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
            return self.writer.resolve_job_only(row, type(self.contract), outcome)
        return self.contradicted(f"that it is {'' if finishes else 'not '}done", outcome, fix)


@dataclass(frozen=True, kw_only=True)
class RepairRun(ProviderRun):
    """One repair of a job whose message can be read."""

    @cached_property
    def precheck(self) -> PrecheckResult[Any]:
        """The business rows, read once: a write compares them again."""
        return self.contract.precheck()

    def at_provider(self, provider: str | None) -> Self:
        """Use the provider in the current business rows, if no worker has claimed the job."""
        return replace(self, contract=self.contract.with_provider(provider))

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
        return lookup_effect(row, self.contract, self.table)

    def find_own_reference(self, row: JobRow) -> Prepared | LookupOutcome | None:
        """Search at the provider, by deployment and job key."""
        return find_own_reference(self.as_ours(row), self.contract)

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
            provider=self.contract.provider_name,
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
        """End the job together with its business rows."""
        answer = None if confirmed is None else self.answer(confirmed)
        decision = self.writer.decide_manually(row, self.request.reason, confirmed, answer)
        local = self._marking_writes(row, decision, confirmed)
        if isinstance(local, str):
            return BusinessRowConflict(local)
        marked = self.writer.marked(self.contract.done_verb)
        note = "" if answer else f"{marked}; {self.provider} cannot be asked"
        return self.writer.write(
            row,
            decision,
            RepairDetails(lookup=answer, note=note),
            business_writes=local,
            contract=self.contract,
        )

    def _marking_writes(
        self, row: JobRow, decision: Decision, confirmed: LookupOutcome | None
    ) -> Callable[[JobRow], Sequence[BusinessWrite]] | str:
        finishes = self.request.repair is Repair.MARK_FINISHED
        match self.precheck:
            case AlreadyResolved(outcome=Succeeded() as known, writes=writes) if finishes:
                # The business rows already say so, unless they have another effect.
                return _second_effect(known, confirmed) or (lambda _: writes)
            case AlreadyResolved(outcome=outcome) if resolved_elsewhere(row.result or {}, outcome):
                return lambda _: ()  # keep what another job or an operator did
        facts = _unchanged_facts(row, self.precheck)
        if facts is None:
            return lambda _: ()  # an effect that did not happen changes no business rows
        said = confirmed if isinstance(confirmed, Succeeded) else Succeeded(self.request.reason)
        return lambda after: self.contract.business_writes(decision.event, facts, after, said)

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
            business_writes=self._cancel_writes,
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

    def _cancel_writes(self, after: JobRow) -> tuple[BusinessWrite, ...]:
        precheck = self.precheck
        if not isinstance(precheck, Proceed | AlreadyResolved) or precheck.facts is None:
            return ()  # the business rows request nothing
        return self.contract.business_writes(
            Event.CANCEL, precheck.facts, after, LookupUnsupported()
        )

    def prechecks(self) -> Iterator[PrecheckResult[Any]]:
        """What the job would do now, and what its resubmission would."""
        yield self.precheck
        another = self.contract.resubmission()
        if self.request.repair is Repair.RESUBMIT and another is not None:
            yield another.with_tools(self.app.ports, self.contract.provider_name).precheck()

    def apply(self, row: JobRow) -> RepairOutcome:  # noqa: C901  # one case for each
        match self.request.repair:
            case Repair.LOOK_UP if row.unresolved:
                return self._resolve(row)
            case Repair.LOOK_UP:
                return self._look_up(row)
            case Repair.REOPEN:
                return self._reopen(row)
            case Repair.MARK_FINISHED:
                return self.mark_finished(row)
            case Repair.MARK_FAILED:
                return self.mark_failed(row)
            case Repair.RESEND:
                return self._resend(row)
            case Repair.RUN_NOW:
                return self._run_now(row)
            case Repair.RESCHEDULE:
                return self._reschedule(row)
            case Repair.RESUBMIT:
                return self._resubmit(row)
            case Repair.CANCEL:
                return self.cancel(row)
            case unreachable:
                assert_never(unreachable)

    def _resolve(self, row: JobRow) -> RepairOutcome:
        # Before the note: if the provider may not be asked now, nothing is written.
        if hold := self.app.reconciler.gate.enter(self.contract, EndpointGroup.LOOKUPS):
            return _not_asked(hold)
        noted = self.writer.write(row, note(f"looked up: {self.request.reason}"))
        if not isinstance(noted, Repaired):
            return noted
        reconciler = replace(self.app.reconciler, actor=self.writer.actor, has_slot=True)
        done = reconciler.resolve_row(
            noted.after, self.table, on_demand=True, dry_run=self.request.dry_run
        )
        if done.job is None:
            return StaleVersion(self.app.ports.job_store().get(row.job_key) or row)
        if done.lookup_failed:
            no_answer = LookupAnswer(self.provider, "no answer", support_text(done.reason))
            return ProviderUnavailable(str(no_answer))
        summary = lookup_summary(done.job)
        answer = LookupAnswer(self.provider, summary, support_text(done.reason))
        return Repaired(row, done.job, RepairDetails(lookup=answer))

    def _look_up(self, row: JobRow) -> RepairOutcome:
        """Look up a job that ended or needs review. A refund's ledger follows a later failure."""
        question = Question(
            contract=self.contract,
            table=self.table,
            note=f"looked up: {self.request.reason}",
        )
        reconciler = replace(self.app.reconciler, actor=self.writer.actor)
        inquirer = reconciler.inquirer(dry_run=self.request.dry_run)
        asked = inquirer.ask_and_record(row, question)
        if isinstance(asked, Hold):
            return _not_asked(asked)
        if asked.lookup is not None and (refusal := self.check_lookup(asked.lookup)):
            return refusal
        if asked.lookup is None or asked.result.job is None:
            return StaleVersion(self.app.ports.job_store().get(row.job_key) or row)
        details = RepairDetails(lookup=self.answer(asked.lookup.outcome))
        return Repaired(row, asked.result.job, details)

    def _reopen(self, row: JobRow) -> RepairOutcome:
        looked_up_at = self.app.ports.clock.now()
        lookup: LookupResult | None = None
        if not can_reopen_without_lookup(row, self.contract.policy):
            if why := values_changed_since(row, self.precheck):
                return BusinessRowConflict(why)
            lookup = self.look_up(row)
            if refusal := self.check_lookup(lookup):
                return refusal
        answer = None if lookup is None else lookup.outcome
        decision = reopen(
            row,
            self.contract.policy,
            reason=self.request.reason,
            lookup=answer,
            looked_up_at=looked_up_at,
        )
        if isinstance(decision, str):
            return NotAllowed(decision)
        details = RepairDetails(note="no lookup needed: the row proves that nothing was sent")
        if answer is not None:
            details = RepairDetails(lookup=self.answer(answer))
        return self.write_and_send(row, decision, details)

    def _resend(self, row: JobRow) -> RepairOutcome:
        now = self.app.ports.clock.now()
        decision = operator_resend(row, self.contract.policy, reason=self.request.reason, now=now)
        return self.write_and_send(row, decision, RepairDetails(note="message resent"))

    def _run_now(self, row: JobRow) -> RepairOutcome:
        now = self.app.ports.clock.now()
        decision = reschedule(row, now, reason=self.request.reason, now=now)
        return self.write_and_send(row, decision, RepairDetails(note="message sent"))

    def _reschedule(self, row: JobRow) -> RepairOutcome:
        now, limit = self.app.ports.clock.now(), self.contract.effective_schedule_limit()
        try:
            run_at = later_run_at(
                self.request.run_at, job_type=row.job_type, schedule_limit=limit, now=now
            )
        except InvalidInputError as error:
            return NotAllowed(str(error))
        if run_at is None:
            return NotAllowed(f"that time has passed: use {Repair.RUN_NOW}")
        decision = reschedule(row, run_at, reason=self.request.reason, now=now)
        note = f"it runs at {format_minute(run_at)}"
        return self.writer.write(row, decision, RepairDetails(note=note))

    def _resubmit(self, row: JobRow) -> RepairOutcome:
        """Send a new job, which runs only while this one stays failed."""
        another = self.contract.resubmission()
        if another is None:
            return NotAllowed("this job type cannot be resubmitted: send a new message")
        key = another.job_key()
        if (there := self.app.ports.job_store().get(key)) is not None:
            return NotAllowed(f"it was already resubmitted: {key} is {there.status}")
        now = self.app.ports.clock.now()
        limit = self.app.settings.resubmission_limit
        if self.contract.limits_resubmissions and (why := limit.refusal(row.resubmissions, now)):
            return NotAllowed(why)
        decision = note_resubmission(
            row, self.contract.policy, new_key=key, reason=self.request.reason, now=now
        )
        written = self.writer.write(row, decision, RepairDetails(note=f"{key} is sent"))
        if self.request.dry_run or not isinstance(written, Repaired):
            return written
        # The note expires with its row, so the new job also stores who decided.
        made = self.app.enqueuer.enqueue(
            another.to_dict(),
            actor=self.writer.actor,
            reason=f"after {row.job_key}: {self.request.reason}",
        )
        return with_send_failure(written) if made.created and not made.sent else written


def with_send_failure(done: Repaired) -> Repaired:
    """The same repair, with a note that no worker can run the job now."""
    failed = "the queue rejected the message; the next sweep sends it"
    both = "; ".join(filter(None, (done.details.note, failed)))
    return replace(done, details=replace(done.details, note=both))


def cancel_absent(
    request: RepairRequest, contract_type: type[AnyJob], *, app: "App", table: TableOpen
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


@dataclass(frozen=True)
class Repairer:
    """Applies a repair if the job has not changed and the life cycle allows it."""

    app: "App"

    def repair(self, request: RepairRequest) -> RepairOutcome:
        """Apply one repair. A dry run is the same repair, which writes and sends nothing."""
        table = self.app.ports.table_guard.check()
        if isinstance(table, TableBlocked):
            return NotAllowed(table.reason)
        row = self.app.ports.job_store().get(request.key)
        if row is None:
            return self._cancel_absent(request, table)
        if row.version != request.version:
            return StaleVersion(row)
        runs = row if request.message is None else replace(row, message=request.message)
        try:
            contract = self.app.registry.parse_row(runs)
        except InvalidInputError:
            return self._repair_unreadable(row, request, table)
        option = repair_option(
            row,
            contract.policy_of(row),
            request.repair,
            schedule_limit=contract.effective_schedule_limit(),
            now=self.app.ports.clock.now(),
            can_resubmit=contract.resubmission() is not None,
        )
        if refusal := _check_allowed(option, request):
            return refusal
        run = RepairRun(
            app=self.app,
            request=request,
            contract=contract.with_tools(self.app.ports, row.provider),
            table=table,
        )
        if contract.chooses_provider() and row.provider is None:
            run = run.at_provider(getattr(run.precheck, "provider", None))
        if found := run.recover_reference(row):
            return found
        if not needs_second_operator(
            self.app,
            request.repair,
            contract_type=type(contract),
            row=row,
            prechecks=run.prechecks,
        ):
            return run.apply(row)
        return self._with_second_operator(
            row, request, lambda confirmed: replace(run, request=confirmed).apply(row)
        )

    def _cancel_absent(self, request: RepairRequest, table: TableOpen) -> RepairOutcome:
        cancels = request.repair is Repair.CANCEL and request.version == NO_VERSION
        if not cancels or not is_job_key(request.key):
            return JobNotFound()
        try:
            contract_type = self.app.registry.contract(job_type_of(request.key))
        except InvalidInputError:
            return JobNotFound()
        if needs_second_operator(self.app, request.repair, contract_type=contract_type):
            return NotAllowed(
                "a second operator must confirm it, and there is no row to hold the request: "
                "cancel it when its message has arrived"
            )
        return cancel_absent(request, contract_type, app=self.app, table=table)

    def _repair_unreadable(
        self, row: JobRow, request: RepairRequest, table: TableOpen
    ) -> RepairOutcome:
        # This deployment cannot read the message, so the operator can only end the job.
        contract_type = contract_for(row, self.app.registry)
        option = unreadable_job_option(
            row, None if contract_type is None else contract_type.policy_of(row), request.repair
        )
        if refusal := _check_allowed(option, request):
            return refusal

        def apply(confirmed: RepairRequest) -> RepairOutcome:
            if contract_type is None:
                return RepairWriter(self.app, confirmed).resolve_job_only(row, None)
            contract = contract_type.without_message(self.app.ports, row.provider)
            return ProviderRun(
                app=self.app, request=confirmed, contract=contract, table=table
            ).mark_unreadable(row)

        # What it would have done is not known, whatever its type.
        if not needs_second_operator(self.app, request.repair, contract_type=None, row=row):
            return apply(request)
        return self._with_second_operator(row, request, apply)

    def _with_second_operator(
        self,
        row: JobRow,
        request: RepairRequest,
        apply: Callable[[RepairRequest], RepairOutcome],
    ) -> RepairOutcome:
        """Apply a repair that another operator requested, or record it as a request."""
        now = self.app.ports.clock.now()
        if pending := PendingRepair.from_row(row, now):
            objection = pending.objection_to(
                request.repair,
                request.target,
                request.identity,
                same_message=request.message is None,
            )
            if objection:
                return NotAllowed(objection)
            reason = f"as {pending.operator} requested: {request.reason}"
            return apply(replace(request, reason=reason[:MAX_REASON_LENGTH]))
        # A request that would be refused is not recorded.
        outcome = apply(replace(request, dry_run=True))
        if not isinstance(outcome, Repaired):
            return outcome
        wanted = PendingRepair(
            repair=request.repair,
            reference=request.target,
            operator=request.actor,
            identity=request.identity,
            until=now + REQUEST_VALIDITY,
        )
        lookup = outcome.details.lookup
        text = f"recorded as a request: {wanted}. Another operator confirms it by the same repair"
        written = RepairWriter(self.app, request).write(
            row,
            request_second_operator(row, wanted, reason=request.reason),
            RepairDetails(lookup=lookup, note=text, needs_second_operator=True),
        )
        if not isinstance(written, Repaired):
            return written
        return RepairRequested(row, written.after, written.details)


def _check_allowed(option: RepairOption, request: RepairRequest) -> NotAllowed | None:
    if not option.allowed:
        return NotAllowed(option.reason)
    if option.needs_reference and request.reference is None:
        return NotAllowed("a provider reference is required: copy it from the provider")
    if option.needs_time and request.run_at is None:
        return NotAllowed("a time is required, such as 2026-12-07T09:00:00Z")
    return None


def _not_asked(hold: Hold) -> ProviderUnavailable:
    return ProviderUnavailable(f"{hold.reason}; nothing was changed: try again")


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
