"""Alerts operators about a job that needs review, once, however many processes try."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from oncely.alerts import alert_texts
from oncely.alerts.budget import Alert, AlertDelivery
from oncely.alerts.budgeted_notifier import BudgetedNotifier
from oncely.core.due import (
    SweepStep,
    alert_reservation_valid,
    hold_alert,
    hold_for_sweep,
    mark_alerted,
    sweep_step,
)
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.schedule import Clock
from oncely.core.store import (
    JobStore,
    Swapped,
    VersionConflict,
)

# Each retry lost a race with a writer that added evidence; such races are rare.
_MAX_CAS_RETRIES: Final = 5


@dataclass(frozen=True, kw_only=True)
class ReviewAlerter:
    """Reserves an alert with a conditional write before sending it.

    The reservation is the due time: a review that is due can be reserved, one that is due later
    is already reserved. It expires, so after a crash a later sweep sends the alert.
    """

    store: JobStore
    # Alerts are rare, so it is not built in the init phase.
    notifier: Callable[[], BudgetedNotifier]
    clock: Clock
    actor: str
    stack: str = ""  # the stack in the commands of alerts
    can_look_up: Callable[[str], bool] = lambda _: True  # by job type
    jitter: Callable[[], float] = lambda: 0.0  # needed where several processes may reserve at once

    def alert_if_due(self, key: JobKey) -> AlertDelivery:
        """Reserve and send the alert of a job that is due for one."""
        review = self.reserve(key)
        return AlertDelivery.NOT_DUE if review is None else self.deliver(review)

    def reserve(self, key: JobKey) -> JobRow | None:
        """Reserve the alert of a job. Returns None if it is not due for one."""
        now = self.clock.now()
        row = self.store.get(key)
        if row is None or sweep_step(row, now) is not SweepStep.ALERT:
            return None
        after = hold_for_sweep(row, now, jitter=self.jitter())
        result = self.store.swap(row, after)
        return result.job if isinstance(result, Swapped) else None

    def deliver(self, review: JobRow) -> AlertDelivery:
        """Send the alert of a job whose row we reserved. Over budget, the row stays due."""
        if not alert_reservation_valid(review, self.clock.now()):
            return AlertDelivery.NOT_DUE  # delayed: another process may have reserved it by now
        can_look_up = self.can_look_up(review.job_type)
        alert = alert_texts.review_alert(review, stack=self.stack, can_look_up=can_look_up)
        delivery, _ = self._send([review], alert)
        return delivery

    def summarize(self, reviews: Sequence[JobRow]) -> AlertDelivery:
        """Send one alert for jobs whose rows we reserved. Until it is delivered, they stay due.

        Over budget, they are due when the next summary may be sent.
        """
        now = self.clock.now()
        held = [review for review in reviews if alert_reservation_valid(review, now)]
        if not held:
            return AlertDelivery.NOT_DUE
        delivery, until = self._send(held, alert_texts.summary_alert(held, stack=self.stack))
        if until is not None:
            for review in held:
                # If this fails, it is due again when the reservation ends.
                self.store.swap(review, hold_alert(review, until))
        return delivery

    def alert_orphaned_outcome(self, key: JobKey, outcome: str) -> bool:
        """Alert about an outcome whose row is gone. Nothing retries this alert."""
        return self.notifier().notify(
            alert_texts.orphaned_outcome_alert(key, outcome, stack=self.stack)
        )

    def alert_conflict(self, key: JobKey, reason: str) -> bool:
        """Alert about a message that conflicts with its job."""
        return self.notifier().notify(alert_texts.conflict_alert(key, reason, stack=self.stack))

    def alert_ignored_run_at(self, job: JobRow, schedule_limit: timedelta) -> bool:
        """Alert about a run time that is not honored. The job runs, so nothing retries this."""
        return self.notifier().notify(
            alert_texts.ignored_run_at_alert(job, schedule_limit, stack=self.stack)
        )

    def alert_forged_row(self, key: JobKey, status: str) -> bool:
        """Alert about a row that none of our functions wrote."""
        return self.notifier().notify(alert_texts.forged_row_alert(key, status, stack=self.stack))

    def alert_dead_letters(self, entries: Sequence[tuple[str, str]]) -> bool:
        """Send one alert for the dead letters of a batch."""
        return self.notifier().notify(alert_texts.dead_letter_alert(entries, stack=self.stack))

    def _send(
        self, reviews: Sequence[JobRow], alert: Alert
    ) -> tuple[AlertDelivery, datetime | None]:
        delivery, until = self.notifier().send(alert)
        if delivery is AlertDelivery.DELIVERED:
            for review in reviews:
                self._record(review)
        return delivery, until

    def _record(self, review: JobRow) -> None:
        """Clear the due time. Evidence added since then stays."""
        for _ in range(_MAX_CAS_RETRIES):
            after = mark_alerted().apply_to(review, now=self.clock.now(), actor=self.actor)
            match self.store.swap(review, after):
                case VersionConflict(row=JobRow() as row) if (
                    review.same_owner_and_status_as(row) and row.due_at == review.due_at
                ):
                    review = row
                case _:
                    return
