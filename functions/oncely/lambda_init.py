"""The init phase of a function: on Lambda, everything is made before the first event arrives."""

import gc
import os
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from functools import _lru_cache_wrapper

T = TypeVar("T")


def begin() -> None:
    """Stop the garbage collector: imports keep nearly all that they allocate."""
    if _on_lambda():
        gc.disable()


def once(make: Callable[[], T]) -> "_lru_cache_wrapper[T]":
    """Make something once: on Lambda right now, elsewhere when it is first asked for."""
    made = cache(make)
    if _on_lambda():
        made()
    return made


def end() -> None:
    """Start the garbage collector again; it need not look at what stays for good."""
    if _on_lambda():
        gc.freeze()
        gc.enable()


def _on_lambda() -> bool:
    return "AWS_LAMBDA_FUNCTION_NAME" in os.environ
