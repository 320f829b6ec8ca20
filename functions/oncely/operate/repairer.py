"""Repairs by operators: conditional on the version they saw, with their name in the evidence."""

from dataclasses import dataclass, replace
from typing import Final, assert_never

from oncely.contract import AnyContract, Message, encode_message
from oncely.domain.decisions import restore_reference
from oncely.domain.effect_outcomes import (
    Ambiguous,
    Anomalous,
    Declined,
    InProgress,
    LeaseExpired,
    LookupFailed,
    LookupUnsupported,
    NotFound,
    NotSent,
    Pending,
    Prepared,
    StillOpen,
    Succeeded,
    short_label,
)
from oncely.domain.errors import InvalidInputError
from oncely.domain.jobs import Decision, Job
from oncely.domain.repairs import (
    Repair,
    RepairOption,
    can_reopen_without_lookup,
    close_then_fail,
    lookup_summary,
    needs_closing,
    note,
    note_resubmission,
    operator_resend,
    reopen,
    repair_option,
    unreadable_job_option,
)
from oncely.domain.text import mask_emails
from oncely.enqueue.enqueuer import Enqueuer
from oncely.operate.job_view import contract_for
from oncely.operate.repair_request import (
    BusinessRowConflict,
    JobNotFound,
    LookupAnswer,
    NotAllowed,
    ProviderUnavailable,
    RepairDetails,
    Repaired,
    RepairOutcome,
    RepairRequest,
    StaleVersion,
    WouldRepair,
)
from oncely.operate.repair_write import (
    ManualResolution,
    RepairWriter,
    claim_obstacle,
    values_changed_since,
)
from oncely.ports import TableBlocked, TableOpen
from oncely.reconcile.lookup_effect import (
    LookupResult,
    find_lost_reference,
    lookup_closed,
    lookup_effect,
)
from oncely.reconcile.reconciler import Reconciler


@dataclass(frozen=True, kw_only=True)
class Repairer:
    """Applies a repair if the job has not changed and the life cycle allows it."""

    reconciler: Reconciler
    enqueuer: Enqueuer

    def repair(self, request: RepairRequest) -> RepairOutcome:
        """Apply one repair. A dry run looks up the outcome as well, but writes nothing."""
        table = self.reconciler.guard.check()
        if isinstance(table, TableBlocked):
            return NotAllowed(table.reason)
        row = self.reconciler.store.get(request.key)
        if row is None:
            return JobNotFound()
        if row.version != request.version:
            return StaleVersion(row)
        try:
            contract_type, message = self.reconciler.registry.parse_mapping(row.message)
        except InvalidInputError:
            return self._repair_unreadable(row, request)
        option = repair_option(
            row,
            contract_type.policy,
            request.repair,
            now=self.reconciler.clock.now(),
            can_resubmit=contract_type.resubmission(message) is not None,
        )
        if refusal := _check_allowed(option, request):
            return refusal
        return _RepairRun(
            self, request, contract_type(self.reconciler.dependencies), message, table
        ).apply(row)

    def _repair_unreadable(self, row: Job, request: RepairRequest) -> RepairOutcome:
        # This deployment cannot read the message, so the operator can only end the job.
        contract_type = contract_for(row, self.reconciler.registry)
        option = unreadable_job_option(
            row, None if contract_type is None else contract_type.policy, request.repair
        )
        return _check_allowed(option, request) or ManualResolution(
            RepairWriter(self.reconciler, request)
        ).resolve_job_only(row)


# Both claim that nothing was charged. A row without a reference does not prove that alone.
_NEEDS_REFERENCE: Final = frozenset({Repair.REOPEN, Repair.MARK_FAILED})


def _check_allowed(option: RepairOption, request: RepairRequest) -> NotAllowed | None:
    if not option.allowed:
        return NotAllowed(option.reason)
    if option.needs_reference and request.reference is None and not request.dry_run:
        return NotAllowed("a provider reference is required: copy it from the provider")
    return None


