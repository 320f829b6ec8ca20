"""What follows an end: the event, the follow-ups, the archive, and only then an expiry."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from oncely.contract import Message, body_of
from oncely.domain.due import UNREAD_WAIT, archived, awaits_archive, may_be_archived_unread
from oncely.domain.errors import InvalidMessageError, UnavailableError, UnreadableRowError
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.ports import Archive, Clock, EventBus, JobStore, Outbox, Tools, Written
from oncely.registry import Registry

ACTOR: Final = "publisher"
# Four calls, one after the other, are mostly waiting: one at a time, a shard of the stream would
# fall behind the workers that fill it.
SIDE_BY_SIDE: Final = 10


@dataclass(frozen=True, kw_only=True)
class Publisher:
    """Safe to run again at any point: each step is harmless twice, and the last is conditional."""

    registry: Registry
    tools: Tools
    store: JobStore
    archive: Archive
    bus: EventBus
    outbox: Callable[[str], Outbox]
    clock: Clock
    retention: timedelta

    def publish_all(self, keys: Iterable[JobKey]) -> dict[JobKey, Exception]:
        """Publish some side by side; gives what went wrong with which, and the others are done.

        No order is lost: each is read anew, and a key that comes twice is published once.
        """
        with ThreadPoolExecutor(max_workers=SIDE_BY_SIDE) as pool:
            done = {key: pool.submit(self.publish, key) for key in dict.fromkeys(keys)}
        failed = ((key, one.exception()) for key, one in done.items())
        return {key: error for key, error in failed if isinstance(error, Exception)}

    def publish(self, key: JobKey) -> bool:
        """Publish an ended job; False: there was nothing left to do, or it changed meanwhile."""
        job = self.store.get(key)
        if job is None or not awaits_archive(job):
            return False
        follow_ups = self._follow_ups(job)
        self.bus.publish(job)
        self._send(follow_ups, job)
        self.archive.keep(job)
        # The last step: a row expires only when its proof is kept elsewhere.
        now = self.clock.now()
        after = archived(now=now, retention=self.retention).on(job, now=now, actor=ACTOR)
        return isinstance(self.store.swap(job, after), Written)

    def _send(self, follow_ups: Iterable[Message], job: Job) -> None:
        for message in follow_ups:
            queue = self.registry.contract(message.job).needs.queue
            if not all(self.outbox(queue).send([body_of(message.as_json())])):
                raise UnavailableError(f"queue {queue!r} did not take a follow-up of {job.job_key}")

    def _follow_ups(self, job: Job) -> tuple[Message, ...]:
        try:
            self.registry.read(job.message)
            contract = self.registry.contract(job.job_type)
        except InvalidMessageError as error:
            if may_be_archived_unread(job, self.clock.now()):
                return ()
            raise UnreadableRowError(
                f"what follows {job.job_key} is not known here ({error}): was a newer version "
                f"rolled back? If so, deploy it again; {UNREAD_WAIT} after its end it is archived "
                "without what would follow"
            ) from error
        return contract(self.tools).follow_ups(job)
