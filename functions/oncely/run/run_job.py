"""Runs one message: precheck, claim, execute the effect once, end in one transaction."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, assert_never

from oncely.contract import AlreadyResolved, AnyContract, Message, Mismatch, Proceed, encode_message
from oncely.domain.claims import (
    Claim,
    ClaimFailure,
    classify_claim_failure,
    on_prerequisite_not_met,
)
from oncely.domain.decide import decide, guard_before_effect
from oncely.domain.effect_outcomes import (
    Anomalous,
    BusinessWrite,
    EffectOutcome,
    LeaseExpired,
    NotFound,
)
from oncely.domain.errors import InvalidInputError, InvariantError
from oncely.domain.jobs import CLOCK_SKEW, Decision, Job
from oncely.domain.keys import JobKey, fingerprint
from oncely.domain.lifecycle import Event, Status
from oncely.domain.profiles import RetrySafety
from oncely.domain.table_identity import may_have_lost_history
from oncely.ports import (
    Claimed,
    ClaimFailed,
    Clock,
    Dependencies,
    JobStore,
    Notifier,
    PrerequisiteNotMet,
    TableBlocked,
    TableGuard,
    TableOpen,
)
from oncely.registry import ContractRegistry
from oncely.run import alert_texts
from oncely.run.attempt import DecisionResult, DecisionWriter, EffectExecutor, OwnershipYielded
from oncely.run.outcomes import (
    AwaitingResolution,
    Conflict,
    Continued,
    Duplicate,
    Failed,
    Finished,
    InvalidMessage,
    LeasedElsewhere,
    NeedsReview,
    NotAttempted,
    NotStarted,
    OwnershipLost,
    RowMissing,
    RunOutcome,
    TableFenced,
    Unknown,
)
from oncely.run.review_alerts import ReviewAlerter

ACTOR: Final = "worker"


@dataclass(frozen=True, kw_only=True)
class JobRunner:
    """Runs one message to an outcome. The effect happens once, however often it is delivered."""

    registry: ContractRegistry
    dependencies: Dependencies
    store: JobStore
    notifier: Notifier
    clock: Clock
    new_token: Callable[[], str]
    jitter: Callable[[], float]
    guard: TableGuard
    stack: str = ""  # names the deployment in alerts
    row_retention: timedelta | None = None  # the stage's, for natural effects

    def run(self, body: str, *, deadline: datetime) -> RunOutcome:
        """Run one message; nothing is started that could not end before the deadline."""
        try:
            contract_type, message = self.registry.parse_body(body)
            key = contract_type.key(message)
        except InvalidInputError as error:
            return InvalidMessage(str(error))
        if self.clock.now() + contract_type.policy.max_duration > deadline:
            return NotStarted(job_key=key, job_type=contract_type.job_type)
        table = self.guard.check()
        if isinstance(table, TableBlocked):
            return TableFenced(job_key=key, job_type=contract_type.job_type, reason=table.reason)
        contract = contract_type(self.dependencies)
        for name in contract_type.resources.secret_names:
            self.dependencies.secret(name)  # a missing one is found before anything is claimed
        return _Run(self, contract, message, key, deadline, table).run()


@dataclass(frozen=True)
class _Run:
    """The run of one valid message."""

    runner: JobRunner
    contract: AnyContract
    message: Message
    key: JobKey
    deadline: datetime
    table: TableOpen

    def run(self) -> RunOutcome:
        precheck = self.contract.precheck(self.message)
        if isinstance(precheck, Mismatch):
            return self._conflict(precheck.reason)
        claim = self._build_claim(precheck)
        result = self.runner.store.claim(claim)
        # A process that was frozen before its claim may thaw on a restored table.
        table = self.runner.guard.check()
        if isinstance(table, TableBlocked):
            return TableFenced(**self._job_fields, reason=table.reason)
        match result:
            case Claimed(job=job):
                return self._on_claimed(job, precheck, claim, table)
            case ClaimFailed(row=row):
                return self._on_claim_failed(row, claim)
            case PrerequisiteNotMet(other=other):
                return self._on_prerequisite_not_met(claim, other)
            case unreachable:
                assert_never(unreachable)

    def _build_claim(self, precheck: Proceed[Any] | AlreadyResolved[Any]) -> Claim:
        now = self.runner.clock.now()
        return Claim(
            job_key=self.key,
            job_type=self.contract.job_type,
            owner=self.runner.new_token(),
            now=now,
            # A call may begin until the deadline and take its timeout. After that the owner is
            # certainly gone.
            lease_until=self.deadline + self.contract.policy.profile.request_timeout + CLOCK_SKEW,
            message=self.message.to_dict(),
            fingerprint=None if precheck.values is None else fingerprint(precheck.values),
            customer_id=precheck.customer_id,
            subject=self.contract.indexed_subject(self.message),
            amount=None if precheck.money is None else precheck.money.amount,
            currency=None if precheck.money is None else precheck.money.currency,
            deployment=self.table.deployment,
            key_scope=self.contract.key_scope() if isinstance(precheck, Proceed) else "",
            requires_failed=precheck.requires_failed if isinstance(precheck, Proceed) else None,
        )

    def _on_claimed(
        self,
        job: Job,
        precheck: Proceed[Any] | AlreadyResolved[Any],
        claim: Claim,
        table: TableOpen,
    ) -> RunOutcome:
        if job.closing is not None:
            return self._close(job, precheck, claim)
        if isinstance(precheck, AlreadyResolved):
            decision = self._decide(job, precheck.outcome)
            return self._write_decision(job, decision, precheck.outcome, lambda _: precheck.writes)
        if forbidden := self._guard(job, claim):
            return self._write_decision(job, forbidden)
        return self._execute(job, precheck.facts, table)

    def _execute(self, job: Job, facts: Any, table: TableOpen) -> RunOutcome:  # noqa: ANN401  # the contract's own type
        executor = self._executor(job, facts)
        outcome: EffectOutcome | OwnershipYielded = NotFound("nothing was lost")
        if self._needs_lookup_first(job, table):
            outcome = executor.lookup_first()
        if isinstance(outcome, NotFound):
            outcome = executor.execute()
        if isinstance(outcome, OwnershipYielded):
            return OwnershipLost(**self._job_fields, reason=outcome.reason)
        decision = self._decide(executor.job, outcome)
        writes = partial(self.contract.business_writes, decision.event, facts, outcome=outcome)
        return self._write_decision(executor.job, decision, outcome, writes)

    def _executor(self, job: Job, facts: Any) -> EffectExecutor:  # noqa: ANN401  # the contract's own type
        return EffectExecutor(
            job=job,
            facts=facts,
            contract=self.contract,
            writer=self._decision_writer(),
            deadline=self.deadline,
        )

    def _needs_lookup_first(self, job: Job, table: TableOpen) -> bool:
        if table.replays_until is None or self.contract.policy.safety is RetrySafety.NATURAL:
            return False
        return may_have_lost_history(job, table.replays_until)

    def _guard(self, job: Job, claim: Claim) -> Decision | None:
        return guard_before_effect(
            job,
            self.contract.policy,
            key_scope=claim.key_scope,
            now=self.runner.clock.now(),
            deployment=claim.deployment,
        )

    def _close(
        self, job: Job, precheck: Proceed[Any] | AlreadyResolved[Any], claim: Claim
    ) -> RunOutcome:
        """Close what was declined and is still open, whatever the business rows say now."""
        if forbidden := self._guard(job, claim):
            return self._write_decision(job, forbidden)
        if precheck.facts is None:
            reason = "it is still open, and the business rows no longer say what the job should do"
            return self._write_decision(job, self._decide(job, Anomalous(reason)))
        outcome = self._executor(job, precheck.facts).close()
        decision = self._decide(job, outcome)
        if isinstance(precheck, AlreadyResolved) and decision.event is Event.DECLINE:
            # Keep what others wrote to the business rows: no effect happened here.
            return self._write_decision(job, decision, outcome)
        writes = partial(
            self.contract.business_writes, decision.event, precheck.facts, outcome=outcome
        )
        return self._write_decision(job, decision, outcome, writes)

    def _decide(self, job: Job, outcome: EffectOutcome) -> Decision:
        return decide(
            job,
            self.contract.policy,
            outcome,
            now=self.runner.clock.now(),
            jitter=self.runner.jitter(),
        )

    def _write_decision(
        self,
        job: Job,
        decision: Decision,
        outcome: EffectOutcome | None = None,
        business_writes: Callable[[Job], Sequence[BusinessWrite]] = lambda _: (),
    ) -> RunOutcome:
        result = self._decision_writer().write(
            job, decision, contract=self.contract, outcome=outcome, business_writes=business_writes
        )
        if result.job and decision.send_new_message:
            return self._continue(result.job)
        return self._to_outcome(result)

    def _continue(self, job: Job) -> Continued:
        """Continue a long job with a new message, which has all its receives left."""
        outbox = self.runner.dependencies.message_sender(self.contract.resources.queue)
        sent = outbox.send([encode_message(job.message)])
        return Continued(**self._job_fields, progress=job.progress or {}, sent=all(sent))

    def _decision_writer(self) -> DecisionWriter:
        runner = self.runner
        return DecisionWriter(
            store=runner.store,
            clock=runner.clock,
            actor=ACTOR,
            alerter=self._alerter(),
            row_retention=runner.row_retention,
        )

    def _alerter(self) -> ReviewAlerter:
        runner = self.runner
        return ReviewAlerter(
            store=runner.store,
            notifier=runner.notifier,
            clock=runner.clock,
            actor=ACTOR,
            stack=runner.stack,
        )

    def _on_claim_failed(self, row: Job, claim: Claim) -> RunOutcome:
        """Answer from the row that refused the claim."""
        match classify_claim_failure(row, claim):
            case ClaimFailure.CONFLICT:
                return self._conflict("the same key was used with other business values")
            case ClaimFailure.ENDED:
                return Duplicate(**self._job_fields, status=row.status, result=row.result or {})
            case ClaimFailure.LEASED:
                return LeasedElsewhere(**self._job_fields, until=row.lease_until or claim.now)
            case ClaimFailure.LEASE_EXPIRED:
                return self._write_decision(row, self._decide(row, LeaseExpired()))
            case ClaimFailure.AWAITING_RESOLUTION:
                return AwaitingResolution(**self._job_fields, status=row.status)
            case ClaimFailure.RACE_LOST:
                return NotAttempted(
                    **self._job_fields, until=claim.now, reason="lost a race to claim it"
                )
            case unreachable:
                assert_never(unreachable)

    def _on_prerequisite_not_met(self, claim: Claim, other: Job | None) -> RunOutcome:
        row = self.runner.store.get(self.key)
        state = other.status.label if other else "not there"
        reason = f"{claim.requires_failed} must have failed, it is {state}"
        decision = on_prerequisite_not_met(row, reason)
        if row is None or decision is None:
            return self._conflict(reason)
        return self._write_decision(row, decision)

    def _conflict(self, reason: str) -> Conflict:
        alert = alert_texts.conflict_alert(self.key, reason, stack=self.runner.stack)
        alerted = self.runner.notifier.notify(alert)
        return Conflict(**self._job_fields, reason=reason, alerted=alerted)

    def _to_outcome(self, result: DecisionResult) -> RunOutcome:
        """The outcome of the row that was written."""
        job, decision = result.job, result.decision
        if result.orphaned_outcome and isinstance(table := self.runner.guard.check(), TableBlocked):
            # The table was replaced: the redelivered message looks up before it executes.
            return TableFenced(**self._job_fields, reason=table.reason)
        if result.orphaned_outcome:
            self._alerter().alert_orphaned_outcome(self.key, result.orphaned_outcome)
            return RowMissing(**self._job_fields, reason=result.orphaned_outcome)
        if job is None:
            return OwnershipLost(**self._job_fields, reason=decision.reason)
        match job.status:
            case Status.FINISHED:
                return Finished(**self._job_fields, result=job.result or {})
            case Status.FAILED:
                return Failed(**self._job_fields, reason=decision.reason, result=job.result or {})
            case Status.UNKNOWN:
                return Unknown(**self._job_fields, reason=decision.reason)
            case Status.NEEDS_REVIEW:
                return NeedsReview(**self._job_fields, reason=decision.reason)
            case Status.READY:
                return NotAttempted(
                    **self._job_fields,
                    until=decision.run_at or job.updated_at,
                    reason=decision.reason,
                    credentials_rejected=decision.credentials_rejected,
                    row_resends=decision.resend_when_due,
                )
            case Status.STARTED:
                raise InvariantError(f"{self.key} is still started after {decision.event}")
            case unreachable:
                assert_never(unreachable)

    @property
    def _job_fields(self) -> Any:  # noqa: ANN401  # the fields that every outcome of a job has
        return {"job_key": self.key, "job_type": self.contract.job_type}
