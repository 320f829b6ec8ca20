"""What the client of a provider uses around each request."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from oncely.core.profiles import EndpointGroup

_SERVER_ERROR: Final = 500


@dataclass
class GatedResponse:
    """The HTTP status of a response, which the client sets."""

    status: int | None = None  # None if there was no response

    @property
    def failed(self) -> bool:
        """Whether the provider did not respond, or with a server error. A decline is no failure."""
        return self.status is None or self.status >= _SERVER_ERROR


class RequestGate:
    """The gate of one provider, as its client sees it. This one lets every request through."""

    @contextmanager
    def request(
        self, endpoint: str = "", *, group: EndpointGroup | None = None
    ) -> Iterator[GatedResponse]:
        """Wait for the turn of a request, and report its response.

        Without a group it is that of the run or lookup. A provider that counts all requests
        together has one endpoint. Raises GateClosedError if the request must not be sent.
        """
        del endpoint, group
        yield GatedResponse()


UNGATED: Final = RequestGate()
