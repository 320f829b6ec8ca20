"""An HTTP client that opens a connection for each request and closes it with the response."""

from typing import Any

from urllib3 import BaseHTTPResponse, PoolManager
from urllib3.util.ssl_ import create_urllib3_context

from oncely.http.request_deadline import apply_deadline
from oncely.http.request_gate import UNGATED, RequestGate


class FreshConnectionPool(PoolManager):
    """A pool that never reuses a connection.

    Lambda freezes a function between invocations, and a provider drops idle connections. After
    the thaw, such a connection accepts a request but never returns a response.
    """

    def __init__(self, gate: RequestGate = UNGATED, **options: Any) -> None:  # noqa: ANN401  # as inherited
        self._gate = gate
        # Share the trusted certificates: loading them takes about 25 ms.
        context = create_urllib3_context()
        context.load_default_certs()
        super().__init__(**{**options, "ssl_context": context})

    def urlopen(  # type: ignore[override]  # `redirect` is one of the options
        self,
        method: str,
        url: str,
        **options: Any,  # noqa: ANN401  # as inherited
    ) -> BaseHTTPResponse:
        """Send one request; its connection closes once the response is read."""
        with (
            self._gate.request() as gated,
            apply_deadline(PoolManager(num_pools=1, **self.connection_pool_kw)) as pool,
        ):
            response = pool.urlopen(method, url, **options)
            gated.status = response.status
            return response
