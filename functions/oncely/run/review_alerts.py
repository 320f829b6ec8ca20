"""Tells a person of a job that needs review: one alert, however many try to at once."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from oncely.domain.due import (
    SweepStep,
    alert_reservation_valid,
    hold_for_sweep,
    mark_alerted,
    sweep_step,
)
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.ports import Clock, JobStore, Notifier, Swapped, VersionConflict
from oncely.run import alert_texts

# Each round was lost to someone who added evidence in that very moment; that does not go on.
_MAX_CAS_RETRIES: Final = 5


class AlertDelivery(StrEnum):
    """What became of the wish to tell."""

    DELIVERED = "told"
    NOT_DUE = "not due"  # a person knows, or another is telling one
    FAILED = "not delivered"  # the job stays due, and is told by a later sweep

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to do about it."""
        return self is not AlertDelivery.FAILED


@dataclass(frozen=True, kw_only=True)
class ReviewAlerter:
    """Whoever tells has taken the right to by a conditional write first.

    The right is the due time: a review that is due may be taken, one that is due later was.
    It ends by itself, so that a crash between taking and telling ends in a later alert.
    """

    store: JobStore
    notifier: Notifier
    clock: Clock
    actor: str
    stack: str = ""  # names the deployment in the commands that people are given
    jitter: Callable[[], float] = lambda: 0.0  # drawn where several may take the right at once

    def alert_if_due(self, key: JobKey) -> AlertDelivery:
        """Take the right to tell of a job that is due for it, and tell."""
        now = self.clock.now()
        row = self.store.get(key)
        if row is None or sweep_step(row, now) is not SweepStep.ALERT:
            return AlertDelivery.NOT_DUE
        swap_result = self.store.compare_and_swap(
            row, hold_for_sweep(row, now, jitter=self.jitter())
        )
        return (
            self.deliver(swap_result.job)
            if isinstance(swap_result, Swapped)
            else AlertDelivery.NOT_DUE
        )

    def deliver(self, review: Job) -> AlertDelivery:
        """Tell of a job whose row gave us the right to."""
        if not alert_reservation_valid(review, self.clock.now()):
            return AlertDelivery.NOT_DUE  # we were held up, and another has the right by now
        if not self.notifier.notify(alert_texts.review_alert(review, stack=self.stack)):
            return AlertDelivery.FAILED
        self._record(review)
        return AlertDelivery.DELIVERED

    def alert_orphaned_outcome(self, key: JobKey, outcome: str) -> bool:
        """Tell of an answer whose row is gone; no row carries this alert if it is not delivered."""
        return self.notifier.notify(
            alert_texts.orphaned_outcome_alert(key, outcome, stack=self.stack)
        )

    def _record(self, review: Job) -> None:
        """Nothing is due any more; evidence that came in meanwhile stays."""
        for _ in range(_MAX_CAS_RETRIES):
            after = mark_alerted().apply_to(review, now=self.clock.now(), actor=self.actor)
            match self.store.compare_and_swap(review, after):
                case VersionConflict(row=Job() as row) if (
                    review.same_owner_and_status_as(row) and row.due_at == review.due_at
                ):
                    review = row
                case _:
                    return
