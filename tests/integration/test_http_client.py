"""The client of an `HttpProvider` over real sockets: connections, redirects and deadlines."""

import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from oncely.core.effect_outcomes import Ambiguous, NotSent, Succeeded
from oncely.plugins.http_client import MAX_BODY_BYTES, HttpClient
from oncely.plugins.http_provider import HttpProvider, HttpSettings
from oncely.plugins.provider import ProviderAccess
from tests.integration.test_request_deadline import HEAD, TricklingServer
from tests.support.tls import untrusted_server

TIMEOUT = 1  # seconds


class _Server(ThreadingHTTPServer):
    """Keeps connections open, and redirects `/moved` to itself."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[tuple[str, int]] = []  # the path, and the client's port


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.path, self.client_address[1]))
        self.send_response(307 if self.path == "/moved" else 201)
        self.send_header("Location", "/vouchers")
        self.send_header("Content-Length", "13")
        self.end_headers()
        self.wfile.write(b'{"id": "v_1"}')

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def server() -> Iterator[_Server]:
    with _Server() as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()


def client_of(url: str) -> HttpClient:
    provider = HttpProvider("vouchers", timeout=f"{TIMEOUT}s")
    return provider.connect(ProviderAccess(settings=HttpSettings(api_base=url), api_key="key"))


def test_each_request_has_its_own_connection_and_follows_no_redirect(server: _Server) -> None:
    client = client_of(f"http://127.0.0.1:{server.server_port}")

    outcomes = [client.perform("POST", path, json={}) for path in ("/a", "/a", "/moved")]

    assert [type(outcome) for outcome in outcomes] == [Succeeded, Succeeded, Ambiguous]
    assert [path for path, _ in server.seen] == ["/a", "/a", "/moved"]
    assert len({port for _, port in server.seen}) == 3


@pytest.mark.parametrize("at_once", [HEAD, HEAD[:40]], ids=["the body", "the headers"])
def test_trickling_response_ends_at_the_deadline(at_once: bytes) -> None:
    trickling = TricklingServer(at_once, b"x")
    began = time.monotonic()

    assert isinstance(client_of(trickling.url).perform("POST", "/vouchers"), Ambiguous)
    assert time.monotonic() - began < TIMEOUT * 3
    trickling.close()


def test_body_is_read_only_to_its_bound() -> None:
    head = HEAD.replace(b"4000", b"400000000")
    endless = TricklingServer(head + b" " * 2 * MAX_BODY_BYTES, b" ")
    began = time.monotonic()

    assert isinstance(client_of(endless.url).perform("POST", "/vouchers"), Ambiguous)
    assert time.monotonic() - began < TIMEOUT
    endless.close()


def test_refused_connection_unknown_host_and_untrusted_certificate_sent_nothing(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        refused = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with untrusted_server(tmp_path) as untrusted:
        for url in (refused, "http://vouchers.invalid", untrusted):
            assert isinstance(client_of(url).perform("POST", "/vouchers"), NotSent), url
