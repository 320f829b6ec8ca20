"""AWS clients whose requests end at `request_deadline`, as those of other providers do.

botocore applies its timeout to each read, too. Only the sockets differ: it signs the request,
chooses the endpoint, the proxy and the trusted certificates, and translates errors as before.
"""

from typing import Any

from botocore.awsrequest import (
    AWSHTTPConnection,
    AWSHTTPConnectionPool,
    AWSHTTPSConnection,
    AWSHTTPSConnectionPool,
)

from oncely.plugins.request_deadline import TimedSocket


class _TimedConnection(AWSHTTPConnection):
    def connect(self) -> None:
        super().connect()
        self.sock: Any = TimedSocket(self.sock)


class _TimedTlsConnection(AWSHTTPSConnection):
    def connect(self) -> None:
        super().connect()
        self.sock: Any = TimedSocket(self.sock)


class _TimedPool(AWSHTTPConnectionPool):
    ConnectionCls = _TimedConnection


class _TimedTlsPool(AWSHTTPSConnectionPool):
    ConnectionCls = _TimedTlsConnection


def apply_deadline_to_aws(client: Any) -> None:  # noqa: ANN401  # of any service
    """End the requests of this client at `request_deadline`, through a proxy as well."""
    # botocore has no public way to choose these. Its pools share this one mapping.
    pools = client._endpoint.http_session._pool_classes_by_scheme  # noqa: SLF001  # as said
    pools.update(http=_TimedPool, https=_TimedTlsPool)
