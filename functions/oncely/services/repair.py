"""A person's repairs: each conditional on the version that was seen, and evidence with a name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, assert_never

from oncely.contract import AnyContract, Message, Mismatch, Settled, Standing, body_of
from oncely.domain.actors import person
from oncely.domain.answers import CannotAsk, Done, Odd, Unreachable, in_a_word
from oncely.domain.due import no_longer_the_same
from oncely.domain.errors import BadInputError, InvalidRequestError
from oncely.domain.fingerprint import fingerprint
from oncely.domain.jobs import Job
from oncely.domain.keys import MAX_KEY, MAX_PART, JobKey
from oncely.domain.moves import Decision
from oncely.domain.repairs import (
    Offer,
    Repair,
    came_to,
    done_by_another,
    is_its_own_proof,
    note,
    offer,
    reopen,
    resend,
    rule,
    tried_again,
    unread_offer,
)
from oncely.domain.text import MAX_REASON, masked
from oncely.domain.writes import LocalWrite
from oncely.ports import LocalRefused, Overtaken, Written
from oncely.services.asking import Heard, heard_about
from oncely.services.enqueue import Enqueuer
from oncely.services.job_view import kind_of
from oncely.services.reconcile import Reconciler


@dataclass(frozen=True, kw_only=True)
class RepairOrder:
    """What a person wants done, to the job as that person saw it, and why."""

    key: JobKey
    repair: Repair
    version: int
    reason: str
    actor: str
    reference: str | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        if not 0 < len(self.key) <= MAX_KEY:
            raise InvalidRequestError(f"a job key has 1 to {MAX_KEY} characters")
        # A dry run may be a first look: the reason comes with the deed.
        if not self.reason.strip() and not self.dry_run:
            raise InvalidRequestError("say why: the reason is kept with the job")
        if len(self.reason) > MAX_REASON:
            raise InvalidRequestError(f"a reason has at most {MAX_REASON} characters")
        if not self.actor.strip():
            raise InvalidRequestError("a repair needs the name of the person")
        ref = self.reference
        if ref is not None and not (ref.strip() and ref.isprintable() and len(ref) <= MAX_PART):
            raise InvalidRequestError(
                f"a reference is the provider's id, printable, of at most {MAX_PART} characters"
            )


@dataclass(frozen=True)
class Repaired:
    """It is done; `said` is what was heard outside, in words."""

    before: Job
    after: Job
    said: str


@dataclass(frozen=True)
class WouldRepair:
    """A dry run: what the job would be, and what was heard."""

    after: Job
    said: str


@dataclass(frozen=True)
class NotAllowed:
    """The life cycle, or what was heard, does not allow it."""

    why: str


@dataclass(frozen=True)
class Changed:
    """The job is not the one that the person saw; nothing was done."""

    now: Job


@dataclass(frozen=True)
class NoSuchJob:
    """There is no row of this key."""


@dataclass(frozen=True)
class LocalRowsRefuse:
    """Our own rows do not take it; nothing was changed."""

    why: str


@dataclass(frozen=True)
class NoAnswer:
    """The provider could not say."""

    why: str


Outcome: TypeAlias = (
    Repaired | WouldRepair | NotAllowed | Changed | NoSuchJob | LocalRowsRefuse | NoAnswer
)


@dataclass(frozen=True, kw_only=True)
class Repairer:
    """Does what a person asks, if the job is still as it was seen and the life cycle allows it."""

    reconciler: Reconciler
    enqueuer: Enqueuer

    def repair(self, order: RepairOrder) -> Outcome:
        """One repair; a dry run asks as well, and writes nothing."""
        row = self.reconciler.store.get(order.key)
        if row is None:
            return NoSuchJob()
        if row.version != order.version:
            return Changed(row)
        try:
            kind, message = self.reconciler.registry.read(row.message)
        except BadInputError:
            return self._close(row, order)
        offered = offer(
            row,
            kind.terms,
            order.repair,
            now=self.reconciler.clock.now(),
            has_another_attempt=kind.another_attempt(message) is not None,
        )
        if refusal := _refusal(offered, order):
            return refusal
        return _Repair(self, order, kind(self.reconciler.tools), message).of(row)

    def _close(self, row: Job, order: RepairOrder) -> Outcome:
        """A job whose message cannot be read here ends by a person's word, and by that alone."""
        kind = kind_of(row, self.reconciler.registry)
        offered = unread_offer(row, None if kind is None else kind.terms, order.repair)
        if refusal := _refusal(offered, order):
            return refusal
        decision = rule(
            row,
            order.repair,
            reason=f"closed without our own rows: {order.reason}",
            reference=order.reference,
            now=self.reconciler.clock.now(),
        )
        said = "a person's word; our own rows are not changed, mend them by hand"
        return _Writing(self.reconciler, order).write(row, decision, said)


