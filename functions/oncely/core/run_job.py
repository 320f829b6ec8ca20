"""Runs one message: precheck, claim, execute the effect once, end in one transaction."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, TypeAlias, assert_never

from oncely.core.attempt import (
    Decide,
    DecisionResult,
    DecisionWriter,
    EffectExecutor,
    OwnershipYielded,
    Writes,
    exclude_holds,
    no_business_writes,
)
from oncely.core.claims import (
    Claim,
    ClaimFailure,
    ResubmissionLimit,
    build_claim,
    can_reopen,
    classify_claim_failure,
    has_conflict,
    prerequisite_refusal,
)
from oncely.core.decide import (
    MESSAGE_GRACE,
    MIN_ROW_WAIT,
    decide_effect,
    escalate,
    guard_before_effect,
    on_held,
    on_lease_expired,
    on_not_there_yet,
    on_prerequisite_not_met,
    on_refused_message,
    on_unusable_secret,
    wait_for_run_at,
)
from oncely.core.effect_outcomes import (
    Anomalous,
    BusinessWrite,
    EffectOutcome,
    NotFound,
    NotSent,
    Succeeded,
)
from oncely.core.errors import (
    InvalidInputError,
    InvariantError,
    NotConfiguredError,
    UnavailableError,
)
from oncely.core.job_row import Decision, JobRow
from oncely.core.job_type import (
    AlreadyResolved,
    AnyJobType,
    Mismatch,
    NotThereYet,
    Proceed,
)
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status, WaitKind
from oncely.core.new_row import create_row, row_from_message, run_at_of_message
from oncely.core.outcomes import (
    Duplicate,
    Ended,
    LeasedElsewhere,
    NeedsReview,
    NotRun,
    NotRunCause,
    OwnershipLost,
    Parked,
    RejectCause,
    Rejected,
    RunOutcome,
    Unknown,
)
from oncely.core.schedule import Clock
from oncely.core.store import (
    Claimed,
    ClaimFailed,
    Created,
    ForgedRow,
    JobStore,
    PrerequisiteNotMet,
    Swapped,
)
from oncely.core.surroundings import Alerter, Hold, JobGate
from oncely.core.table_guard import TableBlocked, TableGuard, TableOpen, may_lack_reference

_LOST_UPDATE: Final = "its row changed just now"


# The row waits with another message, which may have the same values, or is in review until a valid
# message comes. Until its claim tells, this one stays in the queue.
_KEPT_MESSAGE_DELAY: Final = timedelta(minutes=30)
ACTOR: Final = "worker"
_LOST_RACE: Final = "lost a race to claim it"
_Passed: TypeAlias = Proceed[Any] | AlreadyResolved[Any]


@dataclass(frozen=True, kw_only=True)
class JobRunner:
    """Runs one message to an outcome. The effect happens once, however often it is delivered."""

    parse: Callable[[str], AnyJobType]  # a message; raises InvalidInputError
    store: JobStore
    alerter: Alerter
    clock: Clock
    new_token: Callable[[], str]
    jitter: Callable[[], float]
    guard: TableGuard
    gate: JobGate
    resubmission_limit: ResubmissionLimit
    row_retention: timedelta | None = None  # the stage's, for natural effects

    def run(self, body: str, *, deadline: datetime, nack: bool = True) -> RunOutcome:
        """Run one message. Nothing is started that could not end before the deadline."""
        now = self.clock.now()
        try:
            contract = self.parse(body)
            key, job_type = contract.job_key(), contract.job_type
            run_at = contract.requested_run_at and run_at_of_message(contract, now)
        except InvalidInputError as error:
            return Rejected(cause=RejectCause.INVALID, reason=str(error))
        if now + contract.max_duration() > deadline:
            return NotRun(cause=NotRunCause.NO_TIME, job_key=key, job_type=job_type)
        table = self.guard.check()
        if isinstance(table, TableBlocked):
            return _table_blocked(table, key, job_type)
        run = _Run(self, contract, key, deadline, table, run_at, nack)
        return run.run() if run_at is None else run.schedule()


@dataclass
class _Run:
    """The run of one valid message."""

    runner: JobRunner
    contract: AnyJobType  # after the precheck: at the provider of this job
    key: JobKey
    deadline: datetime
    table: TableOpen
    run_at: datetime | None  # in the future
    can_nack: bool  # otherwise its row handles every wait

    def schedule(self) -> RunOutcome:
        """Make the row wait until the job may run. An existing row keeps its own time, or none."""
        now = self.runner.clock.now()
        row = self._ensure_row(now, now, "it runs later")
        is_early = row.allows(Event.CLAIM) and row.runs_later(now, self._schedule_limit)
        return self._keep_time(row, now) if is_early else self.run()

    def run(self) -> RunOutcome:
        precheck = self.contract.precheck()
        if isinstance(precheck, Mismatch):
            return self._refuse(precheck.reason)
        if isinstance(precheck, NotThereYet):
            return self._wait(precheck.waits_for)
        self.contract = self.contract.with_provider(precheck.provider)
        try:
            self.contract.require_secrets()
            claim = self._build_claim(precheck)
        except NotConfiguredError as error:
            return self._wait_for_secret(str(error))
        if hold := self._enter_gate(precheck):
            return self._hold(hold, claim)
        result = self._claim(replace(claim, now=self.runner.clock.now()))  # it may have waited
        # A process that was frozen before its claim may thaw on a restored table.
        table = self.runner.guard.check()
        if isinstance(table, TableBlocked):
            return _table_blocked(table, self.key, self.contract.job_type)
        match result:
            case Claimed(job=job):
                return self._on_claimed(job, precheck, claim, table)
            case ClaimFailed(row=row):
                return self._on_claim_failed(row, claim, claim.now)
            case PrerequisiteNotMet(other=other):
                return self._on_prerequisite_not_met(claim, other)
            case unreachable:
                assert_never(unreachable)

    def _enter_gate(self, precheck: _Passed) -> Hold | None:
        sends = isinstance(precheck, Proceed)
        return self.runner.gate.enter(self.contract, deadline=self.deadline) if sends else None

    def _hold(self, hold: Hold, claim: Claim) -> RunOutcome:
        """Keep the job in the queue or in its row, unless its row already has the answer.

        A pause may last longer than the queue keeps a message, so the row keeps it.
        """
        redeliver = self.can_nack and not hold.is_pause
        held = self._parked(WaitKind.GATE, hold.until, hold.reason, redeliver=redeliver)
        if redeliver:
            return held
        now, row = claim.now, self._ensure_row(claim.now, hold.until, hold.reason)
        if can_reopen(row, claim):
            return self._keep_message(WaitKind.GATE, hold.reason, now)
        is_ready = row.allows(Event.PARK) and not row.runs_later(now, claim.schedule_limit)
        if not is_ready or has_conflict(row, claim):
            return self._on_claim_failed(row, claim, now)
        if row.fingerprint is None and dict(row.message) != dict(claim.message):
            reason = "another message waits under the same key"
            return self._keep_message(WaitKind.GATE, reason, now)
        decision = on_held(row, hold.reason, until=hold.until)
        lost = decision is not None and not self._swapped(row, decision, now)
        return self._on_claim_failed(row, claim, now) if lost else held

    def _keep_message(self, kind: WaitKind, reason: str, now: datetime) -> RunOutcome:
        """Keep a message that the row does not have, as long as its queue can."""
        if not self.can_nack:
            return self._conflict(reason)
        return self._parked(kind, now + _KEPT_MESSAGE_DELAY, reason, redeliver=True)

    def _claim(self, claim: Claim) -> Claimed | ClaimFailed | PrerequisiteNotMet:
        store, limit = self.runner.store, self.runner.resubmission_limit
        if claim.requires_failed and self.contract.limits_resubmissions:
            previous = store.get(claim.requires_failed)
            resubmissions = previous.resubmissions if previous else ()
            if limit.refusal(resubmissions, claim.now):
                return PrerequisiteNotMet(previous)
            claim = replace(claim, previous_resubmissions=resubmissions)
        result = store.claim(claim)
        if isinstance(result, ForgedRow):
            due_at = claim.now + MESSAGE_GRACE
            self._ensure_row(claim.now, due_at, "its message arrived", result)
            # With the same token, DynamoDB would take it for the first request.
            claim = replace(claim, owner=self.runner.new_token())
            result = store.claim(claim)
        if isinstance(result, ClaimFailed) and can_reopen(result.row, claim):
            result = store.claim(replace(claim, reopens=result.row))
        if isinstance(result, ForgedRow):
            raise UnavailableError(f"the row of {self.key} kept changing; it is retried later")
        return result

    def _build_claim(self, precheck: _Passed) -> Claim:
        now, owner = self.runner.clock.now(), self.runner.new_token()
        job = (self.contract, self.key, precheck, self.table)
        return build_claim(*job, deadline=self.deadline, now=now, owner=owner)

    @property
    def _schedule_limit(self) -> timedelta:
        return self.contract.effective_schedule_limit()

    def _ensure_row(
        self, now: datetime, due_at: datetime, reason: str, forged: ForgedRow | None = None
    ) -> JobRow:
        """The row of the job, which is written if there is none of ours. Nothing is claimed.

        An existing row keeps its time.
        """
        new = row_from_message(
            self.contract,
            now=now,
            due_at=due_at,
            actor=ACTOR,
            reason=reason,
            owner=self.runner.new_token(),
            run_at=self.run_at,
        )
        created = create_row(self.runner.store, self.runner.alerter, new, forged)
        return created.job if isinstance(created, Created) else created.row

    def _keep_time(self, row: JobRow, now: datetime) -> Parked:
        """Leave the row to its run time, when it is due and sends another message."""
        decision = wait_for_run_at(row)
        if decision is not None and not self._swapped(row, decision, now):
            return self._parked(WaitKind.RETRY, now, _LOST_UPDATE, redeliver=True)
        return self._parked(WaitKind.RUN_AT, row.run_at or now, "it runs later")

    def _swapped(self, row: JobRow, decision: Decision, now: datetime) -> bool:
        """Write a decision about exactly this row. Returns False if the row has changed."""
        after = decision.apply_to(row, now=now, actor=ACTOR)
        return isinstance(self.runner.store.swap(row, after), Swapped)

    def _wait(self, waits_for: str) -> RunOutcome:
        now, policy = self.runner.clock.now(), self.contract.policy
        row = self._ensure_row(now, now + MIN_ROW_WAIT, "its message arrived early")
        decide_wait = partial(on_not_there_yet, policy=policy, waits_for=waits_for, now=now)
        return self._park(row, decide_wait, now)

    def _wait_for_secret(self, reason: str) -> RunOutcome:
        now, jitter = self.runner.clock.now(), self.runner.jitter()
        row = self._ensure_row(now, now + MIN_ROW_WAIT, "its message arrived")
        if row.runs_by_message:
            return self._keep_message(WaitKind.SECRET, reason, now)
        return self._park(
            row, partial(on_unusable_secret, reason=reason, now=now, jitter=jitter), now
        )

    def _park(self, row: JobRow, decide_wait: Decide, now: datetime) -> RunOutcome:
        """Make the row wait. Nothing is claimed, so nothing can be sent."""
        if not row.allows(Event.PARK) or row.runs_later(now, self._schedule_limit):
            return self._on_claim_failed(row, None, now)
        if decide_wait(row):
            return self._write_decision(row, decide_wait)
        kind, reason = row.waits_for or WaitKind.RETRY, row.last_error or "it waits already"
        return self._parked(kind, row.due_at or now, reason)

    def _on_claimed(
        self, job: JobRow, precheck: _Passed, claim: Claim, table: TableOpen
    ) -> RunOutcome:
        if job.run_at and job.ignores_run_at(claim.now, claim.schedule_limit):
            self.runner.alerter.alert_ignored_run_at(job, claim.schedule_limit)
        if job.closing is not None:
            return self._close(job, precheck, claim)
        if isinstance(precheck, AlreadyResolved):
            return self._record_resolved(job, precheck)
        return self._refused(job, claim) or self._execute(job, precheck.facts, table)

    def _record_resolved(self, job: JobRow, precheck: AlreadyResolved[Any]) -> RunOutcome:
        """End what the business rows call done, as the provider confirms it, or impossible."""
        outcome: EffectOutcome = precheck.outcome
        writes = precheck.writes
        if isinstance(outcome, Succeeded):
            outcome = self._executor(job, precheck.facts).confirm(outcome)
            writes = writes if isinstance(outcome, Succeeded) else ()
        now, max_age = self.runner.clock.now(), self.contract.policy.limits.max_age

        def decide_on(row: JobRow) -> Decision:
            if isinstance(outcome, NotSent) and (
                reason := self._aged(row, now).past_max_age(max_age, now)
            ):
                return escalate(f"{reason}; {outcome.reason}")
            return self._decide(row, outcome)

        return self._write_decision(job, decide_on, outcome, lambda _event, _after: writes)

    def _execute(self, job: JobRow, facts: Any, table: TableOpen) -> RunOutcome:  # noqa: ANN401  # the contract's own type
        executor = self._executor(job, facts)
        outcome: EffectOutcome | NotFound | OwnershipYielded = NotFound("nothing was lost")
        claims, since, policy = job.fence - 1, table.replays_until, self.contract.policy
        if (claims or since) and may_lack_reference(job, policy, since, claims=claims):
            outcome = self._believed(executor.lookup_first(), table)
        if isinstance(outcome, NotFound):
            outcome = executor.execute()
        if isinstance(outcome, OwnershipYielded):
            return OwnershipLost(**self._job_fields, reason=outcome.reason)
        run = self._write_decision(
            executor.job,
            partial(self._decide, outcome=outcome),
            outcome,
            lambda event, after: self.contract.business_writes(event, facts, after, outcome),
        )
        if isinstance(outcome, Succeeded) and table.must_prove(self.contract.job_type, policy):
            # Without a lookup of this effect, the first job whose response is lost needs review.
            self.runner.guard.try_lookup(self.key)
        return run

    def _believed(
        self, outcome: EffectOutcome | NotFound | OwnershipYielded, table: TableOpen
    ) -> EffectOutcome | NotFound | OwnershipYielded:
        """What a lookup before the effect means. An absence that proves nothing permits none."""
        job_type, policy = self.contract.job_type, self.contract.policy
        believed = table.believed(outcome, job_type, policy)
        if isinstance(believed, NotFound) and believed.unproved:
            return Anomalous(believed.reason)
        return believed

    def _executor(self, job: JobRow, facts: Any) -> EffectExecutor:  # noqa: ANN401  # the contract's own type
        return EffectExecutor(
            job=job,
            facts=facts,
            contract=self.contract,
            writer=self._decision_writer(),
            deadline=self.deadline,
            gate=self.runner.gate,
            tag_key=self.table.tag_key,
        )

    def _guard(self, job: JobRow, claim: Claim) -> Decision | None:
        now = self.runner.clock.now()
        return guard_before_effect(self._aged(job, now), self.contract.policy, claim, now=now)

    def _refused(self, job: JobRow, claim: Claim) -> RunOutcome | None:
        """Write why the owner must not perform the effect. Returns None if it may."""
        decision = self._guard(job, claim)
        if decision is None:
            return None
        # Decided once for this row: a limit of time may have moved since.
        return self._write_decision(
            job, lambda row: decision if row == job else self._guard(row, claim)
        )

    def _close(self, job: JobRow, precheck: _Passed, claim: Claim) -> RunOutcome:
        """Close what was declined and is still open, whatever the business rows say now."""
        if refused := self._refused(job, claim):
            return refused
        if precheck.facts is None:
            reason = "it is still open, and the business rows no longer say what the job should do"
            return self._write_decision(job, partial(self._decide, outcome=Anomalous(reason)))
        outcome = self._executor(job, precheck.facts).close()

        def writes(event: Event, after: JobRow) -> Sequence[BusinessWrite]:
            if isinstance(precheck, AlreadyResolved) and event in {Event.DECLINE, Event.CLOSE}:
                return ()  # keep what others wrote to the business rows: no effect happened here
            return self.contract.business_writes(event, precheck.facts, after, outcome)

        return self._write_decision(job, partial(self._decide, outcome=outcome), outcome, writes)

    def _decide(self, job: JobRow, outcome: EffectOutcome) -> Decision:
        now, jitter = self.runner.clock.now(), self.runner.jitter()
        aged = self._aged(job, now)
        return decide_effect(aged, self.contract.policy, outcome, now=now, jitter=jitter)

    def _aged(self, job: JobRow, now: datetime) -> JobRow:
        return exclude_holds(job, self.contract, self.runner.gate, now)

    def _write_decision(
        self,
        job: JobRow,
        decide_on: Decide,
        outcome: EffectOutcome | None = None,
        business_writes: Writes = no_business_writes,
    ) -> RunOutcome:
        result = self._decision_writer().write(
            job, decide_on, contract=self.contract, outcome=outcome, business_writes=business_writes
        )
        if result.job and result.decision and result.decision.send_new_message:
            return self._continue(result.job)
        return self._to_outcome(result)

    def _continue(self, job: JobRow) -> Parked:
        """Continue a long job with a new message, which has all its receives left."""
        self.contract.send_message(job)  # the row is due if this fails
        parked = self._parked(WaitKind.NEXT_PART, job.updated_at, "a new message continues it")
        return replace(parked, progress=job.progress or {})

    def _decision_writer(self) -> DecisionWriter:
        runner = self.runner
        return DecisionWriter(
            store=runner.store,
            clock=runner.clock,
            actor=ACTOR,
            alerter=runner.alerter,
            row_retention=runner.row_retention,
            gate=runner.gate,
        )

    def _on_claim_failed(self, row: JobRow, claim: Claim | None, now: datetime) -> RunOutcome:
        """Return the outcome of the row that refused the claim, or that may not wait."""
        self.runner.gate.give_back()
        match classify_claim_failure(row, claim, now, self._schedule_limit):
            case ClaimFailure.CONFLICT:
                return self._conflict("the same key was used with other business values")
            case ClaimFailure.ENDED | ClaimFailure.AWAITING_RESOLUTION:
                return Duplicate(**self._job_fields, status=row.status, result=row.result or {})
            case ClaimFailure.LEASED:
                return LeasedElsewhere(**self._job_fields, until=row.lease_until or now)
            case ClaimFailure.LEASE_EXPIRED:
                policy, jitter = self.contract.policy, self.runner.jitter()
                return self._write_decision(
                    row, partial(on_lease_expired, policy=policy, now=now, jitter=jitter)
                )
            case ClaimFailure.EARLY:
                return self._keep_time(row, now)
            case ClaimFailure.RACE_LOST:
                return self._parked(WaitKind.RETRY, now, _LOST_RACE, redeliver=True)
            case unreachable:
                assert_never(unreachable)

    def _on_prerequisite_not_met(self, claim: Claim, other: JobRow | None) -> RunOutcome:
        self.runner.gate.give_back()
        reason = prerequisite_refusal(claim, other, self.runner.resubmission_limit)
        if reason is None:
            return self._parked(WaitKind.RETRY, claim.now, _LOST_RACE, redeliver=True)
        row = self.runner.store.get(self.key)
        if row is None or row.is_forged or can_reopen(row, claim):
            return self._conflict(reason)
        decide_on = partial(on_prerequisite_not_met, reason=reason)
        if decide_on(row):
            return self._write_decision(row, decide_on)
        return self._on_claim_failed(row, claim, claim.now)

    def _parked(
        self, kind: WaitKind, until: datetime, reason: str, *, redeliver: bool = False
    ) -> Parked:
        fields = self._job_fields
        return Parked(**fields, until=until, kind=kind, reason=reason, redeliver=redeliver)

    def _refuse(self, reason: str) -> Rejected:
        """Reject a wrong message. Until the right one is claimed, the row shows the reason."""
        row = self.runner.store.get(self.key)
        if row is not None:
            self._decision_writer().write(row, partial(on_refused_message, reason=reason))
        return self._conflict(reason)

    def _conflict(self, reason: str) -> Rejected:
        alerted = self.runner.alerter.alert_conflict(self.key, reason)
        return Rejected(
            **self._job_fields, cause=RejectCause.CONFLICT, reason=reason, alerted=alerted
        )

    def _to_outcome(self, result: DecisionResult) -> RunOutcome:
        """The outcome of the row that was written."""
        job, decision, lost = result.job, result.decision, result.orphaned_outcome
        if lost and isinstance(table := self.runner.guard.check(), TableBlocked):
            # The table was replaced: the redelivered message looks up before it executes.
            return _table_blocked(table, self.key, self.contract.job_type)
        if lost:
            self.runner.alerter.alert_orphaned_outcome(self.key, lost)
            return Rejected(**self._job_fields, cause=RejectCause.ROW_MISSING, reason=lost)
        if job is None or decision is None:
            reason = "nothing is left to do" if decision is None else decision.reason
            return OwnershipLost(**self._job_fields, reason=reason)
        explained = {**self._job_fields, "reason": decision.reason}
        match job.status:
            case Status.FINISHED | Status.FAILED | Status.CANCELLED:
                return Ended(**explained, status=job.status, result=job.result or {})
            case Status.UNKNOWN:
                return Unknown(**explained)
            case Status.NEEDS_REVIEW:
                return NeedsReview(**explained)
            case Status.READY:
                until, kind = decision.run_at or job.updated_at, job.waits_for or WaitKind.RETRY
                # A row that is due by then sends another message.
                redeliver = job.due_at is None or job.due_at > until
                return self._parked(kind, until, decision.reason, redeliver=redeliver)
            case Status.STARTED:
                raise InvariantError(f"{self.key} is still started after {decision.event}")
            case unreachable:
                assert_never(unreachable)

    @property
    def _job_fields(self) -> Any:  # noqa: ANN401  # the fields that every outcome of a job has
        return {"job_key": self.key, "job_type": self.contract.job_type}


def _table_blocked(table: TableBlocked, key: JobKey, job_type: str) -> NotRun:
    """The outcome when the job table may not hold the proofs: nothing is sent."""
    return NotRun(
        cause=NotRunCause.TABLE_BLOCKED, job_key=key, job_type=job_type, reason=table.reason
    )
