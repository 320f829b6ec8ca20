"""A person's repairs: each conditional on the version that was seen, and evidence with a name."""

from dataclasses import dataclass, replace
from typing import Final, assert_never

from oncely.contract import AnyContract, Message, body_of
from oncely.domain.answers import (
    Absent,
    CannotAsk,
    Odd,
    Prepared,
    Refused,
    StillOpen,
    Unreachable,
    in_a_word,
)
from oncely.domain.decide import found_again
from oncely.domain.errors import BadInputError
from oncely.domain.jobs import Job
from oncely.domain.moves import Decision
from oncely.domain.repairs import (
    Offer,
    Repair,
    came_to,
    close_first,
    is_its_own_proof,
    needs_closing,
    note,
    offer,
    reopen,
    resend,
    tried_again,
    unread_offer,
)
from oncely.domain.text import masked
from oncely.ports import TableOpen, TableRefused
from oncely.services.asking import Heard, found_reference, heard_about, heard_if_closed
from oncely.services.enqueue import Enqueuer
from oncely.services.job_view import kind_of
from oncely.services.reconcile import Reconciler
from oncely.services.repair_order import (
    Changed,
    LocalRowsRefuse,
    NoAnswer,
    NoSuchJob,
    NotAllowed,
    Outcome,
    Repaired,
    RepairOrder,
    WouldRepair,
)
from oncely.services.repair_write import RepairWrite
from oncely.services.ruling import Ruling, cannot_be_claimed, changed_since


@dataclass(frozen=True, kw_only=True)
class Repairer:
    """Does what a person asks, if the job is still as it was seen and the life cycle allows it."""

    reconciler: Reconciler
    enqueuer: Enqueuer

    def repair(self, order: RepairOrder) -> Outcome:
        """One repair; a dry run asks as well, and writes nothing."""
        table = self.reconciler.guard.check()
        if isinstance(table, TableRefused):
            return NotAllowed(table.reason)
        row = self.reconciler.store.get(order.key)
        if row is None:
            return NoSuchJob()
        if row.version != order.version:
            return Changed(row)
        try:
            kind, message = self.reconciler.registry.read(row.message)
        except BadInputError:
            return self._closed(row, order)
        offered = offer(
            row,
            kind.terms,
            order.repair,
            now=self.reconciler.clock.now(),
            has_another_attempt=kind.another_attempt(message) is not None,
        )
        if refusal := _refusal(offered, order):
            return refusal
        return _Repair(self, order, kind(self.reconciler.tools), message, table).of(row)

    def _closed(self, row: Job, order: RepairOrder) -> Outcome:
        """This deployment cannot read its message: a person can end it, and no more."""
        kind = kind_of(row, self.reconciler.registry)
        offered = unread_offer(row, None if kind is None else kind.terms, order.repair)
        return _refusal(offered, order) or Ruling(RepairWrite(self.reconciler, order)).alone(row)


# Both say that nothing is charged, or could be: without a reference the row alone proves neither.
_NEEDS_ITS_REFERENCE: Final = frozenset({Repair.RETURN, Repair.FAIL})


def _refusal(offered: Offer, order: RepairOrder) -> NotAllowed | None:
    """Why it is not done; None: it is offered, and all that it needs was given."""
    if not offered.allowed:
        return NotAllowed(offered.why)
    if offered.needs_reference and order.reference is None and not order.dry_run:
        return NotAllowed("give the reference that the provider shows for it")
    return None


