"""Resolves one thing that is due: asks the provider and records the answer; it never acts.

Nor does it alert an operator: it says that an alert is owed, and its caller sees to that.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from oncely.contract import AnyContract, Message, Mismatch, body_of
from oncely.domain.answers import Answer, OwnerGone, Unreachable
from oncely.domain.decide import decide, of_another_deployment
from oncely.domain.due import Step, due_step, looked_at, no_longer_the_same, send_again
from oncely.domain.errors import BadInputError
from oncely.domain.fingerprint import fingerprint
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Event, Status
from oncely.domain.moves import MESSAGE_GRACE, Decision, escalate
from oncely.domain.writes import Json, LocalWrite
from oncely.ports import (
    Clock,
    Created,
    JobStore,
    Outbox,
    TableGuard,
    TableOpen,
    TableRefused,
    Tools,
    Written,
)
from oncely.registry import Registry
from oncely.services.asking import Heard, heard_about
from oncely.services.new_row import new_row
from oncely.services.publish import Publisher
from oncely.services.settle import Settlement, Settler

ACTOR: Final = "reconciler"
GONE: Final = "gone"
FENCED: Final = "fenced"


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """What was done about one job, or would be."""

    key: JobKey
    outcome: str
    old: Status | None = None
    new: Status | None = None
    reason: str = ""
    unreachable: bool = False  # the provider could not say; counted apart
    alert: bool = False  # a person is to be told, and was not yet
    job: Job | None = None  # the row as it is now, or would be; None: it was left alone


@dataclass(frozen=True, kw_only=True)
class Reconciler:
    """Brings an unresolved job one step further; two at once are harmless."""

    registry: Registry
    tools: Tools
    store: JobStore
    clock: Clock
    spread: Callable[[], float]
    outbox: Callable[[str], Outbox]
    publisher: Publisher
    guard: TableGuard
    actor: str = ACTOR  # or the person who asked for this very job

    def resolve(
        self,
        key: JobKey,
        *,
        message: Mapping[str, Json] | None = None,
        asked_for: bool = False,
        dry_run: bool = False,
    ) -> Resolution:
        """Look at one row and do what is due; a dry run says what it would do."""
        table = self.guard.check()
        if isinstance(table, TableRefused):
            return Resolution(key=key, outcome=FENCED, reason=table.reason)
        row = self.store.get(key)
        if row is None:
            return self._make(key, message, table, dry_run=dry_run)
        match due_step(row, self.clock.now(), asked_for=asked_for):
            case Step.NOTHING:
                return _nothing(row)
            case Step.PUBLISH:
                return self._publish(row, dry_run=dry_run)
            case Step.TELL:
                return _review(row, row.last_error or "it needs review", dry_run=dry_run)
            case step:
                return self._work(row, step, table, dry_run=dry_run)

    def hold(self, row: Job) -> Job | None:
        """Move the due time on, so that what cannot be resolved now makes room for what can."""
        held = looked_at(row, self.clock.now(), jitter=self.spread())
        written = self.store.swap(row, held)
        return written.job if isinstance(written, Written) else None

    def _publish(self, row: Job, *, dry_run: bool) -> Resolution:
        if not dry_run and self.hold(row) is None:
            return _nothing(row)
        if not dry_run:
            self.publisher.publish(row.job_key)
        return _resolution(row, "published", row.status, "what it owes was not sent yet")

    def _work(self, row: Job, step: Step, table: TableOpen, *, dry_run: bool) -> Resolution:
        try:
            kind, read = self.registry.read(row.message)
        except BadInputError as error:
            return self._unreadable(row, str(error), dry_run=dry_run)
        return _Look(self, kind(self.tools), read, dry_run, table).take(row, step)

    def _make(
        self, key: JobKey, message: Mapping[str, Json] | None, table: TableOpen, *, dry_run: bool
    ) -> Resolution:
        """Our own rows ask for a job that nobody enqueued: a row, then its message."""
        if message is None:
            return Resolution(key=key, outcome=GONE, reason="there is no such job")
        if not table.knows_every_job(self.clock.now()):
            return Resolution(key=key, outcome=GONE, reason="its row may be lost in a restore")
        kind, read = self.registry.read(message)
        reason = "our own rows ask for it, and no job existed"
        made = Resolution(key=key, outcome="ready", new=Status.READY, reason=reason)
        if dry_run:
            return made
        now = self.clock.now()
        due_at = now + MESSAGE_GRACE
        job = new_row(kind, read, now=now, due_at=due_at, actor=ACTOR, reason=reason)
        if isinstance(self.store.create(job), Created):
            self.send(kind, job)
        return made

    def _unreadable(self, row: Job, why: str, *, dry_run: bool) -> Resolution:
        """A row of a job type, or a version, that this deployment does not know."""
        decision = escalate(f"this deployment cannot read its message: {why}")
        if not dry_run and self.settler().settle(row, decision).job is None:
            return _nothing(row)
        return _review(row, decision.reason, dry_run=dry_run)

    @property
    def row_retention(self) -> timedelta:
        """How long the stage keeps the row of a natural effect."""
        return self.publisher.row_retention

    def send(self, kind: type[AnyContract], job: Job) -> None:
        """Send the job's message; if this fails, the row falls due again."""
        self.outbox(kind.needs.queue).send([body_of(job.message)])

    def settler(self) -> Settler:
        """The one way a decision reaches a row; without a teller, a review stays due."""
        return Settler(
            store=self.store,
            clock=self.clock,
            actor=self.actor,
            row_retention=self.row_retention,
        )


