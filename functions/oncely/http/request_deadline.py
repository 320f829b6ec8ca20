"""A deadline for a whole HTTP request, so that a slow response cannot extend it.

`urllib3` applies its timeout to each read, so a response of one byte a second never times out.
Connecting has its own timeout; its time counts toward the deadline.
"""

import io
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection

# One thread sends a request and reads its response.
_REQUEST: Final = threading.local()


@contextmanager
def request_deadline(limit: timedelta) -> Iterator[None]:
    """Limit the total time of the requests that this thread sends in this context."""
    _REQUEST.ends_at = time.monotonic() + limit.total_seconds()
    try:
        yield
    finally:
        _REQUEST.ends_at = None


def _time_left(max_seconds: float | None) -> float | None:
    ends_at: float | None = getattr(_REQUEST, "ends_at", None)
    if ends_at is None:
        return max_seconds
    left = ends_at - time.monotonic()
    if left <= 0:
        raise TimeoutError("the request exceeded its deadline")
    return left if max_seconds is None else min(left, max_seconds)


class _TimedReader(io.RawIOBase):
    def __init__(self, sock: Any) -> None:  # noqa: ANN401  # a plain or a TLS socket
        self._sock = sock
        self._file = sock.makefile("rb", buffering=0)
        self._socket_timeout: float | None = sock.gettimeout()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:  # noqa: ANN401  # as inherited
        self._sock.settimeout(_time_left(self._socket_timeout))
        count: int | None = self._file.readinto(buffer)
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


class _TimedSocket:
    def __init__(self, sock: Any) -> None:  # noqa: ANN401  # a plain or a TLS socket
        self._sock = sock

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # whatever a socket has
        return getattr(self._sock, name)

    def sendall(self, data: Any) -> None:  # noqa: ANN401  # any buffer
        self._sock.settimeout(_time_left(self._sock.gettimeout()))
        self._sock.sendall(data)

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:  # noqa: ANN401  # http.client reads bytes
        return io.BufferedReader(_TimedReader(self._sock))


class _TimedConnection(HTTPConnection):
    def connect(self) -> None:
        super().connect()
        self.sock: Any = _TimedSocket(self.sock)


class _TimedTlsConnection(HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        self.sock: Any = _TimedSocket(self.sock)


class _TimedPool(HTTPConnectionPool):
    ConnectionCls = _TimedConnection


class _TimedTlsPool(HTTPSConnectionPool):
    ConnectionCls = _TimedTlsConnection


def apply_deadline(manager: PoolManager) -> PoolManager:
    """Make `request_deadline` apply to every request of this pool."""
    manager.pool_classes_by_scheme = {"http": _TimedPool, "https": _TimedTlsPool}
    return manager
