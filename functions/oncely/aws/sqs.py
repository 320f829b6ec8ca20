"""SQS: the queue that feeds a worker, and the one that a producer sends to."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from botocore.exceptions import ClientError

from oncely.aws.errors import AMBIGUOUS_ERRORS, is_retryable, translate

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import (
        MessageAttributeValueTypeDef,
        SendMessageBatchRequestEntryTypeDef,
    )

MAX_BATCH_ENTRIES: Final = 10
# SQS takes 1 MiB in one batch, and took 256 KiB for most of its life; engines still do.
MAX_BATCH_BYTES: Final = 256 * 1024
_MAX_SEND_ATTEMPTS: Final = 3
_MAX_REASON_LENGTH: Final = 1000
# SQS takes what XML 1.0 does, in a body and in an attribute alike; a reason may repeat names that
# a sender wrote as escapes. (Spelled as what is not taken: the complement takes 8 ms to compile.)
_UNSENDABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True, kw_only=True)
class SqsMessageSource:
    """The worker's side of a queue."""

    client: "SQSClient"
    queue_url: str

    def redeliver_after(self, receipt: str, *, delay: timedelta) -> None:
        self.client.change_message_visibility(
            QueueUrl=self.queue_url,
            ReceiptHandle=receipt,
            # Rounded up: an early delivery would waste a receive.
            VisibilityTimeout=math.ceil(delay.total_seconds()),
        )


@dataclass(frozen=True, kw_only=True)
class SqsRejectQueue:
    """The queue of rejected messages."""

    client: "SQSClient"
    rejects_url: str
    source: str = ""  # the queue that the messages came from

    def reject(self, body: str, *, reason: str, message_id: str) -> None:
        self.client.send_message(
            QueueUrl=self.rejects_url,
            MessageBody=_sendable(body) or "(empty)",
            MessageAttributes={
                "reason": _text(reason[:_MAX_REASON_LENGTH]),
                "message_id": _text(message_id),
                "queue": _text(self.source),
            },
        )


@dataclass(frozen=True, kw_only=True)
class SqsMessageSender:
    """The producer's side of a queue."""

    client: "SQSClient"
    queue_url: str

    def send(self, bodies: Sequence[str]) -> list[bool]:
        sent = [False] * len(bodies)
        for batch in split_into_batches(bodies):
            left = batch
            for _ in range(_MAX_SEND_ATTEMPTS):
                if not (left := self._send(bodies, left)):
                    break
            for index in set(batch) - set(left):
                sent[index] = True
        return sent

    def _send(self, bodies: Sequence[str], indexes: list[int]) -> list[int]:
        entries: list[SendMessageBatchRequestEntryTypeDef] = [
            {"Id": str(index), "MessageBody": bodies[index]} for index in indexes
        ]
        try:
            answer = self.client.send_message_batch(QueueUrl=self.queue_url, Entries=entries)
        except AMBIGUOUS_ERRORS:
            return indexes
        except ClientError as error:
            if is_retryable(error):
                return indexes
            check = "that it exists and that this role may send to it"
            raise translate(error, f"queue {self.queue_url}", check=check) from error
        return [int(failure["Id"]) for failure in answer.get("Failed", [])]


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


def _text(value: str) -> "MessageAttributeValueTypeDef":
    return {"DataType": "String", "StringValue": _sendable(value) or "-"}


def _sendable(text: str) -> str:
    """Escape the characters that SQS rejects, so that no message is lost."""
    return _UNSENDABLE.sub(lambda found: ascii(found[0])[1:-1], text)
