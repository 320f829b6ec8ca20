"""Brings a message that its worker gave up on to a known state; the row carries the job on."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from oncely.domain.due import mark_stranded, on_dead_letter
from oncely.domain.errors import InvalidInputError, UnavailableError
from oncely.domain.keys import JobKey
from oncely.enqueue.enqueuer import row_from_message
from oncely.ports import Clock, Created, JobStore, MessageSource, Notifier, TableBlocked, TableGuard
from oncely.registry import ContractRegistry
from oncely.run import alert_texts
from oncely.run.review_alerts import ReviewAlerter
from oncely.run.write_decision import DecisionWriter

ACTOR: Final = "dead letters"
# Each round was lost to someone who took, made or wrote the row in that very moment.
_MAX_CAS_RETRIES: Final = 5


class DeadLetterOutcome(StrEnum):
    """What became of a dead letter."""

    RETRY_SCHEDULED = "kept"  # a ready row carries it, and falls due later
    ALREADY_TRACKED = "carried"  # its row is held, asked about, with a person, or ended
    NEEDS_REVIEW = "needs_review"  # it was here before, and no worker ever took it
    REJECTED = "rejected"  # it never was a job
    LEFT_IN_QUEUE = "left"  # our own side failed: it stays in the queue


@dataclass(frozen=True, kw_only=True)
class HandledDeadLetter:
    """One dead letter, and what became of it."""

    message_id: str
    outcome: DeadLetterOutcome
    reason: str
    job_key: JobKey | None = None


@dataclass(frozen=True, kw_only=True)
class DeadLetterHandler:
    """The consumer of the dead letter queue."""

    registry: ContractRegistry
    store: JobStore
    notifier: Notifier
    message_source: MessageSource
    clock: Clock
    guard: TableGuard
    stack: str = ""  # names the deployment in alerts

    def handle_batch(self, bodies: Mapping[str, str]) -> list[HandledDeadLetter]:
        """Receive each by its message id, and tell a person once for all of them.

        If nobody could be told, all stay in the queue: coming again changes no row.
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
        """Tell of all but those that come again, and of those that their own alert tells of."""
        entries = [
            (letter.job_key or letter.message_id, letter.reason)
            for letter in handled
            if letter.outcome
            not in {DeadLetterOutcome.LEFT_IN_QUEUE, DeadLetterOutcome.NEEDS_REVIEW}
        ]
        return not entries or self.notifier.notify(
            alert_texts.dead_letter_alert(entries, stack=self.stack)
        )

    def _handle(self, message_id: str, body: str) -> HandledDeadLetter:
        try:
            fate, reason, key = self._ensure_row(body)
        except InvalidInputError as error:
            return HandledDeadLetter(
                message_id=message_id, outcome=DeadLetterOutcome.REJECTED, reason=str(error)
            )
        except Exception as error:  # noqa: BLE001  # such as a newer version's row; its neighbours go on
            reason = f"{type(error).__name__}: {error}"
            return HandledDeadLetter(
                message_id=message_id, outcome=DeadLetterOutcome.LEFT_IN_QUEUE, reason=reason
            )
        return HandledDeadLetter(message_id=message_id, outcome=fate, reason=reason, job_key=key)

    def _reject(self, dead_letter: HandledDeadLetter, body: str) -> HandledDeadLetter:
        try:
            self.message_source.reject(
                body, reason=dead_letter.reason, message_id=dead_letter.message_id
            )
        except Exception as error:  # noqa: BLE001  # it stays in the queue; its neighbours go on
            return replace(
                dead_letter,
                outcome=DeadLetterOutcome.LEFT_IN_QUEUE,
                reason=f"{dead_letter.reason}; {error}",
            )
        return dead_letter

    def _ensure_row(self, body: str) -> tuple[DeadLetterOutcome, str, JobKey]:
        """Make sure that a row carries the job."""
        table = self.guard.check()
        if isinstance(table, TableBlocked):
            raise UnavailableError(table.reason)
        contract_type, message = self.registry.parse_body(body)
        key = contract_type.key(message)
        for _ in range(_MAX_CAS_RETRIES):
            row = self.store.get(key)
            now = self.clock.now()
            if row is None:
                reason = "its message came to the dead letters before any worker took it"
                job = row_from_message(
                    contract_type, message, now=now, due_at=now, actor=ACTOR, reason=reason
                )
                if isinstance(self.store.create(mark_stranded(job, now)), Created):
                    return DeadLetterOutcome.RETRY_SCHEDULED, reason, key
                continue
            decision = on_dead_letter(row, now)
            if decision is None:
                return DeadLetterOutcome.ALREADY_TRACKED, f"it is {row.status}", key
            if self._decision_writer().write(row, decision).job is not None:
                return (
                    (
                        DeadLetterOutcome.NEEDS_REVIEW
                        if decision.alert
                        else DeadLetterOutcome.RETRY_SCHEDULED
                    ),
                    decision.reason,
                    key,
                )
        raise UnavailableError(f"the row of {key} kept changing; it is looked at again")

    def _decision_writer(self) -> DecisionWriter:
        alerter = ReviewAlerter(
            store=self.store,
            notifier=self.notifier,
            clock=self.clock,
            actor=ACTOR,
            stack=self.stack,
        )
        return DecisionWriter(store=self.store, clock=self.clock, actor=ACTOR, alerter=alerter)
