"""One run of a worker: check, claim, act once, end in one transaction."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, assert_never

from oncely.contract import AnyContract, Message, Mismatch, Proceed, Settled, body_of
from oncely.domain.answers import Absent, Answer, Odd, OwnerGone
from oncely.domain.claims import Claim, Refusal, refused_claim, unmet
from oncely.domain.decide import before_effect, decide
from oncely.domain.errors import BadInputError, InvariantError
from oncely.domain.fingerprint import fingerprint
from oncely.domain.jobs import CLOCK_SKEW, Job
from oncely.domain.keys import JobKey, findable
from oncely.domain.lifecycle import Event, Status
from oncely.domain.moves import Decision
from oncely.domain.profiles import Safety
from oncely.domain.table_identity import lost_history
from oncely.domain.writes import LocalWrite
from oncely.ports import (
    Alerts,
    Claimed,
    ClaimRefused,
    Clock,
    JobStore,
    RequirementUnmet,
    TableGuard,
    TableOpen,
    TableRefused,
    Tools,
)
from oncely.registry import Registry
from oncely.services import alert_texts
from oncely.services.acting import Act, Acted, GaveWay
from oncely.services.deadline import Deadline
from oncely.services.outcomes import (
    Conflict,
    Continued,
    Duplicate,
    Failed,
    Fenced,
    Finished,
    HeldElsewhere,
    Invalid,
    NeedsReview,
    NothingSent,
    NotStarted,
    Orphaned,
    Outcome,
    OwnershipLost,
    Parked,
    Unknown,
)
from oncely.services.settle import Settlement, Settler
from oncely.services.tell import Teller

ACTOR: Final = "worker"


@dataclass(frozen=True, kw_only=True)
class JobRunner:
    """Runs one message to an outcome; whatever is repeated, the effect happens once."""

    registry: Registry
    tools: Tools
    store: JobStore
    alerts: Alerts
    clock: Clock
    new_token: Callable[[], str]
    spread: Callable[[], float]
    guard: TableGuard
    stack: str = ""  # names the deployment in alerts
    row_retention: timedelta | None = None  # the stage's, for natural effects

    def run(self, body: str, *, deadline: Deadline) -> Outcome:
        """Work one message."""
        try:
            kind, message = self.registry.parse(body)
            key = kind.key(message)
        except BadInputError as error:
            return Invalid(str(error))
        if not deadline.allows(kind.time_needed()):
            return NotStarted(job_key=key, job_type=kind.job_type)
        table = self.guard.check()
        if isinstance(table, TableRefused):
            return Fenced(job_key=key, job_type=kind.job_type, reason=table.reason)
        contract = kind(self.tools)
        for secret in kind.needs.secrets:
            self.tools.secret(secret)  # one that is missing is found before anything is claimed
        return _Run(self, contract, message, key, deadline, table).outcome()


@dataclass(frozen=True)
class _Run:
    """One message that is being worked."""

    runner: JobRunner
    contract: AnyContract
    message: Message
    key: JobKey
    deadline: Deadline
    table: TableOpen

    def outcome(self) -> Outcome:
        standing = self.contract.check(self.message)
        if isinstance(standing, Mismatch):
            return self._conflict(standing.reason)
        claim = self._claim(standing)
        result = self.runner.store.claim(claim)
        # A process that was frozen before its claim thaws on a table that was restored meanwhile.
        table = self.runner.guard.check()
        if isinstance(table, TableRefused):
            return Fenced(**self._names, reason=table.reason)
        match result:
            case Claimed(job=job):
                return self._claimed(job, standing, claim, table)
            case ClaimRefused(row=row):
                return self._refused(row, claim)
            case RequirementUnmet(other=other):
                return self._unmet(claim, other)
            case unreachable:
                assert_never(unreachable)

    def _claim(self, standing: Proceed[Any] | Settled[Any]) -> Claim:
        now = self.runner.clock.now()
        return Claim(
            job_key=self.key,
            job_type=self.contract.job_type,
            owner=self.runner.new_token(),
            now=now,
            # A call may begin until the deadline and run for its timeout; past this the owner
            # is certainly dead.
            lease_until=self.deadline.at + self.contract.terms.profile.request_timeout + CLOCK_SKEW,
            message=self.message.as_json(),
            fingerprint=None if standing.values is None else fingerprint(standing.values),
            customer_id=findable(standing.customer_id),
            subject=self.contract.indexed_subject(self.message),
            amount=None if standing.money is None else standing.money.amount,
            currency=None if standing.money is None else standing.money.currency,
            deployment=self.table.deployment,
            key_scope=self.contract.scope() if isinstance(standing, Proceed) else "",
            requires_failed=standing.requires_failed if isinstance(standing, Proceed) else None,
        )

    def _claimed(
        self, job: Job, standing: Proceed[Any] | Settled[Any], claim: Claim, table: TableOpen
    ) -> Outcome:
        """We own the row: act, and record what came of it."""
        if job.closing is not None:
            return self._close(job, standing, claim)
        if isinstance(standing, Settled):
            return self._end(job, standing.answer, lambda _event, _job: standing.writes)
        if forbidden := self._forbidden(job, claim):
            return self._settle(job, forbidden)
        return self._act(job, standing.facts, table)

    def _act(self, job: Job, facts: Any, table: TableOpen) -> Outcome:  # noqa: ANN401  # the contract's own type
        act = Act(contract=self.contract, deadline=self.deadline, keep=self._keep)
        done: Acted | GaveWay = Acted(job, Absent("nothing was lost"))
        if self._may_have_run(job, table):
            done = act.ask_first(job, facts)
        if isinstance(done, Acted) and isinstance(done.answer, Absent):
            done = act.perform(done.job, facts)
        match done:
            case Acted(job=kept, answer=answer):
                return self._end(
                    kept,
                    answer,
                    lambda event, after: self.contract.local_writes(event, facts, after, answer),
                )
            case GaveWay(reason=reason):
                return self._lost(reason)

    def _may_have_run(self, job: Job, table: TableOpen) -> bool:
        natural = self.contract.terms.safety is Safety.NATURAL
        return not natural and lost_history(job, table.replays_until)

    def _forbidden(self, job: Job, claim: Claim) -> Decision | None:
        return before_effect(
            job,
            self.contract.terms,
            scope=claim.key_scope,
            now=self.runner.clock.now(),
            deployment=claim.deployment,
        )

    def _close(self, job: Job, standing: Proceed[Any] | Settled[Any], claim: Claim) -> Outcome:
        """What was declined is still open: close it, whatever our own rows say by now."""
        if forbidden := self._forbidden(job, claim):
            return self._settle(job, forbidden)
        if standing.facts is None:
            untold = "it is still open, and our own rows do not tell any more what was asked for"
            return self._end(job, Odd(untold))
        act = Act(contract=self.contract, deadline=self.deadline, keep=self._keep)
        acted = act.close(job, standing.facts)

        def writes(event: Event, after: Job) -> Sequence[LocalWrite]:
            # What another did with our rows stays; what is not done outside changes none of them.
            if isinstance(standing, Settled) and event is Event.REFUSE:
                return ()
            return self.contract.local_writes(event, standing.facts, after, acted.answer)

        return self._end(acted.job, acted.answer, writes)

    def _keep(self, job: Job, decision: Decision) -> Job | None:
        return self._settler().settle(job, decision, contract=self.contract).job

    def _end(
        self,
        job: Job,
        answer: Answer,
        writes: Callable[[Event, Job], Sequence[LocalWrite]] = lambda _event, _job: (),
    ) -> Outcome:
        decision = decide(
            job,
            self.contract.terms,
            answer,
            now=self.runner.clock.now(),
            spread=self.runner.spread(),
        )
        return self._settle(job, decision, answer, writes)

    def _settle(
        self,
        job: Job,
        decision: Decision,
        answer: Answer | None = None,
        writes: Callable[[Event, Job], Sequence[LocalWrite]] = lambda _event, _job: (),
    ) -> Outcome:
        settlement = self._settler().settle(
            job,
            decision,
            contract=self.contract,
            answer=answer,
            local=lambda after: writes(decision.event, after),
        )
        if settlement.job and decision.fresh_message:
            return self._go_on(settlement.job)
        return self._told(settlement)

    def _go_on(self, job: Job) -> Continued:
        """A long job: the row is ready, and a fresh message has all its receives before it."""
        outbox = self.runner.tools.outbox(self.contract.needs.queue)
        sent = outbox.send([body_of(job.message)])
        return Continued(**self._names, progress=job.progress or {}, sent=all(sent))

    def _settler(self) -> Settler:
        runner = self.runner
        return Settler(
            store=runner.store,
            clock=runner.clock,
            actor=ACTOR,
            teller=self._teller(),
            row_retention=runner.row_retention,
        )

    def _teller(self) -> Teller:
        runner = self.runner
        return Teller(
            store=runner.store,
            alerts=runner.alerts,
            clock=runner.clock,
            actor=ACTOR,
            stack=runner.stack,
        )

    def _refused(self, row: Job, claim: Claim) -> Outcome:
        """Someone else's row stands: answer from it."""
        match refused_claim(row, claim):
            case Refusal.CONFLICT:
                return self._conflict("the same key was used before for other business values")
            case Refusal.ENDED:
                return Duplicate(**self._names, status=row.status, result=row.result or {})
            case Refusal.HELD:
                return HeldElsewhere(**self._names, until=row.lease_until or claim.now)
            case Refusal.ABANDONED:
                return self._end(row, OwnerGone())
            case Refusal.PARKED:
                return Parked(**self._names, status=row.status)
            case Refusal.RACED:
                return NothingSent(**self._names, until=claim.now, reason="lost a race to claim it")
            case unreachable:
                assert_never(unreachable)

    def _unmet(self, claim: Claim, other: Job | None) -> Outcome:
        """The other job has not failed."""
        row = self.runner.store.get(self.key)
        state = other.status.in_words if other else "not there"
        reason = f"{claim.requires_failed} must have failed, it is {state}"
        decision = unmet(row, reason)
        if row is None or decision is None:
            return self._conflict(reason)
        return self._settle(row, decision)

    def _conflict(self, reason: str) -> Conflict:
        alert = alert_texts.conflict(self.key, reason, stack=self.runner.stack)
        told = self.runner.alerts.tell(alert)
        return Conflict(**self._names, reason=reason, told=told)

    def _lost(self, reason: str) -> OwnershipLost:
        return OwnershipLost(**self._names, reason=reason)

    def _told(self, settlement: Settlement) -> Outcome:
        """The outcome that the written row stands for."""
        job, decision = settlement.job, settlement.decision
        if settlement.orphan and isinstance(table := self.runner.guard.check(), TableRefused):
            # Lost with its table: the message comes again, and asks before it acts.
            return Fenced(**self._names, reason=table.reason)
        if settlement.orphan:
            self._teller().gone(self.key, settlement.orphan)
            return Orphaned(**self._names, reason=settlement.orphan)
        if job is None:
            return self._lost(decision.reason)
        match job.status:
            case Status.FINISHED:
                return Finished(**self._names, result=job.result or {})
            case Status.FAILED:
                return Failed(**self._names, reason=decision.reason, result=job.result or {})
            case Status.UNKNOWN:
                return Unknown(**self._names, reason=decision.reason)
            case Status.NEEDS_REVIEW:
                return NeedsReview(**self._names, reason=decision.reason)
            case Status.READY:
                return NothingSent(
                    **self._names,
                    until=decision.run_at or job.updated_at,
                    reason=decision.reason,
                    alarm=decision.alarm,
                    row_resends=decision.row_resends,
                )
            case Status.STARTED:
                raise InvariantError(f"{self.key} is still started after {decision.event}")
            case unreachable:
                assert_never(unreachable)

    @property
    def _names(self) -> Any:  # noqa: ANN401  # the two fields that every outcome of a job has
        return {"job_key": self.key, "job_type": self.contract.job_type}
