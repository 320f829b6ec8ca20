"""Resolves one due job: looks it up at the provider and records the outcome. Never executes.

It sends no alerts: its result tells the caller whether one is needed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final, Literal, TypeAlias, assert_never

from oncely.contracts.job import AnyJob, Tools
from oncely.contracts.registry import JobRegistry
from oncely.core.ask_and_record import Asked, Inquirer, Question
from oncely.core.attempt import (
    Decide,
    DecisionResult,
    DecisionWriter,
    exclude_holds,
    only_for,
)
from oncely.core.decide import (
    MESSAGE_GRACE,
    absence_conclusive_at,
    escalate,
    escalate_refused,
    on_forged_row,
    on_lease_expired,
    on_not_there_yet,
    wait_for_run_at,
)
from oncely.core.due import (
    SweepStep,
    escalate_if_values_changed,
    hold_for_sweep,
    resend,
    sweep_step,
)
from oncely.core.effect_outcomes import (
    Json,
    LookupFailed,
)
from oncely.core.errors import InvalidInputError
from oncely.core.job_row import Decision, JobRow
from oncely.core.job_type import Mismatch, NotThereYet
from oncely.core.keys import JobKey, fingerprint
from oncely.core.lifecycle import Event, Status
from oncely.core.new_row import own_row, row_from_message, run_at_of_row
from oncely.core.schedule import Clock
from oncely.core.store import Created, ForgedRow, JobStore, Swapped
from oncely.core.surroundings import Hold
from oncely.core.table_guard import TableBlocked, TableGuard, TableOpen
from oncely.gates.gate import Gate
from oncely.publish.publisher import EndedJobPublisher

ACTOR: Final = "reconciler"
ROW_MISSING: Final = "gone"
FENCED: Final = "fenced"
HELD: Final = "held"
# How long a sweep tries to look up the effect that proves a lookup; the next success tries again.
LOOKUP_TRIAL: Final = timedelta(minutes=15)
# The steps that need the row's message.
_RowStep: TypeAlias = Literal[SweepStep.RESEND, SweepStep.EXPIRE_LEASE, SweepStep.LOOK_UP]


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """What was done about one job, or would be in a dry run."""

    key: JobKey
    outcome: str
    from_status: Status | None = None
    to_status: Status | None = None
    reason: str = ""
    lookup_failed: bool = False  # counted separately
    needs_alert: bool = False  # the caller must alert operators
    job: JobRow | None = None  # the row after it; None if nothing was written


@dataclass(frozen=True, kw_only=True)
class Reconciler:
    """Takes an unresolved job one step further. Concurrent instances are harmless."""

    registry: JobRegistry
    tools: Tools
    store: JobStore
    clock: Clock
    jitter: Callable[[], float]
    publisher: EndedJobPublisher
    guard: TableGuard
    gate: Gate
    actor: str = ACTOR  # or the operator who requested this job
    has_slot: bool = False  # the caller has passed the gate of its provider

    def resolve(
        self,
        key: JobKey,
        *,
        message: Mapping[str, Json] | None = None,
        on_demand: bool = False,
        dry_run: bool = False,
        deadline: datetime | None = None,
    ) -> Resolution:
        """Do what is due for one job. A dry run only returns what it would do."""
        table = self.guard.check()
        if isinstance(table, TableBlocked):
            return Resolution(key=key, outcome=FENCED, reason=table.reason)
        # With the message that it should have, a row that may be forged is not believed.
        row = self.store.get(key) if message is None else own_row(self.store, key)
        if row is None:
            if table.tries_lookup(key) and not dry_run:
                self.guard.end_lookup_trial(key)
            return self._create_missing(key, message, table, dry_run=dry_run)
        return self.resolve_row(row, table, on_demand=on_demand, dry_run=dry_run, deadline=deadline)

    def resolve_row(
        self,
        row: JobRow,
        table: TableOpen,
        *,
        on_demand: bool = False,
        dry_run: bool = False,
        deadline: datetime | None = None,
    ) -> Resolution:
        """Do what is due for a job whose row was just read."""
        step = sweep_step(row, self.clock.now(), on_demand=on_demand)
        if row.is_forged and step is not SweepStep.NONE:
            return self._review(row, on_forged_row(row), dry_run=dry_run)
        match step:
            case SweepStep.NONE if table.tries_lookup(row.job_key):
                return self._try_lookup(row, table, dry_run=dry_run, deadline=deadline)
            case SweepStep.NONE:
                return _no_resolution(row)
            case SweepStep.PUBLISH:
                return self._publish(row, dry_run=dry_run)
            case SweepStep.ALERT:
                return _review_resolution(row, row.last_error or "it needs review", dry_run=dry_run)
            case (SweepStep.RESEND | SweepStep.EXPIRE_LEASE | SweepStep.LOOK_UP) as step:
                return self._resolve_row(row, step, table, dry_run=dry_run, deadline=deadline)
            case unreachable:
                assert_never(unreachable)

    def hold_row(self, row: JobRow) -> JobRow | None:
        """Postpone a row, so that a job that cannot be resolved now does not block others."""
        held = hold_for_sweep(row, self.clock.now(), jitter=self.jitter())
        written = self.store.swap(row, held)
        return written.job if isinstance(written, Swapped) else None

    def _publish(self, row: JobRow, *, dry_run: bool) -> Resolution:
        if not dry_run and self.hold_row(row) is None:
            return _no_resolution(row)
        if not dry_run:
            self.publisher.publish(row.job_key)
        return _resolution(
            row, "published", row.status, "its follow-ups or event were not sent yet"
        )

    def _resolve_row(
        self,
        row: JobRow,
        step: _RowStep,
        table: TableOpen,
        *,
        dry_run: bool,
        deadline: datetime | None,
    ) -> Resolution:
        try:
            run = self._run_of(row, table, dry_run=dry_run, deadline=deadline)
        except InvalidInputError as error:
            # A job type, or a version, that this deployment does not know.
            decision = escalate(f"this deployment cannot read its message: {error}")
            return self._review(row, decision, dry_run=dry_run)
        return run.perform(row, step)

    def _run_of(
        self, row: JobRow, table: TableOpen, *, dry_run: bool, deadline: datetime | None
    ) -> "_JobResolution":
        contract = self.registry.parse_row(row).with_tools(self.tools, row.provider)
        return _JobResolution(self, contract, dry_run, table, deadline)

    def _try_lookup(
        self, row: JobRow, table: TableOpen, *, dry_run: bool, deadline: datetime | None
    ) -> Resolution:
        """Look up the effect of a finished job once, to see whether its lookup finds any."""
        try:
            run = self._run_of(row, table, dry_run=dry_run, deadline=deadline)
        except InvalidInputError:
            is_over, resolution = True, _no_resolution(row)
        else:
            is_over, resolution = run.try_lookup(row)
        if is_over and not dry_run:
            self.guard.end_lookup_trial(row.job_key)
        return resolution

    def _create_missing(
        self, key: JobKey, message: Mapping[str, Json] | None, table: TableOpen, *, dry_run: bool
    ) -> Resolution:
        """Enqueue a job that the business rows request and that has no row."""
        if message is None:
            return Resolution(key=key, outcome=ROW_MISSING, reason="job not found")
        if not table.has_all_rows(self.clock.now()):
            return Resolution(
                key=key, outcome=ROW_MISSING, reason="its row may be lost in a restore"
            )
        contract = self.registry.parse_mapping(message)
        reason = "the business rows request it, and it had no job"
        resolution = Resolution(key=key, outcome="ready", to_status=Status.READY, reason=reason)
        if dry_run:
            return resolution
        now = self.clock.now()
        due_at = now + MESSAGE_GRACE
        run_at = run_at_of_row(contract, now)
        job = row_from_message(
            contract, now=now, due_at=due_at, actor=ACTOR, reason=reason, run_at=run_at
        )
        # A worker replaces a forged row, with an alert.
        if isinstance(self.store.create(job), Created | ForgedRow):
            contract.with_tools(self.tools).send_message(job)  # the row is due if this fails
        return resolution

    def _review(self, row: JobRow, decision: Decision, *, dry_run: bool) -> Resolution:
        if self.decision_writer(dry_run=dry_run).write(row, only_for(row, decision)).job is None:
            return _no_resolution(row)
        return _review_resolution(row, decision.reason, dry_run=dry_run)

    @property
    def row_retention(self) -> timedelta:
        """How long the stage keeps the row of a natural effect."""
        return self.publisher.row_retention

    def inquirer(self, *, dry_run: bool = False) -> Inquirer:
        """Asks about one job, and records the answer."""
        return Inquirer(
            gate=self.gate,
            clock=self.clock,
            jitter=self.jitter,
            writer=self.decision_writer(dry_run=dry_run),
            guard=self.guard,
        )

    def _read_business_row(self, table: str, key: Mapping[str, str]) -> Mapping[str, object] | None:
        return self.tools.table(table).get(key)

    def decision_writer(self, *, dry_run: bool = False) -> DecisionWriter:
        """Writes decisions without alerts: a review stays due."""
        return DecisionWriter(
            store=self.store,
            clock=self.clock,
            actor=self.actor,
            row_retention=self.row_retention,
            gate=self.gate,
            dry_run_reader=self._read_business_row if dry_run else None,
        )


@dataclass(frozen=True)
class _JobResolution:
    """The resolution of one row."""

    reconciler: Reconciler
    contract: AnyJob
    dry_run: bool
    table: TableOpen
    deadline: datetime | None  # until then a lookup may wait for its slot

    def perform(self, row: JobRow, step: _RowStep) -> Resolution:
        match step:
            case SweepStep.RESEND:
                return self._resend(row)
            case SweepStep.EXPIRE_LEASE:
                return self._expire_lease(row)
            case SweepStep.LOOK_UP:
                # Two sweeps may both look up: that changes nothing, and only one of them writes.
                return self._look_up(row, row.status)
            case unreachable:
                assert_never(unreachable)

    def _resend(self, row: JobRow) -> Resolution:
        now = self.reconciler.clock.now()
        is_early = row.runs_later(now, self.contract.effective_schedule_limit())
        if is_early and (decision := wait_for_run_at(row)):
            return self._to_resolution(row, self._write(row, only_for(row, decision)))
        decision, provider = self._precheck(row, now)
        # No claim has chosen the provider of this row yet.
        contract = self.contract.with_provider(provider)
        gate = self.reconciler.gate
        if decision is None and (hold := gate.hold(contract)):
            return _resolution(row, HELD, row.status, hold.reason)
        aged = exclude_holds(row, contract, gate, now)
        decision = decision or resend(aged, contract.policy, now)
        result = self._write(row, only_for(row, decision))
        if result.job and decision.event is Event.RESEND and not self.dry_run:
            self.contract.send_message(result.job)  # the row is due if this fails
        return self._to_resolution(row, result)

    def _precheck(self, row: JobRow, now: datetime) -> tuple[Decision | None, str | None]:
        """Why the message is not resent, or None if it is; and the provider of the job."""
        try:
            precheck = self.contract.precheck()
        except Exception:  # noqa: BLE001  # a worker reports it, and the age limit ends it
            return None, row.provider
        if isinstance(precheck, Mismatch):
            return escalate_refused(row, precheck.reason), row.provider
        if isinstance(precheck, NotThereYet):
            waits_for, policy = precheck.waits_for, self.contract.policy
            return on_not_there_yet(row, policy, waits_for, now=now), row.provider
        values = None if precheck.values is None else fingerprint(precheck.values)
        return escalate_if_values_changed(row, values), row.provider or precheck.provider

    def _expire_lease(self, row: JobRow) -> Resolution:
        """Mark the job unknown, and look it up at once."""
        decide_on = partial(
            on_lease_expired,
            policy=self.contract.policy,
            now=self.reconciler.clock.now(),
            jitter=self.reconciler.jitter(),
        )
        result = self._write(row, decide_on)
        job = result.job
        if job is None or sweep_step(job, self.reconciler.clock.now()) is not SweepStep.LOOK_UP:
            self._send_if_runnable(result)
            return self._to_resolution(row, result)
        return self._look_up(job, row.status)

    def try_lookup(self, row: JobRow) -> tuple[bool, Resolution]:
        """Look up the effect of a finished job. Returns whether no other sweep needs to."""
        now = self.reconciler.clock.now()
        if not row.status.is_finished:
            return True, _no_resolution(row)
        ready_at = absence_conclusive_at(row, self.contract.policy)
        if now < ready_at:
            return False, _no_resolution(row)
        asked = self._ask(row, note=f"the lookup of {row.job_type} is tried on this job")
        if isinstance(asked, Hold):
            return False, _resolution(row, HELD, row.status, asked.reason)
        is_answered = asked.lookup is None or asked.lookup.is_answered
        is_over = is_answered or now >= ready_at + LOOKUP_TRIAL
        return is_over, self._to_resolution(row, asked.result)

    def _ask(self, row: JobRow, *, note: str = "") -> Asked | Hold:
        question = Question(
            contract=self.contract,
            table=self.table,
            deadline=self.deadline,
            note=note,
            has_slot=self.reconciler.has_slot,
        )
        return self.reconciler.inquirer(dry_run=self.dry_run).ask_and_record(row, question)

    def _look_up(self, row: JobRow, old: Status) -> Resolution:
        asked = self._ask(row)
        if isinstance(asked, Hold):
            return _resolution(row, HELD, row.status, asked.reason)
        self._send_if_runnable(asked.result)
        resolution = self._to_resolution(row, asked.result, old)
        failed = asked.lookup is not None and isinstance(asked.lookup.outcome, LookupFailed)
        return replace(resolution, lookup_failed=failed)

    def _write(self, row: JobRow, decide_on: Decide) -> DecisionResult:
        writer = self.reconciler.decision_writer(dry_run=self.dry_run)
        return writer.write(row, decide_on, contract=self.contract)

    def _send_if_runnable(self, result: DecisionResult) -> None:
        """Send the message now if the job may run at once. Otherwise the row sends it when due."""
        run_at = None if result.decision is None else result.decision.run_at
        now = self.reconciler.clock.now()
        if result.job and run_at and run_at <= now and not self.dry_run:
            self.contract.send_message(result.job)  # the row is due if this fails

    def _to_resolution(
        self, row: JobRow, result: DecisionResult, old: Status | None = None
    ) -> Resolution:
        """The resolution for the caller."""
        decision, job = result.decision, result.job
        if result.orphaned_outcome:
            return Resolution(
                key=row.job_key,
                outcome=ROW_MISSING,
                reason=result.orphaned_outcome,
                needs_alert=True,
            )
        if job is None or decision is None:
            return _no_resolution(row)
        done = _resolution(row, job.status, job.status, decision.reason, old)
        return replace(done, needs_alert=decision.alert and not self.dry_run, job=job)


def _review_resolution(row: JobRow, reason: str, *, dry_run: bool) -> Resolution:
    review = Status.NEEDS_REVIEW
    return replace(_resolution(row, review, review, reason), needs_alert=not dry_run)


def _no_resolution(row: JobRow) -> Resolution:
    return _resolution(
        row, "nothing", row.status, "another process is working on it, or nothing is due"
    )


def _resolution(
    row: JobRow, outcome: str, new: Status, reason: str, old: Status | None = None
) -> Resolution:
    return Resolution(
        key=row.job_key,
        outcome=outcome,
        from_status=old or row.status,
        to_status=new,
        reason=reason,
    )
