"""Sessions of `requests`, for the SDKs that use it, within `request_deadline`."""

from ssl import SSLCertVerificationError
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from requests.exceptions import ConnectTimeout
from urllib3 import PoolManager
from urllib3.exceptions import MaxRetryError, NewConnectionError

from oncely.plugins.network import INTERNET, Network
from oncely.plugins.request_deadline import apply_deadline


class DeadlineAdapter(HTTPAdapter):
    """A session adapter that makes `request_deadline` apply to every request."""

    def __init__(self, network: Network) -> None:
        self._network = network
        super().__init__()

    def init_poolmanager(self, *args: Any, **named: Any) -> None:  # noqa: ANN401  # as inherited
        super().init_poolmanager(*args, **named)
        apply_deadline(self.poolmanager, self._network)

    def proxy_manager_for(self, *args: Any, **named: Any) -> PoolManager:  # noqa: ANN401  # as inherited
        return apply_deadline(super().proxy_manager_for(*args, **named), self._network)


def deadline_session(network: Network = INTERNET) -> requests.Session:
    """Return a session that never retries, and that `request_deadline` applies to."""
    session = requests.Session()
    # Only a real network has proxies. To search the environment for them takes a tenth of the time.
    session.trust_env = network.open_socket is None
    for scheme in ("http://", "https://"):
        session.mount(scheme, DeadlineAdapter(network))
    return session


def was_never_sent(error: BaseException | None) -> bool:
    """Return whether a request certainly never reached the provider.

    Connection refused, unknown host, connect timeout, or an untrusted certificate.
    """
    if isinstance(error, ConnectTimeout):
        return True
    inner = error.args[0] if error is not None and error.args else None
    reason = inner.reason if isinstance(inner, MaxRetryError) else None
    if isinstance(reason, NewConnectionError):
        return True
    # Other TLS errors can occur after the request was sent, so they prove nothing.
    return isinstance(next(iter(getattr(reason, "args", ())), None), SSLCertVerificationError)
