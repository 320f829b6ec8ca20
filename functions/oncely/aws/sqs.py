"""SQS: the queue that feeds a worker, and the one that a producer sends to."""

import hashlib
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from oncely.core.aws_errors import translated
from oncely.core.errors import UnavailableError

if TYPE_CHECKING:
    from mypy_boto3_sqs.type_defs import (
        MessageAttributeValueTypeDef,
        SendMessageBatchRequestEntryTypeDef,
    )

    from oncely.aws.clients import AwsClients

MAX_BATCH_ENTRIES: Final = 10
# SQS takes 1 MiB in one batch, and took 256 KiB for most of its life; engines still do.
MAX_BATCH_BYTES: Final = 256 * 1024
_MAX_SEND_ATTEMPTS: Final = 3
_MAX_REASON_LENGTH: Final = 1000
# SQS takes what XML 1.0 does, in a body and in an attribute alike; a reason may repeat names that
# a sender wrote as escapes. (Spelled as what is not taken: the complement takes 8 ms to compile.
# Compiled when first used, so not in the init phase.)
_UNSENDABLE: Final = "[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]"


@dataclass(frozen=True, kw_only=True)
class MessageSource:
    """The worker's side of a queue."""

    clients: "AwsClients"
    queue_url: str

    def redeliver_after(self, receipt: str, *, delay: timedelta) -> None:
        with _translated(self.queue_url):
            self.clients.sqs.change_message_visibility(
                QueueUrl=self.queue_url,
                ReceiptHandle=receipt,
                # Round up: an early delivery would waste a receive.
                VisibilityTimeout=math.ceil(delay.total_seconds()),
            )


@dataclass(frozen=True, kw_only=True)
class RejectQueue:
    """The queue of rejected messages."""

    clients: "AwsClients"
    rejects_url: str
    source: str = ""  # the queue that the messages came from

    def reject(
        self, body: str, *, reason: str, message_id: str, job_key: str | None = None
    ) -> None:
        with _translated(self.rejects_url):
            self.clients.sqs.send_message(
                QueueUrl=self.rejects_url,
                MessageBody=_sendable(body) or "(empty)",
                MessageAttributes={
                    "reason": _text(reason[:_MAX_REASON_LENGTH]),
                    "message_id": _text(message_id),
                    "queue": _text(self.source),
                    **({} if job_key is None else {"job_key": _text(job_key)}),
                },
            )


@dataclass(frozen=True, kw_only=True)
class MessageSender:
    """The producer's side of a queue."""

    clients: "AwsClients"
    queue_url: str

    def send(self, bodies: Sequence[str], *, groups: Sequence[str | None] = ()) -> list[bool]:
        entries = [_entry(index, *one) for index, one in enumerate(zip_longest(bodies, groups))]
        sent = [False] * len(bodies)
        for batch in split_into_batches(bodies):
            left = batch
            for _ in range(_MAX_SEND_ATTEMPTS):
                if not (left := self._send([entries[index] for index in left])):
                    break
            for index in set(batch) - set(left):
                sent[index] = True
        return sent

    def _send(self, entries: "list[SendMessageBatchRequestEntryTypeDef]") -> list[int]:
        try:
            with _translated(self.queue_url):
                answer = self.clients.sqs.send_message_batch(
                    QueueUrl=self.queue_url, Entries=entries
                )
        except UnavailableError:
            return [int(entry["Id"]) for entry in entries]
        return [int(failure["Id"]) for failure in answer.get("Failed", [])]


def _entry(
    index: int, body: str, group: str | None = None
) -> "SendMessageBatchRequestEntryTypeDef":
    """A message of a fair queue: SQS delivers the groups of a standard queue in turn."""
    if group is None:
        return {"Id": str(index), "MessageBody": body}
    # SQS restricts the characters of a group, and a digest reveals no name.
    digest = hashlib.sha256(group.encode(errors="surrogatepass")).hexdigest()
    return {"Id": str(index), "MessageBody": body, "MessageGroupId": digest}


def split_into_batches(bodies: Sequence[str]) -> Iterator[list[int]]:
    """Group bodies, by index, so that each group fits one SendMessageBatch."""
    group: list[int] = []
    size = 0
    for index, body in enumerate(bodies):
        length = len(body.encode())
        if group and (len(group) == MAX_BATCH_ENTRIES or size + length > MAX_BATCH_BYTES):
            yield group
            group, size = [], 0
        group.append(index)
        size += length
    if group:
        yield group


def _translated(queue_url: str) -> AbstractContextManager[None]:
    check = "that it exists and that this role may use it"
    return translated("the queue", name=queue_url, check=check)


def _text(value: str) -> "MessageAttributeValueTypeDef":
    return {"DataType": "String", "StringValue": _sendable(value) or "-"}


def _sendable(text: str) -> str:
    """Escape the characters that SQS rejects, so that no message is lost."""
    return re.sub(_UNSENDABLE, lambda found: ascii(found[0])[1:-1], text)
