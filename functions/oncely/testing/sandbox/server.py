"""Serves providers over real sockets on this machine, so that a dropped connection is dropped."""

import contextlib
import io
import json
import socket
import socketserver
import struct
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self
from urllib.parse import urlsplit

from oncely.testing.sandbox.control import ControlAction, SandboxControl
from oncely.testing.sandbox.faults import REFUSAL_STATUSES, FaultKind, FaultSet, SandboxFault
from oncely.testing.sandbox.http_messages import (
    NowFunction,
    ProviderApi,
    SandboxHandler,
    SandboxRequest,
    SandboxResponse,
    now,
)
from oncely.testing.sandbox.ledger import Ledger

HOST: Final = "127.0.0.1"
# Closing a socket that lingers for zero seconds sends a reset instead of a farewell.
RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
JOIN_SECONDS: Final = 5.0
# Shorter than any client's read timeout.
TRICKLE_SECONDS: Final = 0.5
NOT_JSON: Final = b"<html><body>502 Bad Gateway</body></html>"


class Sandbox:
    """Providers behind one address; use it in a `with` block."""

    def __init__(
        self,
        apis: Sequence[ProviderApi],
        *,
        ledger: Ledger,
        faults: FaultSet,
        port: int = 0,
        clock: NowFunction = now,
        actions: Mapping[str, ControlAction] | None = None,
    ) -> None:
        self.ledger = ledger
        self.faults = faults
        self.clock = clock
        self.control = SandboxControl(ledger, faults, actions or {})
        self.generation = 0  # of connections: an older one is not answered any more
        self._apis = tuple(apis)
        self._server = _Server((HOST, port), partial(_Handler, self))
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    @property
    def url(self) -> str:
        """The address to give to a client as the provider's."""
        return f"http://{HOST}:{self._server.server_address[1]}"

    def start(self) -> Self:
        """Begin to answer."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Let go of every request, close every connection and free the port."""
        self.faults.clear()
        self._server.shutdown()
        self._server.close_connections()
        self._server.server_close()
        self._thread.join(JOIN_SECONDS)

    def forget_connections(self) -> None:
        """Leave every open connection without answers, and unclosed.

        This is what a thawed Lambda finds: the provider dropped the connection during the freeze,
        and its farewell was lost.
        """
        self.generation += 1

    def api_for(self, path: str) -> ProviderApi | None:
        """Find the provider whose path it is."""
        return next((api for api in self._apis if api.serves(path)), None)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # a burst of workers connects at once

    def __init__(self, address: tuple[str, int], handler: Any) -> None:  # noqa: ANN401 - a partial is no class
        self._lock = threading.Lock()
        self._open: dict[socket.socket, threading.Thread] = {}
        super().__init__(address, handler)

    def server_bind(self) -> None:
        # HTTPServer's own looks the host's name up, which may take seconds.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.server_address[1]

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as inherited
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
        # All of them end at once; the time is for the slowest, not for each.
        until = time.monotonic() + JOIN_SECONDS
        for thread in still_open.values():
            thread.join(max(0.0, until - time.monotonic()))

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as inherited
        # A client that hangs up is what this server is for; anything else is a bug to show.
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body leave together
    disable_nagle_algorithm = True

    def __init__(self, sandbox: Sandbox, *args: Any) -> None:  # noqa: ANN401 - as inherited
        self._sandbox = sandbox
        self._generation = sandbox.generation  # a handler serves one connection
        super().__init__(*args)

    def _serve(self) -> None:
        request = self._read()
        if self._generation != self._sandbox.generation:
            self._ignore()
            return
        if SandboxControl.serves(request.path):
            self._send(self._sandbox.control.handle(request))
            return
        api = self._sandbox.api_for(request.path)
        if api is None:
            self._send(SandboxResponse(404, {"error": f"no provider serves {request.path}"}))
            return
        fault = self._sandbox.faults.next_for(request)
        self._sandbox.ledger.record(request, fault=fault.kind.value if fault else None)
        if fault is None:
            self._send(api.handle(request, wrap=_execute))
        else:
            self._serve_with_fault(fault, api, request)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - names of the base class

    def _serve_with_fault(
        self, fault: SandboxFault, api: ProviderApi, request: SandboxRequest
    ) -> None:
        if fault.kind is FaultKind.DROP_BEFORE:
            self._reset()
            return
        if fault.kind in REFUSAL_STATUSES:
            self._send(
                _with_retry_after(
                    fault, api.error_response(request, status=REFUSAL_STATUSES[fault.kind])
                )
            )
            return
        error = partial(api.error_response, request, status=500)
        response = api.handle(request, wrap=partial(fault.wrap, error=error))
        match fault.kind:
            case FaultKind.ACCEPT_THEN_DROP:
                self._reset()
            case FaultKind.ACCEPT_THEN_HANG:
                fault.hang()
                self._send(response)
            case FaultKind.ACCEPT_THEN_TRICKLE:
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
            at=self._sandbox.clock(),
            query=address.query,
            headers={name.lower(): value for name, value in self.headers.items()},
            body=self.rfile.read(length),
        )

    def _send(
        self, response: SandboxResponse, *, body: bytes | None = None, cut: bool = False
    ) -> None:
        content = json.dumps(response.body, default=str).encode() if body is None else body
        self.send_response(response.status)
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if cut else content)
        self.wfile.flush()
        if cut:
            self.close_connection = True

    def _trickle(self, fault: SandboxFault) -> None:
        """Begin an answer that goes on and on: each read of the client gets something."""
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Patience: ")
        until = time.monotonic() + fault.delay_seconds
        while time.monotonic() < until and not fault.hang(TRICKLE_SECONDS):
            self.wfile.write(b".")
            self.wfile.flush()

    def _ignore(self) -> None:
        """Wait, without an answer, until the client hangs up or the sandbox stops."""
        self.close_connection = True
        self.rfile.read(1)

    def _reset(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        # The files hold the socket open; it closes with the last of the three.
        self.rfile.close()
        self.wfile.close()
        self.connection.close()
        self.wfile = io.BytesIO()  # the base class flushes it once more

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401 - as inherited
        """Say nothing: the ledger is the log."""


def _with_retry_after(fault: SandboxFault, response: SandboxResponse) -> SandboxResponse:
    """A refusal that says when to come back, if the fault does."""
    waits = {} if fault.seconds is None else {"Retry_After": f"{fault.seconds:g}"}
    return response.with_headers(**waits)


def _execute(execute: SandboxHandler) -> SandboxResponse:
    return execute()
