"""Repairs by operators: conditional on the version they saw, with their name in the evidence."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, assert_never

from oncely.core.ask_and_record import LookupResult, Question
from oncely.core.decide import reschedule
from oncely.core.errors import InvalidInputError
from oncely.core.job_row import JobRow
from oncely.core.job_type import PrecheckResult
from oncely.core.keys import is_job_key, job_type_of
from oncely.core.repairs import (
    Repair,
    RepairOption,
    can_reopen_without_lookup,
    note,
    note_resubmission,
    operator_resend,
    reopen,
    repair_option,
    unreadable_job_option,
)
from oncely.core.schedule import later_run_at
from oncely.core.surroundings import Hold
from oncely.core.table_guard import TableBlocked, TableOpen
from oncely.core.text import MAX_REASON_LENGTH, format_minute, support_text
from oncely.operate.cancel_job import CancellingRun, cancel_absent
from oncely.operate.job_view import contract_for, lookup_summary
from oncely.operate.mark_job import UnreadableRun
from oncely.operate.repair_request import (
    NO_VERSION,
    BusinessRowConflict,
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
    WouldRepair,
)
from oncely.operate.repair_run import with_send_failure
from oncely.operate.repair_write import ManualResolution, RepairWriter, values_changed_since
from oncely.operate.second_operator import needs_second_operator
from oncely.operate.second_operator_rules import (
    REQUEST_VALIDITY,
    PendingRepair,
    SecondOperatorRule,
    request_second_operator,
)

if TYPE_CHECKING:
    from oncely.app import App


@dataclass(frozen=True, kw_only=True)
class Repairer:
    """Applies a repair if the job has not changed and the life cycle allows it."""

    app: "App"
    second_operator: SecondOperatorRule

    def repair(self, request: RepairRequest) -> RepairOutcome:
        """Apply one repair. A dry run is the same repair, which writes and sends nothing."""
        outcome = self._repair(request)
        if request.dry_run and isinstance(outcome, Repaired):
            return WouldRepair(outcome.after, outcome.details)
        return outcome

    def _repair(self, request: RepairRequest) -> RepairOutcome:
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
            contract_type, message = self.app.registry.parse_row(runs)
        except InvalidInputError:
            return self._repair_unreadable(row, request, table)
        option = repair_option(
            row,
            contract_type.policy_of(row),
            request.repair,
            schedule_limit=contract_type.effective_schedule_limit(),
            now=self.app.ports.clock.now(),
            can_resubmit=contract_type.resubmission(message) is not None,
        )
        if refusal := _check_allowed(option, request):
            return refusal
        run = _RepairRun(
            app=self.app,
            request=request,
            contract=contract_type(self.app.ports, row.provider),
            message=message,
            table=table,
        )
        if contract_type.policies and row.provider is None:
            run = run.at_provider(getattr(run.precheck, "provider", None))
        if found := run.recover_reference(row):
            return found
        if not needs_second_operator(
            self.second_operator,
            request.repair,
            contract_type=contract_type,
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
        if needs_second_operator(self.second_operator, request.repair, contract_type=contract_type):
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
                writer = RepairWriter(self.app, confirmed)
                return ManualResolution(writer).resolve_job_only(row, None)
            contract = contract_type(self.app.ports, row.provider)
            return UnreadableRun(
                app=self.app, request=confirmed, contract=contract, table=table
            ).mark(row)

        # What it would have done is not known, whatever its type.
        if not needs_second_operator(
            self.second_operator, request.repair, contract_type=None, row=row
        ):
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


@dataclass(frozen=True, kw_only=True)
class _RepairRun(CancellingRun):
    """One repair that passed its checks."""

    def prechecks(self) -> Iterator[PrecheckResult[Any]]:
        """What the job would do now, and what its resubmission would."""
        yield self.precheck
        another = type(self.contract).resubmission(self.message)
        if self.request.repair is Repair.RESUBMIT and another is not None:
            yield self.contract.precheck(another)

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
        noted = self.writer.write(row, note(f"looked up: {self.request.reason}"))
        if not isinstance(noted, Repaired):
            return noted
        reconciler = replace(self.app.reconciler, actor=self.writer.actor)
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
            message=self.message,
            table=self.table,
            note=f"looked up: {self.request.reason}",
        )
        reconciler = replace(self.app.reconciler, actor=self.writer.actor)
        inquirer = reconciler.inquirer(dry_run=self.request.dry_run)
        asked = inquirer.ask_and_record(row, question)
        if isinstance(asked, Hold):
            return ProviderUnavailable(f"{asked.reason}; nothing was changed: try again")
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
        another = type(self.contract).resubmission(self.message)
        if another is None:
            return NotAllowed("this job type cannot be resubmitted: send a new message")
        key = type(self.contract).key(another)
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