def _refusal(offered: Offer, order: RepairOrder) -> NotAllowed | None:
    """Why it is not done; None: it is offered, and all that it needs was given."""
    if not offered.allowed:
        return NotAllowed(offered.why)
    if offered.needs_reference and order.reference is None and not order.dry_run:
        return NotAllowed("give the reference that the provider shows for it")
    return None


@dataclass(frozen=True)
class _Writing:
    """What a person's repair writes: over exactly the row that the person saw, in their name."""

    reconciler: Reconciler
    order: RepairOrder

    @property
    def actor(self) -> str:
        return person(self.order.actor)

    def write(
        self,
        row: Job,
        decision: Decision,
        said: str = "",
        *,
        local: Callable[[Job], Sequence[LocalWrite]] = lambda _: (),
    ) -> Repaired | WouldRepair | Changed | LocalRowsRefuse:
        after = decision.on(row, now=self.reconciler.clock.now(), actor=self.actor)
        if self.order.dry_run:
            return self._would_write(after, said, local(after))
        match self.reconciler.store.swap(row, after, local=local(after)):
            case Written(job=job):
                return Repaired(row, job, said)
            case Overtaken(row=now):
                return Changed(now or row)
            case LocalRefused(why=why):
                return LocalRowsRefuse(why)

    def _would_write(
        self, after: Job, said: str, local: Sequence[LocalWrite]
    ) -> WouldRepair | LocalRowsRefuse:
        """Read the rows that would go along: what they refuse now must not be promised."""
        table = self.reconciler.tools.table
        refused = [str(one) for one in local if not one.fits(table(one.table).get(one.key))]
        return LocalRowsRefuse(", ".join(refused)) if refused else WouldRepair(after, said)


