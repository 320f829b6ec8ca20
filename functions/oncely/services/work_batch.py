"""Works the messages of one invocation side by side; one bad record never fails its neighbours."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, assert_never

from oncely.ports import Clock, Inbox
from oncely.services.deadline import Deadline
from oncely.services.outcomes import Broken, Outcome
from oncely.services.replies import Ack, HandBack, Leave, Postpone, Reject, Reply, reply_to
from oncely.services.run_job import JobRunner

# SQS keeps a message invisible for 12 hours at most, counted from its receipt.
LONGEST_INVISIBLE: Final = timedelta(hours=11)
# Workers that wait for the same lease come back spread over this time.
HAND_BACK_JITTER: Final = timedelta(seconds=10)
# After 1, 4, 16 and 64 minutes: five receives take 85 minutes. Then the dead letter queue holds the
# message for days, and its consumer leaves it there while the table is refused.
FIRST_POSTPONEMENT: Final = timedelta(minutes=1)
_POSTPONED_LONGER: Final = 4
# One receive is kept in reserve: the last one may be spent by a crash.
RECEIVES_IN_RESERVE: Final = 1


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """One message as the queue delivered it."""

    message_id: str
    body: str
    receipt: str
    receives: int  # how often it was delivered, this time included


@dataclass(frozen=True, kw_only=True)
class Worked:
    """What became of one delivery; `acked` when the queue may forget it."""

    delivery: Delivery
    outcome: Outcome
    reply: Reply
    acked: bool
    error: Exception | None = None  # a reply that could not be carried out


@dataclass(frozen=True, kw_only=True)
class BatchWorker:
    """Runs a batch with a bound, and returns only when every thread has ended."""

    runner: JobRunner
    inbox: Inbox
    clock: Clock
    spread: Callable[[], float]
    side_by_side: int
    max_receives: int

    def work(
        self,
        deliveries: Sequence[Delivery],
        *,
        deadline: Deadline,
    ) -> list[Worked]:
        """Work each delivery; never raises for one of them."""
        # Leaving the block waits for every thread: one left behind would thaw with the next
        # invocation and act past its lease.
        with ThreadPoolExecutor(max_workers=self.side_by_side) as pool:
            jobs = [pool.submit(self._one, delivery, deadline) for delivery in deliveries]
        # Taken only now: waiting for each would wake this thread as often, and cost the others CPU.
        return [job.result() for job in jobs]

    def _one(self, delivery: Delivery, deadline: Deadline) -> Worked:
        try:
            outcome = self.runner.run(delivery.body, deadline=deadline)
        except Exception as error:  # noqa: BLE001  # a neighbour's job must go on; this one is logged
            outcome = Broken(error)
        last = delivery.receives >= self.max_receives - RECEIVES_IN_RESERVE
        reply = reply_to(outcome, last_receives=last)
        try:
            acked = self._carry_out(reply, delivery)
        except Exception as error:  # noqa: BLE001  # not acked, so the queue delivers it again
            return Worked(delivery=delivery, outcome=outcome, reply=reply, acked=False, error=error)
        return Worked(delivery=delivery, outcome=outcome, reply=reply, acked=acked)

    def _carry_out(self, reply: Reply, delivery: Delivery) -> bool:
        match reply:
            case Ack():
                return True
            case Leave():
                return False
            case HandBack(visible_at=at):
                self.inbox.show_again(delivery.receipt, after=self._wait_until(at))
                return False
            case Postpone():
                self.inbox.show_again(delivery.receipt, after=self._postponed(delivery.receives))
                return False
            case Reject(reason=reason):
                self.inbox.reject(delivery.body, reason=reason, message_id=delivery.message_id)
                return True
            case _:
                assert_never(reply)

    def _postponed(self, receives: int) -> timedelta:
        wait: timedelta = FIRST_POSTPONEMENT * _POSTPONED_LONGER ** min(
            receives - 1, self.max_receives
        )
        return min(wait + HAND_BACK_JITTER * self.spread(), LONGEST_INVISIBLE)

    def _wait_until(self, at: datetime | None) -> timedelta:
        if at is None:
            return timedelta(0)
        wait = max(at - self.clock.now(), timedelta(0)) + HAND_BACK_JITTER * self.spread()
        return min(wait, LONGEST_INVISIBLE)
