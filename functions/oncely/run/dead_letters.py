"""Handles dead letters: ensures that a row tracks the job, and alerts operators."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from oncely.core.attempt import DecisionWriter, only_for
from oncely.core.decide import DEAD_LETTER_RETRY_DELAY
from oncely.core.due import on_dead_letter
from oncely.core.errors import InvalidInputError, UnavailableError
from oncely.core.job_row import Decision, JobRow
from oncely.core.keys import JobKey
from oncely.core.new_row import (
    create_row,
    own_row,
    row_from_message,
    run_at_of_message,
    stranded,
)
from oncely.core.store import Created
from oncely.core.table_guard import TableBlocked

if TYPE_CHECKING:
    from oncely.alerts.review_alerts import ReviewAlerter
    from oncely.app import App

ACTOR: Final = "dead letters"
# Each retry lost a race with another writer of the row.
_MAX_CAS_RETRIES: Final = 5


class DeadLetterOutcome(StrEnum):
    """What was done with a dead letter."""

    RETRY_SCHEDULED = "kept"  # its ready row is due later
    RETRIED_AGAIN = "kept again"  # the same; operators were alerted the first time
    ALREADY_TRACKED = "carried"  # its row is not ready, so it needs no message
    NEEDS_REVIEW = "needs_review"  # dead-lettered again, and no worker claimed it
    REJECTED = "rejected"  # not a valid job message
    LEFT_IN_QUEUE = "left"  # Oncely failed: it stays in the queue


# These stay in the queue, have their own alert, or were in an earlier one.
_NOT_LISTED: Final = frozenset(
    {
        DeadLetterOutcome.LEFT_IN_QUEUE,
        DeadLetterOutcome.NEEDS_REVIEW,
        DeadLetterOutcome.RETRIED_AGAIN,
    }
)


@dataclass(frozen=True, kw_only=True)
class HandledDeadLetter:
    """One dead letter, and what was done with it."""

    message_id: str
    outcome: DeadLetterOutcome
    reason: str
    job_key: JobKey | None = None


@dataclass(frozen=True)
class DeadLetterHandler:
    """Handles the batches of the dead letter queue."""

    app: "App"

    def handle_batch(self, bodies: Mapping[str, str]) -> list[HandledDeadLetter]:
        """Handle each dead letter, and send one alert for all of them.

        If the alert fails, all stay in the queue. Handling one again changes no row.
        """
        handled = [self._handle(message_id, body) for message_id, body in bodies.items()]
        if not self._notify(handled):
            return [replace(letter, outcome=DeadLetterOutcome.LEFT_IN_QUEUE) for letter in handled]
        return [
            self._reject(letter, bodies[letter.message_id])
            if letter.outcome is DeadLetterOutcome.REJECTED
            else letter
            for letter in handled
        ]

    def _notify(self, handled: list[HandledDeadLetter]) -> bool:
        """Alert once about each dead letter."""
        entries = [
            (letter.job_key or letter.message_id, letter.reason)
            for letter in handled
            if letter.outcome not in _NOT_LISTED
        ]
        return not entries or self._alerter().alert_dead_letters(entries)

    def _handle(self, message_id: str, body: str) -> HandledDeadLetter:
        try:
            fate, reason, key = self._ensure_row(body)
        except InvalidInputError as error:
            return HandledDeadLetter(
                message_id=message_id, outcome=DeadLetterOutcome.REJECTED, reason=str(error)
            )
        except Exception as error:  # noqa: BLE001  # such as a newer version's row; the others continue
            reason = f"{type(error).__name__}: {error}"
            return HandledDeadLetter(
                message_id=message_id, outcome=DeadLetterOutcome.LEFT_IN_QUEUE, reason=reason
            )
        return HandledDeadLetter(message_id=message_id, outcome=fate, reason=reason, job_key=key)

    def _reject(self, dead_letter: HandledDeadLetter, body: str) -> HandledDeadLetter:
        try:
            self.app.ports.reject_queue.reject(
                body, reason=dead_letter.reason, message_id=dead_letter.message_id
            )
        except Exception as error:  # noqa: BLE001  # it stays in the queue; the others continue
            return replace(
                dead_letter,
                outcome=DeadLetterOutcome.LEFT_IN_QUEUE,
                reason=f"{dead_letter.reason}; {error}",
            )
        return dead_letter

    def _ensure_row(self, body: str) -> tuple[DeadLetterOutcome, str, JobKey]:
        """Ensure that a row tracks the job."""
        ports = self.app.ports
        table = ports.table_guard.check()
        if isinstance(table, TableBlocked):
            raise UnavailableError(table.reason)
        contract = self.app.registry.parse_body(body)
        key, limit = contract.job_key(), contract.effective_schedule_limit()
        run_at = run_at_of_message(contract, ports.clock.now())
        store = ports.job_store()
        alerter = self._alerter()
        writer = DecisionWriter(store=store, clock=ports.clock, actor=ACTOR, alerter=alerter)
        for _ in range(_MAX_CAS_RETRIES):
            row = own_row(store, key)
            now = ports.clock.now()
            if row is None:
                reason = "its message was dead-lettered before any worker claimed it"
                job = row_from_message(
                    contract,
                    now=now,
                    due_at=now + DEAD_LETTER_RETRY_DELAY,
                    actor=ACTOR,
                    reason=reason,
                    run_at=run_at,
                )
                # One that runs later is not stranded: its row sends a message at its time.
                new = stranded(job) if run_at is None else job
                if isinstance(create_row(store, alerter, new), Created):
                    return DeadLetterOutcome.RETRY_SCHEDULED, reason, key
                continue
            decision = on_dead_letter(row, limit, now)
            if decision is None:
                return DeadLetterOutcome.ALREADY_TRACKED, f"it is {row.status}", key
            if writer.write(row, only_for(row, decision)).job is not None:
                return _outcome_of(decision, row), decision.reason, key
        raise UnavailableError(f"the row of {key} kept changing; it is retried later")

    def _alerter(self) -> "ReviewAlerter":
        return self.app.review_alerter(ACTOR)


def _outcome_of(decision: Decision, row: JobRow) -> DeadLetterOutcome:
    if decision.alert:
        return DeadLetterOutcome.NEEDS_REVIEW
    if row.is_stranded:
        return DeadLetterOutcome.RETRIED_AGAIN
    return DeadLetterOutcome.RETRY_SCHEDULED
