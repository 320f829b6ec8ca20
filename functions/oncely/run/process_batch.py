"""Processes the messages of one invocation concurrently; a bad one never fails the others."""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeAlias, assert_never

from oncely.aws.sqs import MessageSource, RejectQueue
from oncely.core.lifecycle import WaitKind
from oncely.core.outcomes import (
    Duplicate,
    Ended,
    LeasedElsewhere,
    NeedsReview,
    NotRun,
    NotRunCause,
    OwnershipLost,
    Parked,
    Rejected,
    RunOutcome,
    Unknown,
)
from oncely.core.run_job import JobRunner
from oncely.core.schedule import Clock

# SQS keeps a message invisible for 12 hours at most, counted from its receipt.
MAX_VISIBILITY_TIMEOUT: Final = timedelta(hours=11)
# Spreads workers that wait for the same lease.
NACK_JITTER: Final = timedelta(seconds=10)
# All receives of a message that our side fails to process take this long together. Then the dead
# letter queue holds it for days.
MIN_POSTPONE_TIME: Final = timedelta(hours=1)
# The delays grow with the time that the message has waited, counted from this on.
_POSTPONE_SCALE: Final = timedelta(seconds=30)
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
    """Redeliver it after seconds, then with growing delays, because Oncely failed."""


@dataclass(frozen=True)
class Reject:
    """Move it to the rejects queue: no retry can make it valid."""

    reason: str
    job_key: str | None = None  # whose timeline shows it


MessageAction: TypeAlias = Ack | Nack | Postpone | Reject


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
        # Read the results only now: waiting for each job would wake this thread each time.
        return [job.result() for job in jobs]

    def _process_delivery(self, delivery: Delivery, deadline: datetime) -> ProcessedDelivery:
        near_limit = delivery.receive_count >= self.max_receive_count - RESERVED_RECEIVES
        try:
            outcome = self.runner.run(delivery.body, deadline=deadline, nack=not near_limit)
        except Exception as error:  # noqa: BLE001  # other jobs continue; this one is logged
            outcome = NotRun(cause=NotRunCause.ERROR, error=error)
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
            case Nack(visible_at=at):
                self.message_source.redeliver_after(delivery.receipt, delay=self._delay_until(at))
                return False
            case Postpone():
                delay = postpone_delay(delivery.receive_count, self.max_receive_count)
                delay += NACK_JITTER * self.jitter()
                self.message_source.redeliver_after(delivery.receipt, delay=delay)
                return False
            case Reject(reason=reason, job_key=key):
                self.reject_queue.reject(
                    delivery.body, reason=reason, message_id=delivery.message_id, job_key=key
                )
                return True
            case _:
                assert_never(action)

    def _delay_until(self, at: datetime | None) -> timedelta:
        if at is None:
            return timedelta(0)
        wait = max(at - self.clock.now(), timedelta(0)) + NACK_JITTER * self.jitter()
        return min(wait, MAX_VISIBILITY_TIMEOUT)


def postpone_delay(receive_count: int, max_receive_count: int) -> timedelta:
    """The delay before the next receive: the same share of the time waited so far.

    A message is thus received again soon after Oncely recovers, and the delays of all its
    receives add up to MIN_POSTPONE_TIME. The more receives are allowed, the shorter each delay.
    """
    returns = max_receive_count - 1
    factor = (1 + MIN_POSTPONE_TIME / _POSTPONE_SCALE) ** (1 / returns)
    # A message may be received once more than it is allowed to.
    delay: timedelta = _POSTPONE_SCALE * (factor - 1) * factor ** (min(receive_count, returns) - 1)
    return timedelta(seconds=math.ceil(delay.total_seconds()))


def action_for(outcome: RunOutcome, *, near_receive_limit: bool) -> MessageAction:
    """The reply to a message. `near_receive_limit` if another nack might make it a dead letter.

    A row that is ready or started is found by its due time: then its message is only a hint.
    """
    match outcome:
        case Ended() | Unknown() | NeedsReview() | Duplicate() | OwnershipLost():
            return Ack()
        case Parked(redeliver=False):
            return Ack()
        case Parked(kind=WaitKind.GATE, until=until):
            return Nack(until)  # there may be no row yet
        case Parked(until=until) | LeasedElsewhere(until=until):
            return Ack() if near_receive_limit else Nack(until)
        case NotRun(cause=NotRunCause.NO_TIME):
            return Nack()
        case NotRun():
            return Postpone()
        case Rejected(alerted=False) if not near_receive_limit:
            return Postpone()  # alert operators before it leaves the queue
        case Rejected(reason=reason, job_key=key):
            return Reject(reason, key)
        case _:
            assert_never(outcome)
