"""Sends what an ended job owes: its follow-ups, and an event if its contract wants one."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from oncely.contract import AnyContract, Message, body_of
from oncely.domain.errors import InvalidMessageError, UnavailableError, UnreadableRowError
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.proof import (
    MONEY_RETENTION,
    UNREAD_WAIT,
    may_be_published_unread,
    owes_something,
    published,
)
from oncely.ports import Clock, EventBus, JobStore, Outbox, Tools, Written
from oncely.registry import Registry

# Three calls, one after the other, are mostly waiting: one at a time, a shard of the stream would
# fall behind the workers that fill it.
SIDE_BY_SIDE: Final = 10


@dataclass(frozen=True, kw_only=True)
class Publisher:
    """Safe to run again at any point: each step is harmless twice, and the last is conditional."""

    registry: Registry
    tools: Tools
    store: JobStore
    bus: EventBus
    outbox: Callable[[str], Outbox]
    clock: Clock
    row_retention: timedelta  # the stage's, for natural effects

    def publish_all(self, keys: Iterable[JobKey]) -> dict[JobKey, Exception]:
        """Publish some side by side; gives what went wrong with which, and the others are done.

        No order is lost: each is read anew, and a key that comes twice is published once.
        """
        with ThreadPoolExecutor(max_workers=SIDE_BY_SIDE) as pool:
            done = {key: pool.submit(self.publish, key) for key in dict.fromkeys(keys)}
        failed = ((key, one.exception()) for key, one in done.items())
        return {key: error for key, error in failed if isinstance(error, Exception)}

    def publish(self, key: JobKey) -> bool:
        """Send what a job owes; False: it owes nothing any more, or it changed meanwhile."""
        job = self.store.get(key)
        if job is None or not owes_something(job):
            return False
        contract = self._contract(job)
        if contract is not None:
            follow_ups = contract.follow_ups(job)
            if contract.publishes_events:
                self.bus.publish(job)
            self._send(follow_ups, job)
        # The last step: a row may expire only when nothing is owed any more.
        now = self.clock.now()
        retention = contract.kept_for(self.row_retention) if contract else MONEY_RETENTION
        after = published(job, retention=retention, now=now)
        return isinstance(self.store.swap(job, after), Written)

    def _send(self, follow_ups: Iterable[Message], job: Job) -> None:
        for message in follow_ups:
            queue = self.registry.contract(message.job).needs.queue
            if not all(self.outbox(queue).send([body_of(message.as_json())])):
                raise UnavailableError(f"queue {queue!r} did not take a follow-up of {job.job_key}")

    def _contract(self, job: Job) -> AnyContract | None:
        """The job's contract; None: it is not known here, and is not waited for any more."""
        try:
            self.registry.read(job.message)
            kind = self.registry.contract(job.job_type)
        except InvalidMessageError as error:
            if may_be_published_unread(job, self.clock.now()):
                return None
            raise UnreadableRowError(
                f"what follows {job.job_key} is not known here ({error}): was a newer version "
                f"rolled back? If so, deploy it again; {UNREAD_WAIT} after its end it is closed "
                "without what would follow"
            ) from error
        return kind(self.tools)
