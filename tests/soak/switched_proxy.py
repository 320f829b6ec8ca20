"""A proxy in front of a service that can be switched off: connections break or stay unanswered."""

import socket
import threading
from contextlib import suppress
from typing import Final, Self
from urllib.parse import urlsplit

_CHUNK_BYTES: Final = 65536
# Longer than the timeout of any client.
_SILENCE_SECONDS: Final = 10.0


class SwitchedProxy:
    def __init__(self, target: str) -> None:
        address = urlsplit(target)
        self._target = (address.hostname or "127.0.0.1", address.port or 80)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._is_off = threading.Event()
        self._ends = threading.Event()
        self._open: set[socket.socket] = set()
        self.refused = 0

    @property
    def url(self) -> str:
        host, port = self._listener.getsockname()
        return f"http://{host}:{port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._listener.close()
        self.switch_off()

    def switch_off(self) -> None:
        """Break every connection, including those with a request in flight."""
        self._is_off.set()
        for one in list(self._open):
            _close(one)

    def switch_on(self) -> None:
        self._is_off.clear()

    def _accept(self) -> None:
        while not self._ends.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        if self._is_off.is_set():
            self.refused += 1
            if self.refused % 2:  # the others are broken at once
                self._ends.wait(_SILENCE_SECONDS)
            _close(client)
            return
        with suppress(OSError):
            server = socket.create_connection(self._target)
            self._open |= {client, server}
            threading.Thread(target=self._copy, args=(server, client), daemon=True).start()
            self._copy(client, server)

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_CHUNK_BYTES):
                sink.sendall(data)
        for one in (source, sink):
            self._open.discard(one)
            _close(one)


def _close(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
