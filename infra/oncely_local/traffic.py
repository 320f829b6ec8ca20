"""Sends a workload through the queues, and resends the messages of unresolved jobs."""

import itertools
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from oncely_local.account import LocalAccount
from oncely_local.project import local_project
from oncely_local.sample_data import put_rows
from oncely_local.stack import LocalStack
from oncely_local.workload import CRM, ScheduledMessage, Workload, schedule_messages

_BATCH_SIZE: Final = 10  # SQS's limit of one call
_MAX_CONCURRENCY: Final = 4
# What two cores process. Sending faster only makes the queues longer.
_JOBS_PER_SECOND: Final = 25
_MIN_DURATION_SECONDS: Final = 10.0
# The engine scans the whole queue for each batch, so long queues slow everything down.
_MAX_BACKLOG: Final = 400


def stored_messages(
    account: LocalAccount, table: str, keys: Iterable[str]
) -> Iterable[ScheduledMessage]:
    """The messages of some jobs, read from their rows."""
    read = partial(account.client("dynamodb").get_item, TableName=table)
    rows = (read(Key={"job_key": {"S": key}})["Item"] for key in keys)
    bodies = (row["message"]["S"] for row in rows)
    return schedule_messages(local_project().jobs, bodies, itertools.repeat(0.0)).values()


class Traffic:
    """The producers of the demo."""

    def __init__(self, stack: LocalStack, workload: Workload) -> None:
        self._stack = stack
        self._workload = workload
        self.sent = 0
        self.done = threading.Event()

    def prepare(self) -> None:
        put_rows(self._stack, self._workload.rows)
        if self._workload.contacts:
            self._stack.sandbox.providers[CRM].add_samples(self._workload.contacts)

    def run(self, stop: threading.Event) -> None:
        duration_seconds = max(_MIN_DURATION_SECONDS, len(self._workload.jobs) / _JOBS_PER_SECOND)
        began = time.monotonic()
        for at, messages in itertools.groupby(
            self._workload.messages, key=lambda one: int(one.time_fraction * duration_seconds)
        ):
            if stop.wait(max(0.0, began + at - time.monotonic())):
                return
            while self._backlog() > _MAX_BACKLOG:
                if stop.wait(1.0):
                    return
            self.send(messages)
        self.done.set()

    def send(self, messages: Iterable[ScheduledMessage]) -> None:
        by_queue: dict[str, list[str]] = {}
        for one in messages:
            by_queue.setdefault(one.queue, []).append(one.body)
        calls = [
            (self._stack.outputs[queue], bodies[n : n + _BATCH_SIZE])
            for queue, bodies in by_queue.items()
            for n in range(0, len(bodies), _BATCH_SIZE)
        ]
        with ThreadPoolExecutor(_MAX_CONCURRENCY) as pool:
            self.sent += sum(pool.map(lambda call: self._send_batch(*call), calls))

    def resend(self, keys: Iterable[str]) -> None:
        """Resend the messages of these jobs from their rows, as `oncely redrive` does."""
        self.send(stored_messages(self._stack.account, self._stack.outputs["JobsTableName"], keys))

    def _backlog(self) -> int:
        sqs, name = self._stack.account.client("sqs"), "ApproximateNumberOfMessages"
        found = (
            sqs.get_queue_attributes(QueueUrl=self._stack.outputs[queue], AttributeNames=[name])
            for queue in self._stack.project.queue_outputs.values()
        )
        return sum(int(one["Attributes"][name]) for one in found)

    def _send_batch(self, url: str, bodies: list[str]) -> int:
        entries = [{"Id": str(n), "MessageBody": body} for n, body in enumerate(bodies)]
        sqs = self._stack.account.client("sqs")
        answer = sqs.send_message_batch(QueueUrl=url, Entries=entries)
        if answer.get("Failed"):
            raise RuntimeError(f"SQS rejected {answer['Failed']}")
        return len(entries)
