"""Processes the messages of one invocation concurrently; a bad one never fails the others."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeAlias, assert_never

from oncely.ports import Clock, MessageSource, RejectQueue
from oncely.run.outcomes import (
    AwaitingResolution,
    Conflict,
    Continued,
    Duplicate,
    Failed,
    Finished,
    InternalError,
    InvalidMessage,
    LeasedElsewhere,
    NeedsReview,
    NotAttempted,
    NotStarted,
    OwnershipLost,
    RowMissing,
    RunOutcome,
    TableFenced,
    Unknown,
)
from oncely.run.run_job import JobRunner

# SQS keeps a message invisible for 12 hours at most, counted from its receipt.
MAX_VISIBILITY_TIMEOUT: Final = timedelta(hours=11)
# Spreads workers that wait for the same lease.
NACK_JITTER: Final = timedelta(seconds=10)
# After 1, 4, 16 and 64 minutes: five receives take 85 minutes. Then the dead letter queue holds the
# message for days, and its consumer leaves it there while the table is blocked.
FIRST_POSTPONE_DELAY: Final = timedelta(minutes=1)
_POSTPONE_FACTOR: Final = 4
# A crash may spend the last receive, so one is kept in reserve.
RESERVED_RECEIVES: Final = 1


@dataclass(frozen=True)
class Ack:
    """Delete the message: the row tracks the job from here."""


@dataclass(frozen=True)
class Nack:
    """Redeliver it at this time, or at once."""

    visible_at: datetime | None = None


@dataclass(frozen=True)
class Postpone:
    """Redeliver it with growing delays: the cause may take hours to fix."""


@dataclass(frozen=True)
class LeaveInvisible:
    """Redeliver it when its visibility timeout ends."""


@dataclass(frozen=True)
class Reject:
    """Move it to the rejects queue: no retry can make it valid."""

    reason: str


MessageAction: TypeAlias = Ack | Nack | Postpone | LeaveInvisible | Reject


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """One message as the queue delivered it."""

    message_id: str
    body: str
    receipt: str
    receive_count: int  # how often it was delivered, this time included


@dataclass(frozen=True, kw_only=True)
class ProcessedDelivery:
    """The result of one delivery. The queue deletes it if `acked`."""

    delivery: Delivery
    outcome: RunOutcome
    action: MessageAction
    acked: bool
    error: Exception | None = None  # why the message action failed


@dataclass(frozen=True, kw_only=True)
class BatchProcessor:
    """Runs a batch with bounded concurrency, and returns when every thread has ended."""

    runner: JobRunner
    message_source: MessageSource
    reject_queue: RejectQueue
    clock: Clock
    jitter: Callable[[], float]
    concurrency: int
    max_receive_count: int

    def process(
        self, deliveries: Sequence[Delivery], *, deadline: datetime
    ) -> list[ProcessedDelivery]:
        """Process each delivery. Never raises for one of them."""
        # Leaving the block waits for every thread. One left behind would thaw with the next
        # invocation and execute after its lease.
        with ThreadPoolExecutor(max_workers=self.concurrency) as pool:
            jobs = [
                pool.submit(self._process_delivery, delivery, deadline) for delivery in deliveries
            ]
        # Read only now: waiting for each job would wake this thread and cost the others CPU.
        return [job.result() for job in jobs]

    def _process_delivery(self, delivery: Delivery, deadline: datetime) -> ProcessedDelivery:
        try:
            outcome = self.runner.run(delivery.body, deadline=deadline)
        except Exception as error:  # noqa: BLE001  # other jobs continue; this one is logged
            outcome = InternalError(error)
        near_limit = delivery.receive_count >= self.max_receive_count - RESERVED_RECEIVES
        action = action_for(outcome, near_receive_limit=near_limit)
        try:
            acked = self._apply_action(action, delivery)
        except Exception as error:  # noqa: BLE001  # not acked, so the queue delivers it again
            return ProcessedDelivery(
                delivery=delivery, outcome=outcome, action=action, acked=False, error=error
            )
        return ProcessedDelivery(delivery=delivery, outcome=outcome, action=action, acked=acked)

    def _apply_action(self, action: MessageAction, delivery: Delivery) -> bool:
        match action:
            case Ack():
                return True
            case LeaveInvisible():
                return False
            case Nack(visible_at=at):
                self.message_source.redeliver_after(delivery.receipt, delay=self._delay_until(at))
                return False
            case Postpone():
                self.message_source.redeliver_after(
                    delivery.receipt, delay=self._postpone_delay(delivery.receive_count)
                )
                return False
            case Reject(reason=reason):
                self.reject_queue.reject(
                    delivery.body, reason=reason, message_id=delivery.message_id
                )
                return True
            case _:
                assert_never(action)

    def _postpone_delay(self, receive_count: int) -> timedelta:
        wait: timedelta = FIRST_POSTPONE_DELAY * _POSTPONE_FACTOR ** min(
            receive_count - 1, self.max_receive_count
        )
        return min(wait + NACK_JITTER * self.jitter(), MAX_VISIBILITY_TIMEOUT)

    def _delay_until(self, at: datetime | None) -> timedelta:
        if at is None:
            return timedelta(0)
        wait = max(at - self.clock.now(), timedelta(0)) + NACK_JITTER * self.jitter()
        return min(wait, MAX_VISIBILITY_TIMEOUT)


def action_for(outcome: RunOutcome, *, near_receive_limit: bool) -> MessageAction:
    """The reply to a message; `near_receive_limit`: another nack might make it a dead letter.

    A row that is ready or started is found by its due time: then its message is only a hint.
    """
    match outcome:
        case Finished() | Failed() | Duplicate() | Unknown() | NeedsReview() | AwaitingResolution():
            return Ack()
        case OwnershipLost() | Continued():
            return Ack()
        case NotAttempted(row_resends=True):
            return Ack()
        case LeasedElsewhere(until=until) | NotAttempted(until=until):
            return Ack() if near_receive_limit else Nack(until)
        case NotStarted():
            return Nack()
        case TableFenced():
            return Postpone()
        case Conflict(alerted=False) if not near_receive_limit:
            return LeaveInvisible()  # alert operators before it leaves the queue
        case Conflict(reason=reason) | RowMissing(reason=reason) | InvalidMessage(reason=reason):
            return Reject(reason)
        case InternalError():
            return LeaveInvisible()
        case _:
            assert_never(outcome)