@dataclass(frozen=True)
class _Repair:
    """One repair that is allowed."""

    repairer: Repairer
    order: RepairOrder
    contract: AnyContract
    message: Message
    table: TableOpen

    def of(self, row: Job) -> Outcome:
        if self.order.repair in _NEEDS_ITS_REFERENCE and (outcome := self._found_again(row)):
            return outcome
        match self.order.repair:
            case Repair.ASK if row.unresolved:
                return self._resolve(row)
            case Repair.ASK:
                return self._hear(row)
            case Repair.RETURN:
                return self._return(row)
            case Repair.FAIL if needs_closing(row, self.contract.terms):
                return self._fail_closed(row)
            case Repair.FINISH | Repair.FAIL:
                return Ruling(self._write).with_our_rows(row, self.contract, self.message)
            case Repair.RESEND:
                return self._resend(row)
            case Repair.AGAIN:
                return self._again(row)
            case unreachable:
                assert_never(unreachable)

    def _found_again(self, row: Job) -> Outcome | None:
        """A restored row may lack the reference that the repair rests on: it is saved first."""
        found = found_reference(row, self.contract, self.message, self.table)
        match found:
            case None | Absent():
                return None
            case Prepared(ref=ref):
                saved = note(f"{found_again(ref).reason}; {self.order.reason}")
                named = {
                    "provider_ref": ref,
                    "deployment": row.deployment or self.table.deployment,
                }
                said = f"{ref} was found, and is saved with the job: look at it, and repair again"
                return self._write.over(row, replace(saved, changes=named), said)
            case Unreachable(reason=reason):
                return NoAnswer(self._said("no answer", reason))
            case answer:
                return NotAllowed(self._said(in_a_word(answer), answer.reason))

    def _resolve(self, row: Job) -> Outcome:
        """What the reconciler does with a job that was asked for, in the person's name."""
        noted: Outcome = self._write.over(row, note(f"asked the provider: {self.order.reason}"))
        if isinstance(noted, Changed):
            return noted
        reconciler = replace(self.repairer.reconciler, actor=self._write.actor)
        done = reconciler.resolve(row.job_key, asked_for=True, dry_run=self.order.dry_run)
        if done.job is None:
            return Changed(reconciler.store.get(row.job_key) or row)
        if done.unreachable:
            return NoAnswer(self._said("no answer", done.reason))
        return self._told(row, done.job, self._said(came_to(done.job), done.reason))

    def _hear(self, row: Job) -> Outcome:
        """A job that a person owns: the answer is noted, and the person decides."""
        heard = heard_about(row, self.contract, self.message, self.table)
        if refusal := self._not_heard(heard):
            return refusal
        said = self._said(in_a_word(heard.answer), heard.answer.reason)
        return self._write.over(row, note(f"asked the provider: {self.order.reason}; {said}"), said)

    def _return(self, row: Job) -> Outcome:
        asked_at = self.repairer.reconciler.clock.now()
        heard: Heard | None = None
        if not is_its_own_proof(row, self.contract.terms):
            if why := changed_since(row, self.contract.check(self.message)):
                return LocalRowsRefuse(why)
            heard = heard_about(row, self.contract, self.message, self.table)
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

    def _fail_closed(self, row: Job) -> Outcome:
        """A job never fails while a payment of its own is open: that is closed first."""
        answer = heard_if_closed(row, self.contract)
        match answer:
            case Refused():
                return Ruling(self._write).with_our_rows(row, self.contract, self.message)
            case StillOpen():
                return self._close_first(row, answer)
            case Unreachable() | CannotAsk():
                return NoAnswer(self._said("no answer", answer.reason))
            case _:
                return NotAllowed(
                    f"{self._said(in_a_word(answer), answer.reason)}; "
                    "it has failed only when nothing was taken, or when all of it was returned"
                )

    def _close_first(self, row: Job, answer: StillOpen) -> Outcome:
        """Repairs only read: a worker closes it, and needs our own rows for that."""
        standing = self.contract.check(self.message)
        if why := cannot_be_claimed(row, standing):
            provider = self.contract.terms.profile.name
            return LocalRowsRefuse(
                f"{answer.reason}, and no worker can close it: {why}. Fix our own rows, or cancel "
                f"it at {provider}; then mark it as failed"
            )
        decision = close_first(
            row,
            reason=self.order.reason,
            reference=self.order.reference,
            now=self.repairer.reconciler.clock.now(),
        )
        said = f"{self._said(in_a_word(answer), answer.reason)}; a worker closes it first"
        return self._written_and_sent(row, decision, said)

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
        written = self._write.over(row, decision, f"{key} is sent")
        if not isinstance(written, Repaired):
            return written
        # The note above expires with its row; the new job keeps who decided on it.
        made = self.repairer.enqueuer.enqueue(
            another.as_json(),
            actor=self._write.actor,
            reason=f"after {row.job_key}: {self.order.reason}",
        )
        return _not_taken(written) if made.created and not made.sent else written

    def _written_and_sent(self, row: Job, decision: Decision, said: str) -> Outcome:
        outcome = self._write.over(row, decision, said)
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
    def _write(self) -> RepairWrite:
        return RepairWrite(self.repairer.reconciler, self.order)

    def _said(self, word: str, reason: str) -> str:
        return f"{self.contract.terms.profile.name} says: {word}, {masked(reason)}"


def _not_taken(done: Repaired) -> Repaired:
    """The row is written, and carries the job; a person must not wait for a worker meanwhile."""
    later = f"{done.said}; its queue did not take the message, so it is sent when the row falls due"
    return replace(done, said=later)