@dataclass(frozen=True)
class _Look:
    """One look at one row."""

    reconciler: Reconciler
    contract: AnyContract
    message: Message
    dry_run: bool
    table: TableOpen

    def take(self, row: Job, step: Step) -> Resolution:
        match step:
            case Step.SEND:
                return self._send(row)
            case Step.BURY:
                return self._bury(row)
            case _:
                # Two sweeps at once may both ask: that changes nothing, and one of them writes.
                return self._ask(row, row.status)

    def _send(self, row: Job) -> Resolution:
        now = self.reconciler.clock.now()
        decision = self._no_longer_the_same(row) or send_again(row, self.contract.terms, now)
        settled = self._write(row, decision)
        if settled.job and decision.event is Event.RESEND and not self.dry_run:
            self.reconciler.send(type(self.contract), settled.job)
        return self._told(row, settled)

    def _no_longer_the_same(self, row: Job) -> Decision | None:
        try:
            standing = self.contract.check(self.message)
        except Exception:  # noqa: BLE001  # a worker will say what is wrong; age ends it
            return None
        if isinstance(standing, Mismatch):
            return escalate(standing.reason)
        values = standing.values
        return no_longer_the_same(row, None if values is None else fingerprint(values))

    def _bury(self, row: Job) -> Resolution:
        """The owner is dead; whether it had acted is asked at once."""
        decision = self._decide(row, OwnerGone(), self.reconciler.clock.now())
        settled = self._write(row, decision)
        job = settled.job
        if job is None or due_step(job, self.reconciler.clock.now()) is not Step.ASK:
            self._wake(settled)
            return self._told(row, settled)
        return self._ask(job, row.status)

    def _ask(self, row: Job, old: Status) -> Resolution:
        # Before the question: an answer may be old by the time that it is judged.
        asked_at = self.reconciler.clock.now()
        deployment = self.table.deployment
        if elsewhere := of_another_deployment(row, self.contract.terms, deployment):
            return self._told(row, self._write(row, elsewhere), old)
        heard = heard_about(row, self.contract, self.message, self.table)
        return self._answered(row, old, heard, asked_at)

    def _answered(self, row: Job, old: Status, heard: Heard, asked_at: datetime) -> Resolution:
        """Record an answer; without facts there is nothing local to write."""
        answer, facts = heard.answer, heard.facts
        decision = self._decide(_with(row, heard), answer, asked_at)
        decision = replace(decision, changes={**heard.found, **decision.changes})
        settled = self._write(
            row,
            decision,
            answer,
            lambda after: (
                ()
                if facts is None
                else self.contract.local_writes(decision.event, facts, after, answer)
            ),
        )
        self._wake(settled)
        told = self._told(row, settled, old)
        return replace(told, unreachable=isinstance(answer, Unreachable))

    def _decide(self, row: Job, answer: Answer, now: datetime) -> Decision:
        reconciler = self.reconciler
        return decide(
            row,
            self.contract.terms,
            answer,
            now=now,
            scope=self.contract.scope(),
            spread=reconciler.spread(),
        )

    def _write(
        self,
        row: Job,
        decision: Decision,
        answer: Answer | None = None,
        local: Callable[[Job], Sequence[LocalWrite]] = lambda _: (),
    ) -> Settlement:
        now = self.reconciler.clock.now()
        if self.dry_run:
            return Settlement(decision, decision.on(row, now=now, actor=self.reconciler.actor))
        settler = self.reconciler.settler()
        return settler.settle(row, decision, contract=self.contract, answer=answer, local=local)

    def _wake(self, settled: Settlement) -> None:
        """A job that may run at once gets its message now; a later one when it falls due."""
        now, run_at = self.reconciler.clock.now(), settled.decision.run_at
        if settled.job and run_at and run_at <= now and not self.dry_run:
            self.reconciler.send(type(self.contract), settled.job)

    def _told(self, row: Job, settled: Settlement, old: Status | None = None) -> Resolution:
        """What a settlement means for whoever runs the next step."""
        decision, job = settled.decision, settled.job
        if settled.orphan:
            return Resolution(key=row.job_key, outcome=GONE, reason=settled.orphan, alert=True)
        if job is None:
            return _nothing(row)
        done = _resolution(row, job.status, job.status, decision.reason, old)
        return replace(done, alert=decision.alert and not self.dry_run, job=job)


def _with(row: Job, heard: Heard) -> Job:
    """The row with what it had lost, such as the reference of a payment that was found."""
    return replace(row, **heard.found)  # type: ignore[arg-type]  # a mapping of fields by name


def _review(row: Job, reason: str, *, dry_run: bool) -> Resolution:
    review = Status.NEEDS_REVIEW
    return replace(_resolution(row, review, review, reason), alert=not dry_run)


def _nothing(row: Job) -> Resolution:
    return _resolution(row, "nothing", row.status, "another has it, or nothing is due")


def _resolution(
    row: Job, outcome: str, new: Status, reason: str, old: Status | None = None
) -> Resolution:
    return Resolution(
        key=row.job_key, outcome=outcome, old=old or row.status, new=new, reason=reason
    )
