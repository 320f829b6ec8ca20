"""Tells a person of a job that needs review: one alert, however many try to at once."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from oncely.domain.due import Step, due_step, looked_at, may_tell, told
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.ports import Alerts, Clock, JobStore, Overtaken, Written
from oncely.services import alert_texts

# Each round was lost to someone who added evidence in that very moment; that does not go on.
_ROUNDS: Final = 5


class Telling(StrEnum):
    """What became of the wish to tell."""

    TOLD = "told"
    NOT_DUE = "not due"  # a person knows, or another is telling one
    LATER = "not delivered"  # the job stays due, and is told by a later sweep

    @property
    def delivered(self) -> bool:
        """Whether nothing is left to do about it."""
        return self is not Telling.LATER


@dataclass(frozen=True, kw_only=True)
class Teller:
    """Whoever tells has taken the right to by a conditional write first.

    The right is the due time: a review that is due may be taken, one that is due later was.
    It ends by itself, so that a crash between taking and telling ends in a later alert.
    """

    store: JobStore
    alerts: Alerts
    clock: Clock
    actor: str
    stack: str = ""  # names the deployment in the commands that people are given
    jitter: Callable[[], float] = lambda: 0.0  # drawn where several may take the right at once

    def tell(self, key: JobKey) -> Telling:
        """Take the right to tell of a job that is due for it, and tell."""
        now = self.clock.now()
        row = self.store.get(key)
        if row is None or due_step(row, now) is not Step.TELL:
            return Telling.NOT_DUE
        taken = self.store.swap(row, looked_at(row, now, jitter=self.jitter()))
        return self.deliver(taken.job) if isinstance(taken, Written) else Telling.NOT_DUE

    def deliver(self, review: Job) -> Telling:
        """Tell of a job whose row gave us the right to."""
        if not may_tell(review, self.clock.now()):
            return Telling.NOT_DUE  # we were held up, and another has the right by now
        if not self.alerts.tell(alert_texts.review(review, stack=self.stack)):
            return Telling.LATER
        self._record(review)
        return Telling.TOLD

    def gone(self, key: JobKey, answer: str) -> bool:
        """Tell of an answer whose row is gone; no row carries this alert if it is not delivered."""
        return self.alerts.tell(alert_texts.gone(key, answer, stack=self.stack))

    def _record(self, review: Job) -> None:
        """Nothing is due any more; evidence that came in meanwhile stays."""
        for _ in range(_ROUNDS):
            after = told().on(review, now=self.clock.now(), actor=self.actor)
            match self.store.swap(review, after):
                case Overtaken(row=Job() as row) if (
                    review.still_stands_in(row) and row.due_at == review.due_at
                ):
                    review = row
                case _:
                    return
