"""Publishes ended jobs: sends follow-ups, and an event if the contract publishes events."""

import json
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from oncely.aws.sqs import MessageSender
from oncely.contracts.job import AnyJob, Tools
from oncely.contracts.message import encode_message
from oncely.contracts.registry import JobRegistry
from oncely.core.aws_errors import translated
from oncely.core.decide import on_forged_row
from oncely.core.ended_jobs import (
    MONEY_RETENTION,
    ROLLBACK_GRACE,
    awaits_publishing,
    mark_published,
    publishable_without_follow_ups,
)
from oncely.core.errors import InvalidInputError, UnavailableError, UnreadableRowError
from oncely.core.job_row import JobRow
from oncely.core.job_type import AnyJobType
from oncely.core.keys import JobKey
from oncely.core.schedule import Clock
from oncely.core.store import JobStore, Swapped
from oncely.core.text import format_time
from oncely.plugins.events import EffectChange

if TYPE_CHECKING:
    from mypy_boto3_events import EventBridgeClient

# Publishing is mostly waiting. One job at a time, a stream shard would fall behind the workers.
MAX_CONCURRENCY: Final = 10
ACTOR: Final = "publisher"


SOURCE: Final = "oncely"


@dataclass(frozen=True)
class EventBus:
    """Publishes one event for each end of a job. `job_key`, `version` and `at` identify it."""

    client: "EventBridgeClient"
    name: str

    def publish(self, job: JobRow) -> None:
        """Put the event. Raises if the bus does not accept it, so that it is retried."""
        detail = {
            "job_key": job.job_key,
            "job_type": job.job_type,
            "status": job.status,
            "version": job.ended_version or job.version,
            "customer_id": job.customer_id,
            "provider_ref": job.provider_ref,
            "result": job.result,
            "at": format_time(job.status_since),
        }
        self._put(job, f"job {job.status}", detail)

    def publish_change(self, job: JobRow, change: EffectChange) -> None:
        """Put the event of a later change. `details` are the same in a duplicate."""
        detail = {
            "job_key": job.job_key,
            "job_type": job.job_type,
            "status": job.status,
            "customer_id": job.customer_id,
            "provider_ref": job.provider_ref,
            "change": change.kind,
            "details": dict(change.details),
            "respond_by": None if change.respond_by is None else format_time(change.respond_by),
        }
        self._put(job, f"effect {change.kind}", detail)

    def _put(self, job: JobRow, type_: str, detail: Mapping[str, object]) -> None:
        with translated("the event bus", name=self.name, check="its name and the grants"):
            answer = self.client.put_events(
                Entries=[
                    {
                        "EventBusName": self.name,
                        "Source": SOURCE,
                        "DetailType": type_,
                        "Detail": json.dumps(detail),
                    }
                ]
            )
        if answer.get("FailedEntryCount"):
            raise UnavailableError(f"the event bus did not accept the event of {job.job_key}")


@dataclass(frozen=True, kw_only=True)
class EndedJobPublisher:
    """Publishes ended jobs. Safe to repeat: duplicates are harmless."""

    registry: JobRegistry
    tools: Tools
    store: JobStore
    event_bus: EventBus
    sender_for_queue: Callable[[str], MessageSender]
    clock: Clock
    row_retention: timedelta  # of the stage, for natural effects

    def publish_batch(self, keys: Iterable[JobKey]) -> dict[JobKey, Exception]:
        """Publish jobs concurrently. Returns the error of each that failed.

        Order does not matter: each row is read again, and a repeated key is published once.
        """
        with ThreadPoolExecutor(max_workers=MAX_CONCURRENCY) as pool:
            done = {key: pool.submit(self.publish, key) for key in dict.fromkeys(keys)}
        failed = ((key, one.exception()) for key, one in done.items())
        return {key: error for key, error in failed if isinstance(error, Exception)}

    def publish(self, key: JobKey) -> bool:
        """Publish one job. Returns False if there is nothing to publish, or if the row changed."""
        job = self.store.get(key)
        if job is None or not awaits_publishing(job):
            return False
        now = self.clock.now()
        if job.is_forged:
            review = on_forged_row(job).apply_to(job, now=now, actor=ACTOR)
            self.store.swap(job, review)
            return False
        contract = self._contract(job)
        if contract is not None:
            follow_ups = contract.follow_ups(job)
            if contract.publishes_events:
                self.event_bus.publish(job)
            self._send(follow_ups, job)
        # The last step: a row may expire only when everything was sent.
        retention = (
            contract.effective_retention(self.row_retention) if contract else MONEY_RETENTION
        )
        after = mark_published(job, retention=retention, now=now)
        return isinstance(self.store.swap(job, after), Swapped)

    def _send(self, follow_ups: Iterable[AnyJobType], job: JobRow) -> None:
        for follow_up in follow_ups:
            message = follow_up.to_sent_dict()
            contract_type = self.registry.contract(follow_up.job_type)
            queue = contract_type.queue
            # The customer of the job that it follows.
            tenant = contract_type.tenant({"customer_id": job.customer_id, **message})
            body = encode_message(message)
            if not all(self.sender_for_queue(queue).send([body], groups=[tenant])):
                raise UnavailableError(
                    f"queue {queue!r} did not accept a follow-up of {job.job_key}"
                )

    def _contract(self, job: JobRow) -> AnyJob | None:
        """The job's contract. Returns None if it is unknown and the row may expire without it."""
        try:
            return self.registry.parse_row(job).with_tools(self.tools, job.provider)
        except InvalidInputError as error:
            if publishable_without_follow_ups(job, self.clock.now()):
                return None
            raise UnreadableRowError(
                f"the follow-ups of {job.job_key} are not known here ({error}). If a newer version "
                "was rolled back, deploy it again; the row is closed without them "
                f"{ROLLBACK_GRACE} after the job ended"
            ) from error
