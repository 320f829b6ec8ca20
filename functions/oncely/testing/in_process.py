"""Providers in this process, on sockets in memory: below the SDKs and our own HTTP code."""

import io
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from urllib3.exceptions import NewConnectionError

from oncely.plugins.provider import Network
from oncely.testing.sandbox.faults import FaultKind
from oncely.testing.sandbox.http_messages import SandboxRequest, encode_response
from oncely.testing.sandbox.server import NOT_JSON, SandboxProviders

# Serves a request to a host. An OSError is raised when the client reads the response.
Serve = Callable[[str, SandboxRequest], bytes | OSError]
# A socket in memory cannot show whether it is still open, so it serves one request.
CLOSES: Final = {"Connection": "close"}


def in_process_network(serve: Serve, now: Callable[[], datetime]) -> Network:
    """A network on which every host is served by a function, and time is an argument."""

    def open_socket(host: str, port: int) -> _Socket:
        del port
        return _Socket(partial(serve, host), now)

    return Network(monotonic=lambda: now().timestamp(), now=now, open_socket=open_socket)


def base_url(provider: str) -> str:
    """The address of a provider on such a network."""
    return f"http://{provider}"


def refuse_connection() -> None:
    """Raise what a client sees if nothing was sent. To be called while a request is served."""
    raise NewConnectionError(None, "connection refused")  # type: ignore[arg-type]  # no real one


class InProcessSandbox(SandboxProviders):
    """Providers for tests, with the faults of the sandbox that is served over HTTP."""

    def __init__(self, *args: Any, **named: Any) -> None:  # noqa: ANN401  # as inherited
        super().__init__(*args, **named)
        self._late: list[tuple[datetime, SandboxRequest]] = []

    @property
    def network(self) -> Network:
        return in_process_network(lambda _, request: self.serve(request), self.options.clock)

    def serve(self, request: SandboxRequest) -> bytes | OSError:
        """Handle a request. Requests that arrive late are handled before it if it is their time."""
        self.deliver_late(until=self.options.clock())
        response, fault = self.answer(request)
        kind = fault and fault.kind
        if response is None:
            if fault is not None and kind is FaultKind.ARRIVES_LATE:
                late_by = timedelta(seconds=fault.delay_seconds)
                self.send_late(self.options.clock() + late_by, request)
            return ConnectionResetError("reset by the sandbox")
        response = response.with_headers(**CLOSES)
        match kind:
            case FaultKind.ACCEPT_THEN_DROP:
                return ConnectionResetError("reset by the sandbox")
            case FaultKind.ACCEPT_THEN_HANG | FaultKind.ACCEPT_THEN_TRICKLE:
                return TimeoutError("no response")
            case FaultKind.GARBLED:
                return encode_response(response, NOT_JSON)
            case FaultKind.TRUNCATED:
                return encode_response(response, cut=True)
            case _:
                return encode_response(response)

    def send_late(self, at: datetime, request: SandboxRequest) -> None:
        """Let a request arrive at a later time."""
        self._late.append((at, request))

    def deliver_late(self, *, until: datetime | None = None) -> None:
        """Handle the requests that arrive late, by then or all of them."""
        due = [one for one in self._late if until is None or one[0] <= until]
        for one in due:
            self._late.remove(one)
            self.perform(one[1])


class _Socket:
    """A connection to a function. It serves a request once all of it is sent."""

    def __init__(
        self, serve: Callable[[SandboxRequest], bytes | OSError], now: Callable[[], datetime]
    ) -> None:
        self._serve, self._now = serve, now
        self._sent = b""
        self._response: bytes | OSError = b""

    def sendall(self, data: Any) -> None:  # noqa: ANN401  # any buffer
        self._sent += bytes(data)
        if (request := _parse_request(self._sent, self._now())) is not None:
            self._response = self._serve(request)

    def makefile(self, *_: Any, **__: Any) -> io.BytesIO:  # noqa: ANN401  # as of a socket
        if isinstance(self._response, OSError):
            raise self._response
        return io.BytesIO(self._response)

    def gettimeout(self) -> float | None:
        return None

    def settimeout(self, seconds: float | None) -> None:
        """Accept it: a response is there at once, or never."""

    def close(self) -> None:
        """Nothing is open."""


def _parse_request(sent: bytes, at: datetime) -> SandboxRequest | None:
    """The request, once it is complete."""
    head, complete, body = sent.partition(b"\r\n\r\n")
    if not complete:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    named = (line.partition(":") for line in lines)
    headers = {name.lower(): value.strip() for name, _, value in named}
    if len(body) < int(headers.get("content-length", 0)):
        return None
    method, address, _ = first.split(" ")
    parts = urlsplit(address)
    return SandboxRequest(
        method, parts.path, at, query=parts.query, headers=headers, body=body, request_id="req_1"
    )
