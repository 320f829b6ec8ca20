"""The shipped services in one process, with a simulated clock."""

import os
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from oncely.app import App
from oncely.aws.clients import AwsClients
from oncely.contracts.registry import JobRegistry
from oncely.contracts.settings import Settings, queue_env_var
from oncely.core.errors import OncelyError
from oncely.core.outcomes import Ended
from oncely.handlers.archive_rejects import handler as archive_rejects
from oncely.handlers.handle_dead_letters import handler as receive_dead_letters
from oncely.handlers.telemetry import signal_for
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.ports import Ports
from oncely.reconcile.find_due_work import SweepRequest
from oncely.reconcile.resolve_group import HandledItem
from oncely.run.process_batch import BatchProcessor, Delivery, ProcessedDelivery
from tests.soak.environment import INVOCATION_SECONDS
from tests.support.worker import FakeContext, event_record

BATCH_SIZE: Final = 10
MAX_CONCURRENCY: Final = 4
SWEEP_SECONDS: Final = 60
# The engine may be away: what it would have been asked is left for later, as Lambda's pollers do.
ENGINE_ERRORS: Final = (BotoCoreError, ClientError, OncelyError)


@dataclass
class SkewedClock:
    offset_seconds: float = 0.0

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.offset_seconds)


class SoakServices:
    def __init__(self, clock: SkewedClock) -> None:
        self.clock = clock
        self._app = self._new_app({"SWEEP_JOBS_AT_ONCE": str(MAX_CONCURRENCY)})
        self._sqs = AwsClients().sqs
        self._workers: dict[str, BatchProcessor] = {}

    def process_batch(self, queue: str, *, wait: int = 1) -> Counter[str]:
        url = os.environ[queue_env_var(queue)]
        records = self._receive(url, wait=wait)
        if not records:
            return Counter()
        worked = self._worker(queue).process(
            [_delivery(record) for record in records],
            deadline=self.clock.now() + timedelta(seconds=INVOCATION_SECONDS),
        )
        self._delete_messages(url, {one.delivery.receipt for one in worked if one.acked})
        self._publish(worked)
        return Counter(signal_for(one.outcome).event for one in worked)

    def sweep(self) -> Counter[str]:
        # Without leases: overlapping sweeps are harmless, and clocks differ.
        items = self._app.due_work_finder.find(SweepRequest()).items
        deadline = self.clock.now() + timedelta(seconds=SWEEP_SECONDS)
        handled = self._app.group_resolver.resolve(items, deadline=deadline)
        return Counter(map(_transition_label, handled))

    def handle_leftovers(self) -> Counter[str]:
        return Counter(
            {
                "dead letter": self._invoke_with_queue(
                    "DEAD_LETTER_QUEUE_URL", receive_dead_letters
                ),
                "reject archived": self._invoke_with_queue("REJECTS_QUEUE_URL", archive_rejects),
            }
        )

    def _worker(self, queue: str) -> BatchProcessor:
        if queue not in self._workers:
            settings = {"QUEUE_NAME": queue, "QUEUE_URL": os.environ[queue_env_var(queue)]}
            self._workers[queue] = self._new_app(settings).batch_processor
        return self._workers[queue]

    def _new_app(self, more: Mapping[str, str]) -> App:
        settings = Settings.from_env({**os.environ, **more}, SHIPPED_JOBS)
        ports: Any = Ports(settings)
        ports.clock = self.clock
        return App(settings, JobRegistry(SHIPPED_JOBS), ports)

    def _publish(self, processed: list[ProcessedDelivery]) -> None:
        """Publish an ended job, as the stream does. The reconciler finds what it misses."""
        for one in processed:
            if isinstance(one.outcome, Ended):
                with suppress(*ENGINE_ERRORS):
                    self._app.publisher.publish(one.outcome.job_key)

    def _invoke_with_queue(self, variable: str, handler: Any) -> int:  # noqa: ANN401  # a function of Lambda's
        url = os.environ[variable]
        records = self._receive(url, wait=0)
        if not records:
            return 0
        event = {"Records": [event_record(record) for record in records]}
        kept = {one["itemIdentifier"] for one in handler(event, FakeContext())["batchItemFailures"]}
        done = [record for record in records if record["MessageId"] not in kept]
        self._delete_messages(url, {record["ReceiptHandle"] for record in done})
        return len(done)

    def _receive(self, url: str, *, wait: int) -> list[Mapping[str, Any]]:
        answer = self._sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=BATCH_SIZE,
            WaitTimeSeconds=wait,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["All"],
        )
        return list(answer.get("Messages", []))

    def _delete_messages(self, url: str, receipts: set[str]) -> None:
        for receipt in receipts:
            self._sqs.delete_message(QueueUrl=url, ReceiptHandle=receipt)


def _transition_label(handled: HandledItem) -> str:
    done = handled.resolution
    if done is None:
        return "sweep failed" if handled.error else "sweep had no time"
    return (
        f"{done.from_status} to {done.to_status}"
        if done.from_status != done.to_status
        else str(done.outcome)
    )


def _delivery(record: Mapping[str, Any]) -> Delivery:
    return Delivery(
        message_id=record["MessageId"],
        body=record["Body"],
        receipt=record["ReceiptHandle"],
        receive_count=int(record["Attributes"]["ApproximateReceiveCount"]),
    )
