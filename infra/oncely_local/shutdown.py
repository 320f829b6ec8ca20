"""Lets a request to end unwind like Ctrl-C does, so that nothing stays behind."""

import contextlib
import signal
from collections.abc import Iterator
from typing import Final

# A terminal that closes, and whoever ends processes politely.
_SIGNALS: Final = (signal.SIGHUP, signal.SIGTERM)


@contextlib.contextmanager
def interrupt_on_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt in the main thread for each of them while the block lasts."""
    previous_handlers = {one: signal.signal(one, signal.default_int_handler) for one in _SIGNALS}
    try:
        yield
    finally:
        for one, handler in previous_handlers.items():
            signal.signal(one, handler)
