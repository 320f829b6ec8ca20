"""Serves the provider APIs over real sockets, so that connection faults are real."""

import contextlib
import io
import re
import socket
import socketserver
import struct
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self
from urllib.parse import urlsplit

from oncely.contracts.job import AnyJob
from oncely.plugins.provider import AnyProvider
from oncely.testing.sandbox.faults import REFUSAL_STATUSES, FaultKind, FaultSet, SandboxFault
from oncely.testing.sandbox.http_messages import (
    SandboxRequest,
    SandboxResponse,
    encode_response,
)
from oncely.testing.sandbox.ledger import RecordedEffect, RequestLedger
from oncely.testing.sandbox.provider_sandbox import ProviderSandbox, SandboxOptions, sandbox_type

HOST: Final = "127.0.0.1"
# Closing a socket with zero linger sends a reset.
RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
JOIN_SECONDS: Final = 5.0
# Shorter than any client's read timeout.
TRICKLE_SECONDS: Final = 0.5
NOT_JSON: Final = b"<html><body>502 Bad Gateway</body></html>"
CONTROL_PREFIX: Final = "/_sandbox/"
# A segment of a path with a digit is an id.
_ID: Final = re.compile(r"/[^/]*\d[^/]*(?=/|$)")


@dataclass
class EndpointRateLimit:
    """A token bucket for each endpoint, with a burst of one second. None for no limit."""

    per_second: float | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict)  # tokens, and when

    def admits(self, request: SandboxRequest) -> bool:
        """Return whether the endpoint takes one more request now."""
        if self.per_second is None:
            return True
        version, _, path = request.path[1:].partition("/")
        endpoint = f"{request.method} /{version}{_ID.sub('/{id}', f'/{path}')}"
        with self._lock:
            now = time.monotonic()
            tokens, at = self._buckets.get(endpoint, (self.per_second, now))
            tokens = min(tokens + (now - at) * self.per_second, self.per_second)
            admitted = tokens >= 1
            self._buckets[endpoint] = (tokens - admitted, now)
            return admitted


class SandboxProviders:
    """Providers with their faults and a ledger of requests, without a connection to them."""

    def __init__(
        self,
        plugins: Iterable[AnyProvider] = (),
        *,
        jobs: Sequence[type[AnyJob]] = (),  # that call them
        seed: int = 0,
        options: SandboxOptions | None = None,
        models: Mapping[str, ProviderSandbox] | None = None,  # instead of the plug-ins' own
    ) -> None:
        self.options = options or SandboxOptions()
        self.ledger, self.faults = RequestLedger(), FaultSet(seed=seed)
        own = {one.name: sandbox_type(one, jobs)(self.options) for one in plugins}
        self.providers = own if models is None else dict(models)
        self.rate_limit = EndpointRateLimit()

    def effects(self) -> tuple[RecordedEffect, ...]:
        """What really happened at the providers."""
        return tuple(
            replace(one, provider=name)
            for name, provider in self.providers.items()
            for one in provider.ledger.effects()
        )

    def provider_for(self, path: str) -> ProviderSandbox | None:
        found = (one for one in self.providers.values() if path.startswith(one.path_prefix))
        return next(found, None)

    def answer(self, request: SandboxRequest) -> tuple[SandboxResponse | None, SandboxFault | None]:
        """Handle a request, or the fault that hits it.

        Returns no response if the request is not handled now: the connection is reset. How the
        fault keeps the response from the client is up to the connection.
        """
        if (provider := self.provider_for(request.path)) is None:
            return SandboxResponse(404, {"error": f"no provider serves {request.path}"}), None
        if not self.rate_limit.admits(request):
            self.ledger.record(request, fault=FaultKind.RATE_LIMIT.value)
            return provider.error_response(request, status=429), None
        fault = self.faults.next_for(request)
        self.ledger.record(request, fault=fault.kind.value if fault else None)
        if fault is None:
            return provider.handle(request, wrap=lambda execute: execute()), None
        if fault.kind in {FaultKind.DROP_BEFORE, FaultKind.ARRIVES_LATE}:
            return None, fault
        if fault.kind in REFUSAL_STATUSES:
            refusal = provider.error_response(request, status=REFUSAL_STATUSES[fault.kind])
            waits = {} if fault.seconds is None else {"Retry_After": f"{fault.seconds:g}"}
            return refusal.with_headers(**waits), fault
        error = partial(provider.error_response, request, status=500)
        return provider.handle(request, wrap=partial(fault.wrap, error=error)), fault

    def perform(self, request: SandboxRequest) -> None:
        """Handle a request whose response nobody waits for any more."""
        if (provider := self.provider_for(request.path)) is not None:
            provider.handle(request, wrap=lambda execute: execute())


