"""Loses requests and replies between a client and DynamoDB, and puts errors in their place."""

import json
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import ConnectionClosedError, EndpointConnectionError, ReadTimeoutError

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


class NetworkFault(Enum):
    NONE = auto()  # it arrives, and so does its reply
    REPLY_TIMEOUT = auto()  # performed; the reply does not come in time
    REPLY_LOST = auto()  # performed; the connection breaks before the reply
    REQUEST_LOST = auto()  # never performed; the connection breaks, and the caller cannot know
    CONNECTION_REFUSED = auto()  # never performed; nobody listens


@dataclass(frozen=True)
class ServiceError:
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
class ProxyErrorPage:
    status: int
    performed: bool = False

    def body(self) -> bytes:
        return b"<html><body>said the load balancer</body></html>"


@dataclass
class FaultInjector:
    """Sits before a client's wire; each operation meets its own faults, one a try."""

    client: "DynamoDBClient"
    queued_faults: dict[str, deque[NetworkFault | ServiceError | ProxyErrorPage]] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        # The stubs do not know that an answer given here is taken for the wire's own.
        self.client.meta.events.register("before-send.dynamodb", self._inject_next)  # type: ignore[arg-type]

    def inject(self, operation: str, *faults: NetworkFault | ServiceError | ProxyErrorPage) -> None:
        """The next tries of `operation` go like this; those after them arrive."""
        self.queued_faults.setdefault(operation, deque()).extend(faults)

    @property
    def all_used(self) -> bool:
        """Whether every fault happened, so that the test tested what it says."""
        return not any(self.queued_faults.values())

    def _inject_next(
        self, request: AWSPreparedRequest, event_name: str, **_: object
    ) -> AWSResponse | None:
        plan = self.queued_faults.get(event_name.rpartition(".")[2])
        match plan.popleft() if plan else NetworkFault.NONE:
            case NetworkFault.NONE:
                return None
            case NetworkFault.REQUEST_LOST:
                raise ConnectionClosedError(endpoint_url=request.url)
            case NetworkFault.CONNECTION_REFUSED:
                raise EndpointConnectionError(endpoint_url=request.url, error="said the test")
            case NetworkFault.REPLY_LOST:
                self._perform(request)
                raise ConnectionClosedError(endpoint_url=request.url)
            case NetworkFault.REPLY_TIMEOUT:
                self._perform(request)
                raise ReadTimeoutError(endpoint_url=request.url, error="said the test")
            case ServiceError() | ProxyErrorPage() as answer:
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
