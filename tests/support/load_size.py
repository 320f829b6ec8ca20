"""The two sizes of a mass test: enough to find the bug, and the full load of `make soak`."""

import os

FULL_SIZE = os.environ.get("ONCELY_TEST_SIZE") == "full"


def choose_size(default: int, *, full: int) -> int:
    """How many of something a mass test uses; it is marked `mass`, so `make soak` runs it too."""
    return full if FULL_SIZE else default