@dataclass(frozen=True)
class _Repair:
    """One repair that is allowed."""

    repairer: Repairer
    order: RepairOrder
    contract: AnyContract
    message: Message

    def of(self, row: Job) -> Outcome:
        match self.order.repair:
            case Repair.ASK if row.unresolved:
                return self._resolve(row)
            case Repair.ASK:
                return self._hear(row)
            case Repair.RETURN:
                return self._return(row)
            case Repair.FINISH | Repair.FAIL:
                return self._rule(row)
            case Repair.RESEND:
                return self._resend(row)
            case Repair.AGAIN:
                return self._again(row)
            case unreachable:
                assert_never(unreachable)

    def _resolve(self, row: Job) -> Outcome:
        """What the reconciler does with a job that was asked for, in the person's name."""
        noted: Outcome = self._writing.write(row, note(f"asked the provider: {self.order.reason}"))
        if isinstance(noted, Changed):
            return noted
        reconciler = replace(self.repairer.reconciler, actor=self._writing.actor)
        done = reconciler.resolve(row.job_key, asked_for=True, dry_run=self.order.dry_run)
        if done.job is None:
            return Changed(reconciler.store.get(row.job_key) or row)
        if done.unreachable:
            return NoAnswer(self._said("no answer", done.reason))
        return self._told(row, done.job, self._said(came_to(done.job), done.reason))

    def _hear(self, row: Job) -> Outcome:
        """A job that a person owns: the answer is noted, and the person decides."""
        heard = heard_about(row, self.contract, self.message)
        if refusal := self._not_heard(heard):
            return refusal
        said = self._said(in_a_word(heard.answer), heard.answer.reason)
        return self._writing.write(
            row, note(f"asked the provider: {self.order.reason}; {said}"), said
        )

    def _return(self, row: Job) -> Outcome:
        asked_at = self.repairer.reconciler.clock.now()
        heard: Heard | None = None
        if not is_its_own_proof(row, self.contract.terms):
            if why := _moved_on(row, self.contract.check(self.message)):
                return LocalRowsRefuse(why)
            heard = heard_about(row, self.contract, self.message)
            if refusal := self._not_heard(heard):
                return refusal
        answer = None if heard is None else heard.answer
        decision = reopen(
            row, self.contract.terms, reason=self.order.reason, heard=answer, asked_at=asked_at
        )
        if isinstance(decision, str):
            return NotAllowed(decision)
        said = "the row is proof enough"
        if answer is not None:
            said = self._said(in_a_word(answer), answer.reason)
        return self._written_and_sent(row, decision, said)

    def _rule(self, row: Job) -> Outcome:
        decision = rule(
            row,
            self.order.repair,
            reason=self.order.reason,
            reference=self.order.reference,
            now=self.repairer.reconciler.clock.now(),
        )
        local = self._local_writes(row, decision)
        if isinstance(local, str):
            return LocalRowsRefuse(local)
        return self._writing.write(row, decision, "a person's word", local=local)

    def _resend(self, row: Job) -> Outcome:
        now = self.repairer.reconciler.clock.now()
        decision = resend(row, self.contract.terms, reason=self.order.reason, now=now)
        return self._written_and_sent(row, decision, "its message is sent again")

    def _again(self, row: Job) -> Outcome:
        """The first job stays as it is; the new one runs only while it does."""
        another = type(self.contract).another_attempt(self.message)
        if another is None:
            return NotAllowed("this kind of job has no second attempt")
        key = type(self.contract).key(another)
        if (there := self.repairer.reconciler.store.get(key)) is not None:
            return NotAllowed(f"the next attempt is there already: {key} is {there.status}")
        decision = tried_again(
            row,
            self.contract.terms,
            as_key=key,
            reason=self.order.reason,
            now=self.repairer.reconciler.clock.now(),
        )
        written = self._writing.write(row, decision, f"{key} is sent")
        if not isinstance(written, Repaired):
            return written
        # The note above expires with its row; the new job keeps who decided on it.
        made = self.repairer.enqueuer.enqueue(
            another.as_json(),
            actor=self._writing.actor,
            reason=f"after {row.job_key}: {self.order.reason}",
        )
        return _not_taken(written) if made.created and not made.sent else written

    def _local_writes(
        self, row: Job, decision: Decision
    ) -> Callable[[Job], Sequence[LocalWrite]] | str:
        """The business rows that go along with a person's word, or why they cannot."""
        finishes = self.order.repair is Repair.FINISH
        standing = self.contract.check(self.message)
        if isinstance(standing, Settled) and isinstance(standing.answer, Done) and finishes:
            writes = standing.writes
            return lambda _: writes  # our rows say so already
        if isinstance(standing, Settled) and done_by_another(row, standing.answer):
            return lambda _: ()  # what another did stays done
        moved_on = _moved_on(row, standing)
        facts = None if isinstance(standing, Mismatch) or moved_on else standing.facts
        if facts is not None:
            answer = Done(self.order.reason)
            return lambda after: self.contract.local_writes(decision.event, facts, after, answer)
        if finishes:
            why = moved_on or "our own rows do not tell any more what was asked for"
            return f"{why}: mend them, or undo it outside and mark it as failed"
        # What is not done outside changes none of our rows, whatever they say by now.
        return lambda _: ()

    def _written_and_sent(self, row: Job, decision: Decision, said: str) -> Outcome:
        outcome = self._writing.write(row, decision, said)
        if not isinstance(outcome, Repaired):
            return outcome
        # If this fails, the row falls due, and is sent then.
        outbox = self.repairer.reconciler.outbox(self.contract.needs.queue)
        sent = all(outbox.send([body_of(outcome.after.message)]))
        return outcome if sent else _not_taken(outcome)

    def _not_heard(self, heard: Heard) -> LocalRowsRefuse | NoAnswer | None:
        """Why there is no answer of the provider's; None: there is one."""
        match heard:
            case Heard(facts=None, answer=Odd(reason=reason)):
                return LocalRowsRefuse(f"{reason}: mend our own rows first")
            case Heard(answer=Unreachable(reason=reason) | CannotAsk(reason=reason)):
                return NoAnswer(self._said("no answer", reason))
            case _:
                return None

    def _told(self, row: Job, job: Job, said: str) -> Repaired | WouldRepair:
        if not self.order.dry_run:
            return Repaired(row, job, said)
        unchecked = "; whether our own rows take it is seen when it is done" if job.ended else ""
        return WouldRepair(job, said + unchecked)

    @property
    def _writing(self) -> _Writing:
        return _Writing(self.repairer.reconciler, self.order)

    def _said(self, word: str, reason: str) -> str:
        return f"{self.contract.terms.profile.name} says: {word}, {masked(reason)}"


def _not_taken(done: Repaired) -> Repaired:
    """The row is written, and carries the job; a person must not wait for a worker meanwhile."""
    later = f"{done.said}; its queue did not take the message, so it is sent when the row falls due"
    return replace(done, said=later)


def _moved_on(row: Job, standing: Standing[Any]) -> str | None:
    """What our own rows say by now, if it is not what a worker claimed the job for."""
    if isinstance(standing, Mismatch):
        return standing.reason
    if isinstance(standing, Settled) and isinstance(standing.answer, Odd):
        return standing.answer.reason
    values = standing.values
    decision = no_longer_the_same(row, None if values is None else fingerprint(values))
    return None if decision is None else decision.reason
