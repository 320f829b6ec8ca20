"""Sessions of `requests`, for the SDKs that use it, within `request_deadline`."""

from typing import Any

import requests
from requests.adapters import HTTPAdapter
from requests.exceptions import ConnectTimeout
from urllib3 import PoolManager

from oncely.plugins import request_deadline
from oncely.plugins.provider import INTERNET, Network


class DeadlineAdapter(HTTPAdapter):
    """A session adapter that makes `request_deadline` apply to every request."""

    def __init__(self, network: Network) -> None:
        self._network = network
        super().__init__()

    def init_poolmanager(self, *args: Any, **named: Any) -> None:  # noqa: ANN401  # as inherited
        super().init_poolmanager(*args, **named)
        request_deadline.apply_deadline(self.poolmanager, self._network)

    def proxy_manager_for(self, *args: Any, **named: Any) -> PoolManager:  # noqa: ANN401  # as inherited
        manager = super().proxy_manager_for(*args, **named)
        return request_deadline.apply_deadline(manager, self._network)


def deadline_session(network: Network = INTERNET) -> requests.Session:
    """Return a session that never retries, and that `request_deadline` applies to."""
    session = requests.Session()
    # Only a real network has proxies. To search the environment for them takes a tenth of the time.
    session.trust_env = network.open_socket is None
    for scheme in ("http://", "https://"):
        session.mount(scheme, DeadlineAdapter(network))
    return session


def was_never_sent(error: BaseException | None) -> bool:
    """Return whether a request of `requests` certainly never reached the provider."""
    inner = error.args[0] if error is not None and error.args else None
    return isinstance(error, ConnectTimeout) or request_deadline.was_never_sent(inner)
