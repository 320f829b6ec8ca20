"""The depths of queues, as SQS estimates them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from oncely.core.aws_errors import translated
from oncely.operate.overview import QueuedMessages

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.literals import QueueAttributeNameType

_WAITING: Final = "ApproximateNumberOfMessages"
_IN_FLIGHT: Final = "ApproximateNumberOfMessagesNotVisible"
_DELAYED: Final = "ApproximateNumberOfMessagesDelayed"
_NAMES: "Final[tuple[QueueAttributeNameType, ...]]" = (_WAITING, _IN_FLIGHT, _DELAYED)


@dataclass(frozen=True)
class SqsQueueDepths:
    """Asks SQS, one request per queue: cheaper than CloudWatch, and without its delay."""

    client: "SQSClient"
    queue_urls: Mapping[str, str]  # by short name

    def depths(self) -> list[QueuedMessages]:
        """Return the depth of each queue of the jobs, of the dead letters and of the rejects."""
        return [self._depth(name, url) for name, url in self.queue_urls.items()]

    def _depth(self, name: str, url: str) -> QueuedMessages:
        check = "that this role may call sqs:GetQueueAttributes"
        with translated(f"the queue {name}", name=url, check=check):
            found = self.client.get_queue_attributes(QueueUrl=url, AttributeNames=_NAMES)
        numbers = found["Attributes"]
        return QueuedMessages(
            queue=name,
            waiting=int(numbers[_WAITING]),
            in_flight=int(numbers[_IN_FLIGHT]),
            delayed=int(numbers[_DELAYED]),
        )
