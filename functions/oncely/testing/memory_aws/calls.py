"""A call to AWS in memory, and the one place where a test or a schedule intervenes."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Protocol, TypeVar

from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

_T = TypeVar("_T")


@dataclass(frozen=True)
class AwsCall:
    """One request, such as `dynamodb.update_item`, with the arguments of boto3's client."""

    service: str
    operation: str
    request: Mapping[str, Any]
    writes: bool  # may change something, unlike a read

    @property
    def name(self) -> str:
        """The name of the call in schedules and counts."""
        return f"{self.service}.{self.operation}"


class Intercept(Protocol):
    """Performs a call, or not, and returns its response or raises what boto3 would raise."""

    def __call__(self, call: AwsCall, perform: Callable[[], _T]) -> _T: ...


def perform_directly(call: AwsCall, perform: Callable[[], _T]) -> _T:
    """Let every call pass."""
    del call
    return perform()


@dataclass
class MemoryClient:
    """The base of each client. Its operations are methods with boto3's names and arguments."""

    service = ""
    intercept: Intercept = field(default=perform_directly, kw_only=True)


def operation(*, writes: bool) -> Callable[[Callable[..., _T]], Callable[..., _T]]:
    """Make a method of a client one call that can be intercepted."""

    def decorate(method: Callable[..., _T]) -> Callable[..., _T]:
        @wraps(method)
        def call(self: MemoryClient, **request: Any) -> _T:  # noqa: ANN401  # as boto3 takes them
            one = AwsCall(self.service, method.__name__, request, writes)
            return self.intercept(one, lambda: method(self, **request))

        return call

    return decorate


@dataclass(frozen=True)
class MemoryPaginator:
    """The pages of an operation. Each is one call, made when it is needed, as in boto3."""

    read: Callable[..., dict[str, Any]]
    tokens: Mapping[str, str]  # by its name in a response: the name in the next request

    def paginate(
        self,
        *,
        PaginationConfig: Mapping[str, int] | None = None,
        **request: Any,  # noqa: ANN401  # as boto3 takes them
    ) -> Iterator[dict[str, Any]]:
        """Yield pages until one is the last."""
        if PaginationConfig is not None:
            if PaginationConfig.keys() != {"PageSize"}:
                raise ValueError(f"pagination by {sorted(PaginationConfig)} is not supported")
            request["Limit"] = PaginationConfig["PageSize"]
        while True:
            page = self.read(**request)
            yield page
            found = {name: page[given] for given, name in self.tokens.items() if given in page}
            if not found:
                return
            request |= found


def client_error(code: str, operation_name: str, message: str = "", **more: Any) -> ClientError:  # noqa: ANN401  # of the response
    """The error that boto3 raises for an error response."""
    response: Any = {"Error": {"Code": code, "Message": message or code}, **more}
    return ClientError(response, operation_name)


def no_response(call: AwsCall) -> ReadTimeoutError:
    """The error that boto3 raises if no response arrives: the call may have been performed."""
    return ReadTimeoutError(endpoint_url=f"https://{call.service}.memory")


def no_connection(call: AwsCall) -> EndpointConnectionError:
    """The error that boto3 raises if it cannot connect: the call was certainly not performed."""
    return EndpointConnectionError(endpoint_url=f"https://{call.service}.memory")