class Sandbox(SandboxProviders):
    """Providers at one address, used in a `with` block."""

    def __init__(
        self,
        plugins: Iterable[AnyProvider],
        *,
        jobs: Sequence[type[AnyJob]] = (),
        port: int = 0,
        seed: int = 0,
        options: SandboxOptions | None = None,
    ) -> None:
        super().__init__(plugins, jobs=jobs, seed=seed, options=options)
        # Connections of an older generation stay open and get no responses. A Lambda function
        # sees this after a freeze if the provider closed the connection and the close was lost.
        self.generation = 0
        self._server = _Server((HOST, port), partial(_Handler, self))
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._server.server_address[1]}"

    def control(self, request: SandboxRequest) -> SandboxResponse:
        """Handle a request of another process. Not recorded, and never hit by a fault."""
        try:
            return self._control(request)
        except Exception as error:  # noqa: BLE001  # another process cannot see a traceback
            return SandboxResponse(400, {"error": f"{type(error).__name__}: {error}"})

    def _control(self, request: SandboxRequest) -> SandboxResponse:
        match request.method, request.path.removeprefix(CONTROL_PREFIX):
            case "GET", "ledger":
                effects = [asdict(one) for one in self.effects()]
                return SandboxResponse(200, {**self.ledger.to_dict(), "effects": effects})
            case "GET", "faults":
                return SandboxResponse(200, {"faults": self.faults.to_dicts()})
            case "POST", "faults":
                return SandboxResponse(201, asdict(self.faults.add(**request.params)))
            case "DELETE", "faults":
                self.faults.clear()
                return SandboxResponse(200, {"faults": []})
            case _:
                error = f"unknown endpoint: {request.method} {request.path}"
                return SandboxResponse(404, {"error": error})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Release every request, close every connection and free the port."""
        self.faults.clear()
        self._server.shutdown()
        self._server.close_connections()
        self._server.server_close()
        self._thread.join(JOIN_SECONDS)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # for bursts of connections

    def __init__(self, address: tuple[str, int], handler: Any) -> None:  # noqa: ANN401  # a partial, not a class
        self._lock = threading.Lock()
        self._open: dict[socket.socket, threading.Thread] = {}
        super().__init__(address, handler)

    def server_bind(self) -> None:
        # HTTPServer resolves the host name, which may take seconds.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.server_address[1]

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401  # as inherited
        with self._lock:
            self._open[request] = threading.current_thread()
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._open.pop(request, None)

    def close_connections(self) -> None:
        """End the connections that clients keep alive, and the threads that serve them."""
        with self._lock:
            still_open = dict(self._open)
        for connection in still_open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        # All of them end at the same time, so this timeout is for the slowest.
        until = time.monotonic() + JOIN_SECONDS
        for thread in still_open.values():
            thread.join(max(0.0, until - time.monotonic()))

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401  # as inherited
        # Clients of this server are expected to disconnect. Any other error is a bug.
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body leave together
    disable_nagle_algorithm = True

    def __init__(self, sandbox: Sandbox, *args: Any) -> None:  # noqa: ANN401  # as inherited
        self._sandbox = sandbox
        self._generation = sandbox.generation  # a handler serves one connection
        super().__init__(*args)

    def _serve(self) -> None:
        request = self._read()
        if self._generation != self._sandbox.generation:
            self._ignore()
            return
        if request.path.startswith(CONTROL_PREFIX):
            self._send(self._sandbox.control(request))
            return
        response, fault = self._sandbox.answer(request)
        self._deliver(request, response, fault)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815  # names of the base class

    def _deliver(
        self,
        request: SandboxRequest,
        response: SandboxResponse | None,
        fault: SandboxFault | None,
    ) -> None:
        if response is None:
            self._reset()
            if fault is not None and fault.kind is FaultKind.ARRIVES_LATE:
                fault.hang()
                self._sandbox.perform(request)
            return
        match fault and fault.kind:
            case FaultKind.ACCEPT_THEN_DROP:
                self._reset()
            case FaultKind.ACCEPT_THEN_HANG if fault is not None:
                fault.hang()
                self._send(response)
            case FaultKind.ACCEPT_THEN_TRICKLE if fault is not None:
                self._trickle(fault)
                self._reset()
            case FaultKind.GARBLED:
                self._send(response, body=NOT_JSON)
            case FaultKind.TRUNCATED:
                self._send(response, cut=True)
            case _:
                self._send(response)

    def _read(self) -> SandboxRequest:
        address = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        return SandboxRequest(
            method=self.command,
            path=address.path,
            at=self._sandbox.options.clock(),
            query=address.query,
            headers={name.lower(): value for name, value in self.headers.items()},
            body=self.rfile.read(length),
            request_id=self._sandbox.options.new_id("req"),
        )

    def _send(
        self, response: SandboxResponse, *, body: bytes | None = None, cut: bool = False
    ) -> None:
        self.wfile.write(encode_response(response, body, cut=cut))
        self.wfile.flush()
        if cut:
            self.close_connection = True

    def _trickle(self, fault: SandboxFault) -> None:
        """Send an endless response, a byte at a time, so that no read times out."""
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Patience: ")
        until = time.monotonic() + fault.delay_seconds
        while time.monotonic() < until and not fault.hang(TRICKLE_SECONDS):
            self.wfile.write(b".")
            self.wfile.flush()

    def _ignore(self) -> None:
        """Wait without a response until the client disconnects or the sandbox stops."""
        self.close_connection = True
        self.rfile.read(1)

    def _reset(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        # The socket closes once both files are closed too.
        self.rfile.close()
        self.wfile.close()
        self.connection.close()
        self.wfile = io.BytesIO()  # the base class flushes it again

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401  # as inherited
        """Log nothing: the ledger has every request."""
