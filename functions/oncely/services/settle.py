"""Writes a decision to the row, and sees through what can happen to that write."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from oncely.contract import AnyContract
from oncely.domain.answers import Answer, Done, Refused
from oncely.domain.decide import late_answer, local_rows_refuse
from oncely.domain.due import mine_to_tell
from oncely.domain.errors import UnavailableError
from oncely.domain.jobs import Job
from oncely.domain.moves import Decision
from oncely.domain.writes import LocalWrite
from oncely.ports import Clock, JobStore, LocalRefused, Overtaken, Written
from oncely.services.ending import with_proof
from oncely.services.tell import Teller

# Each round was lost to someone who added evidence in that very moment; that does not go on.
_ROUNDS: Final = 5


@dataclass(frozen=True)
class Settlement:
    """What stands in the row now; None for `job` when it is not ours to say."""

    decision: Decision
    job: Job | None
    orphan: str | None = None  # a definite answer that no row could take: its row is gone


@dataclass(frozen=True, kw_only=True)
class Settler:
    """The one way a decision reaches a row.

    Without a teller a review is left due: whoever runs the next step tells a person.
    """

    store: JobStore
    clock: Clock
    actor: str
    teller: Teller | None = None
    row_retention: timedelta | None = None  # the stage's, for natural effects

    def settle(
        self,
        job: Job,
        decision: Decision,
        *,
        contract: AnyContract | None = None,
        answer: Answer | None = None,
        local: Callable[[Job], Sequence[LocalWrite]] = lambda _: (),
    ) -> Settlement:
        """Write `decision`; if the row was lost meanwhile, keep a definite answer as evidence."""
        for _ in range(_ROUNDS):
            after = self._after(decision, job, contract)
            match self.store.swap(job, after, local=local(after)):
                case Written(job=written):
                    self._tell(decision, written)
                    return Settlement(decision, written)
                case LocalRefused(why=why):
                    terms = None if contract is None else contract.terms
                    decision = local_rows_refuse(
                        job, terms, decision, why=why, now=self.clock.now()
                    )
                    local = _nothing
                case Overtaken(row=row) if row is not None and job.still_stands_in(row):
                    job = row  # someone left evidence on it: decide the same over that
                case Overtaken(row=row):
                    return Settlement(decision, None, self._keep_as_evidence(row, job, answer))
        raise _kept_changing(job)

    def _after(self, decision: Decision, job: Job, contract: AnyContract | None = None) -> Job:
        """The row after a decision; if we tell of it, the same write takes the right to."""
        now = self.clock.now()
        after = with_proof(
            job,
            decision.on(job, now=now, actor=self.actor),
            contract,
            row_retention=self.row_retention,
            now=now,
        )
        return mine_to_tell(after, now) if decision.alert and self.teller else after

    def _tell(self, decision: Decision, written: Job) -> None:
        if decision.alert and self.teller:
            self.teller.deliver(written)

    def _keep_as_evidence(self, row: Job | None, job: Job, answer: Answer | None) -> str | None:
        """Add a definite answer to whatever stands in the row; gives it back if there is none."""
        if not isinstance(answer, Done | Refused):
            return None
        for _ in range(_ROUNDS):
            if row is None:
                # Never make a row here: one without its history would block the key for good.
                return f"its row is gone, and now: {answer.reason}"
            decision = late_answer(row, answer, fence=job.fence)
            after = self._after(decision, row)
            match self.store.swap(row, after):
                case Overtaken(row=newer):
                    row = newer
                case _:
                    self._tell(decision, after)
                    return None
        raise _kept_changing(job)


def _kept_changing(job: Job) -> UnavailableError:
    return UnavailableError(
        f"the row of {job.job_key} changed {_ROUNDS} times while it was being written"
    )


def _nothing(_: Job) -> Sequence[LocalWrite]:
    return ()
