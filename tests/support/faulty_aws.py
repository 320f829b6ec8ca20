"""Loses requests and replies between a client and DynamoDB, and puts errors in their place."""

import json
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import (
    ConnectionClosedError,
    EndpointConnectionError,
    ReadTimeoutError,
)

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


class Loss(Enum):
    """What becomes of one try on the wire."""

    NONE = auto()  # it arrives, and so does its reply
    REPLY_IN_TIME = auto()  # performed; the reply does not come in time
    REPLY = auto()  # performed; the connection breaks before the reply
    REQUEST = auto()  # never performed; the connection breaks, and the caller cannot know
    CONNECTION = auto()  # never performed; nobody listens


@dataclass(frozen=True)
class Refusal:
    """An error that DynamoDB answers with; most mean that it has not performed the request."""

    code: str
    status: int = 400
    reasons: Sequence[str] = ()  # of a cancelled transaction, one code for each item
    performed: bool = False

    def body(self) -> bytes:
        document: dict[str, Any] = {
            "__type": f"com.amazonaws.dynamodb.v20120810#{self.code}",
            "message": f"{self.code}, said the test",
        }
        if self.reasons:
            document["CancellationReasons"] = [{"Code": code} for code in self.reasons]
        return json.dumps(document).encode()


@dataclass(frozen=True)
class Page:
    """An answer of something that stands before DynamoDB, and does not speak its language."""

    status: int
    performed: bool = False

    def body(self) -> bytes:
        return b"<html><body>said the load balancer</body></html>"


@dataclass
class FaultyAws:
    """Sits before a client's wire; each operation meets its own faults, one a try."""

    client: "DynamoDBClient"
    plans: dict[str, deque[Loss | Refusal | Page]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # The stubs do not know that an answer given here is taken for the wire's own.
        self.client.meta.events.register("before-send.dynamodb", self._meet)  # type: ignore[arg-type]

    def on(self, operation: str, *faults: Loss | Refusal | Page) -> None:
        """The next tries of `operation` go like this; those after them arrive."""
        self.plans.setdefault(operation, deque()).extend(faults)

    @property
    def all_met(self) -> bool:
        """Whether every fault happened, so that the test tested what it says."""
        return not any(self.plans.values())

    def _meet(
        self, request: AWSPreparedRequest, event_name: str, **_: object
    ) -> AWSResponse | None:
        plan = self.plans.get(event_name.rpartition(".")[2])
        match plan.popleft() if plan else Loss.NONE:
            case Loss.NONE:
                return None
            case Loss.REQUEST:
                raise ConnectionClosedError(endpoint_url=request.url)
            case Loss.CONNECTION:
                raise EndpointConnectionError(endpoint_url=request.url, error="said the test")
            case Loss.REPLY:
                self._perform(request)
                raise ConnectionClosedError(endpoint_url=request.url)
            case Loss.REPLY_IN_TIME:
                self._perform(request)
                raise ReadTimeoutError(endpoint_url=request.url, error="said the test")
            case Refusal() | Page() as answer:
                if answer.performed:
                    self._perform(request)
                return _response(request, answer.status, answer.body())

    def _perform(self, request: AWSPreparedRequest) -> None:
        endpoint: Any = self.client._endpoint  # type: ignore[attr-defined]  # noqa: SLF001  # the SDK's own wire, which no public name reaches
        endpoint.http_session.send(request)


@dataclass(frozen=True)
class _Raw:
    content: bytes

    def stream(self, **_: object) -> Iterator[bytes]:
        yield self.content


def _response(request: AWSPreparedRequest, status: int, body: bytes) -> AWSResponse:
    headers = HTTPHeaders.from_dict({"content-type": "application/x-amz-json-1.0"})
    return AWSResponse(request.url, status, headers, _Raw(body))
