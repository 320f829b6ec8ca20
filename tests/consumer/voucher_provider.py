"""The voucher provider of the shop: honors keys, and can withhold its answers."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class VoucherServer:
    """Its ledger, and how it answers."""

    def __init__(self) -> None:
        self.vouchers: dict[str, str] = {}  # ids of vouchers by idempotency key
        self.busy_with: set[str] = set()  # vouchers that it does not issue now
        self.silent_about: set[str] = set()  # vouchers that it issues, without an answer
        self.slow_with: set[str] = set()  # the same, but the client waits until `recover`
        self._recovered = threading.Event()
        self._lock = threading.Lock()

    @property
    def ledger(self) -> Counter[str]:
        """How often each voucher was issued."""
        return Counter(self.vouchers.values())

    def recover(self) -> None:
        """Answer every request."""
        for one in (self.busy_with, self.silent_about, self.slow_with):
            one.clear()
        self._recovered.set()

    def answers(self, voucher_id: str) -> bool:
        if voucher_id in self.slow_with:
            self._recovered.wait()
        return voucher_id not in self.silent_about

    def issue(self, voucher_id: str, key: str) -> None:
        with self._lock:
            self.vouchers.setdefault(key, voucher_id)


@contextmanager
def running_provider() -> Iterator[tuple[VoucherServer, str]]:
    """Run the provider. Yields it, and its address."""
    provider = VoucherServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            voucher_id = self.path.rpartition("/")[2]
            if voucher_id in provider.busy_with:
                self._answer(voucher_id, 429)
                return
            provider.issue(voucher_id, self.headers["Idempotency-Key"])
            self._answer(voucher_id, 201)

        def do_GET(self) -> None:
            voucher_id = self.path.rpartition("/")[2]
            self._answer(voucher_id, 200 if voucher_id in provider.ledger else 404)

        def _answer(self, voucher_id: str, status: int) -> None:
            if not provider.answers(voucher_id):
                self.close_connection = True
                return
            content = json.dumps({"id": f"v_{voucher_id}"}).encode()
            with suppress(OSError):  # the client no longer waits
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Keep the output of the steps readable."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield provider, f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
