"""Drops requests and responses between a client and DynamoDB, or replaces them with errors."""

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
    NONE = auto()  # request and response arrive
    REPLY_TIMEOUT = auto()  # performed; the response times out
    REPLY_LOST = auto()  # performed; the connection breaks before the response
    REQUEST_LOST = auto()  # never performed; the connection breaks, and the caller cannot know
    CONNECTION_REFUSED = auto()  # never performed; connection refused


@dataclass(frozen=True)
class ServiceError:
    """An error response of DynamoDB. Most mean that the request was not performed."""

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
    """Intercepts the requests of a client. Each operation has its own faults, one per try."""

    client: "DynamoDBClient"
    queued_faults: dict[str, deque[NetworkFault | ServiceError | ProxyErrorPage]] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        # The type stubs do not know that a handler may return a response.
        self.client.meta.events.register("before-send.dynamodb", self._inject_next)  # type: ignore[arg-type]

    def inject(self, operation: str, *faults: NetworkFault | ServiceError | ProxyErrorPage) -> None:
        """Inject these faults into the next tries of `operation`. Later ones succeed."""
        self.queued_faults.setdefault(operation, deque()).extend(faults)

    @property
    def all_used(self) -> bool:
        """Whether every fault was injected, so that the test is meaningful."""
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
