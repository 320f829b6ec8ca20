"""The init phase of a function: on Lambda, build everything before the first event arrives."""

import gc
import os
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from functools import _lru_cache_wrapper

    from oncely.app import App

T = TypeVar("T")


def begin() -> None:
    """Make imports faster: pause the garbage collector, and load no pydantic plug-ins."""
    if _on_lambda():
        gc.disable()
        # Pydantic reads the metadata of every installed package to find them.
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")


def once(build: Callable[[], T]) -> "_lru_cache_wrapper[T]":
    """Build a value once: immediately on Lambda, elsewhere on first use."""
    cached = cache(build)
    if _on_lambda():
        cached()
    return cached


def once_with_app(build: "Callable[[App], T]") -> "_lru_cache_wrapper[T]":
    """Build a value once from the app of this environment, with the jobs that it names."""

    def build_from_env() -> T:
        from oncely.app import app_from_env  # noqa: PLC0415  # after `begin`
        from oncely.contracts.job_names import jobs_from_env  # noqa: PLC0415  # the same

        return build(app_from_env(os.environ, jobs_from_env(os.environ)))

    return once(build_from_env)


def end() -> None:
    """Restart the garbage collector, which then skips what the init phase allocated."""
    if _on_lambda():
        gc.freeze()
        gc.enable()


def _on_lambda() -> bool:
    return "AWS_LAMBDA_FUNCTION_NAME" in os.environ
