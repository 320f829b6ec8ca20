"""Writes a decision to the row, and sees through what can happen to that write."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from oncely.domain.answers import Answer, Done, Refused
from oncely.domain.decide import late_answer, local_rows_refuse
from oncely.domain.due import told
from oncely.domain.errors import UnavailableError
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.moves import Decision
from oncely.domain.profiles import Terms
from oncely.domain.text import one_line
from oncely.domain.writes import LocalWrite
from oncely.ports import Alert, Alerts, Clock, JobStore, LocalRefused, Overtaken, Written

# Each round was lost to someone who added evidence in that very moment; that does not go on.
_ROUNDS: Final = 5


@dataclass(frozen=True)
class Settlement:
    """What stands in the row now; None for `job` when it is not ours to say."""

    decision: Decision
    job: Job | None


@dataclass(frozen=True, kw_only=True)
class Settler:
    """The one way a decision reaches a row."""

    store: JobStore
    alerts: Alerts
    clock: Clock
    actor: str

    def settle(
        self,
        job: Job,
        decision: Decision,
        *,
        terms: Terms | None = None,
        answer: Answer | None = None,
        local: Callable[[Job], Sequence[LocalWrite]] = lambda _: (),
    ) -> Settlement:
        """Write `decision`; if the row was lost meanwhile, keep a definite answer as evidence."""
        for _ in range(_ROUNDS):
            after = decision.on(job, now=self.clock.now(), actor=self.actor)
            match self.store.swap(job, after, local=local(after)):
                case Written(job=written):
                    if decision.alert:
                        written = self.tell(written, decision.reason)
                    return Settlement(decision, written)
                case LocalRefused(why=why):
                    decision = local_rows_refuse(
                        job, terms, decision, why=why, now=self.clock.now()
                    )
                    local = _nothing
                case Overtaken(row=row) if row is not None and job.still_stands_in(row):
                    job = row  # someone left evidence on it: decide the same over that
                case Overtaken(row=row):
                    self._keep_as_evidence(row, job, answer)
                    return Settlement(decision, None)
        return self._give_up(job)

    def tell(self, job: Job, reason: str) -> Job:
        """Tell a person; a job that nobody could be told of stays due, and is told later."""
        if not self.alerts.tell(alert_for(job, reason)):
            return job
        after = told().on(job, now=self.clock.now(), actor=self.actor)
        return after if isinstance(self.store.swap(job, after), Written) else job

    def _keep_as_evidence(self, row: Job | None, job: Job, answer: Answer | None) -> None:
        if not isinstance(answer, Done | Refused):
            return
        for _ in range(_ROUNDS):
            if row is None:
                # Never make a row here: one without its history would block the key for good.
                self.alerts.tell(alert_for(job, f"its row is gone, and now: {answer.reason}"))
                return
            decision = late_answer(row, answer, fence=job.fence)
            after = decision.on(row, now=self.clock.now(), actor=self.actor)
            match self.store.swap(row, after):
                case Overtaken(row=newer):
                    row = newer
                case _:
                    if decision.alert:
                        self.tell(after, decision.reason)
                    return
        self._give_up(job)

    def _give_up(self, job: Job) -> Settlement:
        raise UnavailableError(
            f"the row of {job.job_key} changed {_ROUNDS} times while it was being written"
        )


def alert_for(job: Job, reason: str) -> Alert:
    """What a person is told: what is known, and which command to run next."""
    known = [
        f"Job: {job.job_key}",
        f"Status: {job.status.in_words} ({job.status})",
        f"Why: {one_line(reason)}",
        f"Attempts: {job.attempts}",
        f"Provider reference: {job.provider_ref or 'none saved'}",
        f"Customer: {job.customer_id or 'not known'}",
        f"Next: {look_at(job.job_key)}",
    ]
    return Alert(
        subject=f"Oncely: {job.job_key} {job.status.in_words}",
        text="\n".join(known),
        job_key=job.job_key,
    )


def look_at(key: JobKey) -> str:
    """The command that shows a job; its key holds no character that a shell would take."""
    row = f'{{"job_key": {{"S": "{key}"}}}}'
    return f"aws dynamodb get-item --table-name \"$JOBS_TABLE\" --key '{row}'"


def _nothing(_: Job) -> Sequence[LocalWrite]:
    return ()
