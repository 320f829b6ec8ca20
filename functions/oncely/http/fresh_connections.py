"""An HTTP client that opens a connection for each request and closes it with the response."""

from ssl import SSLContext
from typing import TYPE_CHECKING, Any

from urllib3 import PoolManager
from urllib3.util.ssl_ import create_urllib3_context

from oncely.http.network import INTERNET, Network
from oncely.http.request_deadline import apply_deadline
from oncely.http.request_gate import UNGATED, RequestGate

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse  # missing before urllib3 2, which Lambda may bring


class FreshConnectionPool(PoolManager):
    """A pool that never reuses a connection.

    Lambda freezes a function between invocations, and a provider drops idle connections. After
    the thaw, such a connection accepts a request but never returns a response.
    """

    def __init__(self, gate: RequestGate = UNGATED, *, network: Network = INTERNET) -> None:
        self._gate, self._network = gate, network
        # A network in this process has no TLS.
        is_real = network.open_socket is None
        super().__init__(ssl_context=_load_certificates() if is_real else None)

    def urlopen(  # type: ignore[override]  # `redirect` is one of the options
        self,
        method: str,
        url: str,
        **options: Any,  # noqa: ANN401  # as inherited
    ) -> "BaseHTTPResponse":
        """Send one request; its connection closes once the response is read."""
        with (
            self._gate.request() as gated,
            apply_deadline(
                PoolManager(num_pools=1, **self.connection_pool_kw), self._network
            ) as pool,
        ):
            response = pool.urlopen(method, url, **options)
            gated.status = response.status
            return response


def _load_certificates() -> SSLContext:
    # All requests of a pool share them: loading them takes about 25 ms.
    context = create_urllib3_context()
    context.load_default_certs()
    return context