@dataclass(frozen=True)
class _RepairRun:
    """One repair that passed its checks."""

    repairer: Repairer
    request: RepairRequest
    contract: AnyContract
    message: Message
    table: TableOpen

    def apply(self, row: Job) -> RepairOutcome:
        if self.request.repair in _NEEDS_REFERENCE and (outcome := self._recover_reference(row)):
            return outcome
        match self.request.repair:
            case Repair.LOOK_UP if row.unresolved:
                return self._resolve(row)
            case Repair.LOOK_UP:
                return self._note_lookup(row)
            case Repair.REOPEN:
                return self._reopen(row)
            case Repair.MARK_FAILED if needs_closing(row, self.contract.policy):
                return self._fail_if_closed(row)
            case Repair.MARK_FINISHED | Repair.MARK_FAILED:
                return ManualResolution(self._writer).resolve_with_business_rows(
                    row, self.contract, self.message
                )
            case Repair.RESEND:
                return self._resend(row)
            case Repair.RESUBMIT:
                return self._resubmit(row)
            case unreachable:
                assert_never(unreachable)

    def _recover_reference(self, row: Job) -> RepairOutcome | None:
        """Save the reference that a restored row may lack, before the repair relies on it."""
        match find_lost_reference(row, self.contract, self.message, self.table):
            case None | NotFound():
                return None
            case Prepared(ref=ref):
                saved = note(f"{restore_reference(ref).reason}; {self.request.reason}")
                named = {"provider_ref": ref, "deployment": row.deployment or self.table.deployment}
                details = RepairDetails(
                    note=f"{ref} was found and saved with the job: check it, then repair again"
                )
                return self._writer.write(row, replace(saved, changes=named), details)
            case LookupFailed(reason=reason):
                return ProviderUnavailable(str(self._lookup_answer("no answer", reason)))
            case answer:
                return NotAllowed(str(self._lookup_answer(short_label(answer), answer.reason)))

    def _resolve(self, row: Job) -> RepairOutcome:
        noted = self._writer.write(row, note(f"looked up: {self.request.reason}"))
        if isinstance(noted, StaleVersion):
            return noted
        reconciler = replace(self.repairer.reconciler, actor=self._writer.actor)
        done = reconciler.resolve(row.job_key, on_demand=True, dry_run=self.request.dry_run)
        if done.job is None:
            return StaleVersion(reconciler.store.get(row.job_key) or row)
        if done.lookup_failed:
            return ProviderUnavailable(str(self._lookup_answer("no answer", done.reason)))
        answer = self._lookup_answer(lookup_summary(done.job), done.reason)
        return self._to_outcome(row, done.job, answer)

    def _note_lookup(self, row: Job) -> RepairOutcome:
        lookup = lookup_effect(row, self.contract, self.message, self.table)
        if refusal := self._check_lookup(lookup):
            return refusal
        answer = self._lookup_answer(short_label(lookup.outcome), lookup.outcome.reason)
        return self._writer.write(
            row, note(f"looked up: {self.request.reason}; {answer}"), RepairDetails(lookup=answer)
        )

    def _reopen(self, row: Job) -> RepairOutcome:
        looked_up_at = self.repairer.reconciler.clock.now()
        lookup: LookupResult | None = None
        if not can_reopen_without_lookup(row, self.contract.policy):
            if why := values_changed_since(row, self.contract.precheck(self.message)):
                return BusinessRowConflict(why)
            lookup = lookup_effect(row, self.contract, self.message, self.table)
            if refusal := self._check_lookup(lookup):
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
            details = RepairDetails(lookup=self._lookup_answer(short_label(answer), answer.reason))
        return self._write_and_send(row, decision, details)

    def _fail_if_closed(self, row: Job) -> RepairOutcome:
        """Fail the job only if nothing is open at the provider; otherwise close that first."""
        match answer := lookup_closed(row, self.contract):
            case Declined():
                return ManualResolution(self._writer).resolve_with_business_rows(
                    row, self.contract, self.message
                )
            case StillOpen():
                return self._close_first(row, answer)
            case LookupFailed() | LookupUnsupported():
                return ProviderUnavailable(str(self._lookup_answer("no answer", answer.reason)))
            case (
                Succeeded()
                | NotSent()
                | Ambiguous()
                | InProgress()
                | Pending()
                | Anomalous()
                | LeaseExpired()
                | NotFound()
            ):
                return NotAllowed(
                    f"{self._lookup_answer(short_label(answer), answer.reason)}; "
                    "a job fails only if nothing was charged, or all of it was refunded"
                )
            case unreachable:
                assert_never(unreachable)

    def _close_first(self, row: Job, outcome: StillOpen) -> RepairOutcome:
        """Let a worker close it: repairs only read. The worker needs the business rows for that."""
        if why := claim_obstacle(row, self.contract.precheck(self.message)):
            provider = self.contract.policy.profile.name
            return BusinessRowConflict(
                f"{outcome.reason}, and no worker can close it: {why}. Fix the business rows, or "
                f"cancel it at {provider}. Then mark it as failed"
            )
        decision = close_then_fail(
            row,
            reason=self.request.reason,
            reference=self.request.reference,
            now=self.repairer.reconciler.clock.now(),
        )
        details = RepairDetails(
            lookup=self._lookup_answer(short_label(outcome), outcome.reason),
            note="a worker closes it first",
        )
        return self._write_and_send(row, decision, details)

    def _resend(self, row: Job) -> RepairOutcome:
        now = self.repairer.reconciler.clock.now()
        decision = operator_resend(row, self.contract.policy, reason=self.request.reason, now=now)
        return self._write_and_send(row, decision, RepairDetails(note="message resent"))

    def _resubmit(self, row: Job) -> RepairOutcome:
        """Send a new job, which runs only while this one stays failed."""
        another = type(self.contract).resubmission(self.message)
        if another is None:
            return NotAllowed("this job type cannot be resubmitted: send a new message")
        key = type(self.contract).key(another)
        if (there := self.repairer.reconciler.store.get(key)) is not None:
            return NotAllowed(f"it was already resubmitted: {key} is {there.status}")
        decision = note_resubmission(
            row,
            self.contract.policy,
            new_key=key,
            reason=self.request.reason,
            now=self.repairer.reconciler.clock.now(),
        )
        written = self._writer.write(row, decision, RepairDetails(note=f"{key} is sent"))
        if not isinstance(written, Repaired):
            return written
        # The note expires with its row, so the new job also stores who decided.
        made = self.repairer.enqueuer.enqueue(
            another.to_dict(),
            actor=self._writer.actor,
            reason=f"after {row.job_key}: {self.request.reason}",
        )
        return _with_send_failure(written) if made.created and not made.sent else written

    def _write_and_send(
        self, row: Job, decision: Decision, details: RepairDetails
    ) -> RepairOutcome:
        outcome = self._writer.write(row, decision, details)
        if not isinstance(outcome, Repaired):
            return outcome
        # If this fails, the next sweep sends the message.
        outbox = self.repairer.reconciler.sender_for_queue(self.contract.resources.queue)
        sent = all(outbox.send([encode_message(outcome.after.message)]))
        return outcome if sent else _with_send_failure(outcome)

    def _check_lookup(
        self, lookup: LookupResult
    ) -> BusinessRowConflict | ProviderUnavailable | None:
        outcome = lookup.outcome
        if lookup.facts is None and isinstance(outcome, Anomalous):
            return BusinessRowConflict(f"{outcome.reason}: fix the business rows first")
        if isinstance(outcome, LookupFailed | LookupUnsupported):
            return ProviderUnavailable(str(self._lookup_answer("no answer", outcome.reason)))
        return None

    def _to_outcome(self, row: Job, job: Job, answer: LookupAnswer) -> Repaired | WouldRepair:
        if not self.request.dry_run:
            return Repaired(row, job, RepairDetails(lookup=answer))
        unchecked = "the business rows are checked only when the repair runs" if job.ended else ""
        return WouldRepair(job, RepairDetails(lookup=answer, note=unchecked))

    @property
    def _writer(self) -> RepairWriter:
        return RepairWriter(self.repairer.reconciler, self.request)

    def _lookup_answer(self, outcome: str, reason: str) -> LookupAnswer:
        return LookupAnswer(self.contract.policy.profile.name, outcome, mask_emails(reason))


def _with_send_failure(done: Repaired) -> Repaired:
    # The row is written and will be swept, but the operator must not expect a worker right now.
    failed = "the queue rejected the message; the next sweep sends it"
    both = "; ".join(filter(None, (done.details.note, failed)))
    return replace(done, details=replace(done.details, note=both))
