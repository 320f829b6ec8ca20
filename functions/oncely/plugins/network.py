"""How the clients of providers reach them: real sockets and time, or a model in this process."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final


@dataclass(frozen=True)
class Network:
    """The clocks of clients, and what opens a connection to a host and a port."""

    monotonic: Callable[[], float] = time.monotonic  # of deadlines
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    # Returns a connected socket, or raises an OSError. None for a real connection.
    open_socket: Callable[[str, int], Any] | None = None


INTERNET: Final = Network()
