"""Requests with a deadline, each on a connection of its own.

`urllib3` applies its timeout to each read, so a response of one byte a second never times out. Here
one deadline limits the whole request. Connecting has its own timeout; its time counts toward the
deadline.

Lambda freezes a function between invocations, and a provider drops idle connections. After the
thaw, such a connection accepts a request but never returns a response, and the outcome is
ambiguous. So no connection is used twice.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache, partial
from ssl import SSLCertVerificationError, SSLContext
from typing import Any, Final, cast

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, MaxRetryError, NewConnectionError
from urllib3.util.ssl_ import create_urllib3_context

from oncely.plugins.provider import INTERNET, Network

# Of the clients of every provider.
CONNECT_TIMEOUT: Final = timedelta(seconds=3)


@dataclass(frozen=True)
class _Deadline:
    network: Network
    ends_at: float

    def time_left(self, max_seconds: float | None) -> float:
        left = self.ends_at - self.network.monotonic()
        if left <= 0:
            raise TimeoutError("the request exceeded its deadline")
        return left if max_seconds is None else min(left, max_seconds)


# Each thread, and each greenlet of the explorer, sends one request at a time and has its own.
_DEADLINE: Final[ContextVar[_Deadline | None]] = ContextVar("deadline", default=None)


@contextmanager
def request_deadline(limit: timedelta, network: Network = INTERNET) -> Iterator[None]:
    """Limit the total time of the requests that are sent in this context."""
    ends_at = network.monotonic() + limit.total_seconds()
    token = _DEADLINE.set(_Deadline(network, ends_at))
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def _time_left(max_seconds: float | None) -> float | None:
    deadline = _DEADLINE.get()
    return max_seconds if deadline is None else deadline.time_left(max_seconds)


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


class TimedSocket:
    """A socket whose reads and writes end at the deadline."""

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
    def __init__(self, *args: Any, network: Network, **named: Any) -> None:  # noqa: ANN401  # as inherited
        super().__init__(*args, **named)
        self._network = network

    def _new_conn(self) -> Any:  # noqa: ANN401  # a socket
        if self._network.open_socket is None:
            return super()._new_conn()
        try:
            return self._network.open_socket(self.host, self.port or self.default_port)
        except OSError as error:
            raise NewConnectionError(self, f"no connection: {error}") from error

    def connect(self) -> None:
        super().connect()
        self.sock: Any = TimedSocket(self.sock)


class _TimedTlsConnection(HTTPSConnection):
    def connect(self) -> None:
        # urllib3 would load the trusted certificates again for each connection.
        self.ssl_context, self.ca_certs = _trusted_context(self.ca_certs), None
        super().connect()
        self.sock: Any = TimedSocket(self.sock)


@lru_cache
def _trusted_context(ca_certs: str | None) -> SSLContext:
    """Load the certificates of a file, or the system's. It takes about 25 ms."""
    context = create_urllib3_context()
    if ca_certs is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(ca_certs)
    return context


class _OneRequestPool(HTTPConnectionPool):
    """A pool that closes each connection instead of keeping it for the next request."""

    def _put_conn(self, conn: Any) -> None:  # noqa: ANN401  # a connection, or None
        if conn is not None:
            conn.close()
        super()._put_conn(None)


class _TimedPool(_OneRequestPool):
    ConnectionCls = _TimedConnection


class _TimedTlsPool(_OneRequestPool, HTTPSConnectionPool):
    ConnectionCls = _TimedTlsConnection


def apply_deadline(manager: PoolManager, network: Network = INTERNET) -> PoolManager:
    """Send each request on its own connection to this network, within `request_deadline`."""
    # A model in this process is served without TLS: its address is given as http://.
    plain = cast("type[HTTPConnectionPool]", partial(_TimedPool, network=network))
    manager.pool_classes_by_scheme = {"http": plain, "https": _TimedTlsPool}
    return manager


def was_never_sent(error: BaseException | None) -> bool:
    """Return whether a request of urllib3 certainly never reached the provider.

    Connection refused, unknown host, connect timeout, or an untrusted certificate.
    """
    reason = error.reason if isinstance(error, MaxRetryError) else None
    is_unconnected = isinstance(reason, NewConnectionError | ConnectTimeoutError)
    return is_unconnected or is_untrusted_certificate(reason)


def is_untrusted_certificate(error: BaseException | None) -> bool:
    """Return whether the provider's certificate is not trusted, which ends a connection unused."""
    # Other TLS errors can occur after the request was sent, so they prove nothing.
    return isinstance(next(iter(getattr(error, "args", ())), None), SSLCertVerificationError)
