"""One number for the state of anything, so that equal states are explored once."""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from itertools import count
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Final

from oncely.domain.jobs import Job

_LOCKS: Final = (type(threading.Lock()), type(threading.RLock()))
_PLAIN: Final = frozenset({str, int, float, bool, bytes, datetime, timedelta, type(None)})


class CannotDigestError(TypeError):
    """An object whose state cannot be told from outside: its schedules are not merged."""


class Digester:
    """Digests of one run; a job row is frozen, so it is digested once."""

    def __init__(self) -> None:
        self._jobs: dict[int, tuple[Job, int]] = {}
        self._fields: dict[type, tuple[str, ...]] = {}

    def of(self, value: object) -> int:
        """Equal for equal values, whatever they are made of."""
        if type(value) in _PLAIN or isinstance(value, Enum):
            return hash(value)
        if isinstance(value, Job):
            return self._of_job(value)
        if isinstance(value, tuple | list | deque):
            return hash(tuple(map(self.of, value)))
        if isinstance(value, dict | Mapping):
            return hash(frozenset((self.of(key), self.of(held)) for key, held in value.items()))
        if isinstance(value, set | frozenset):
            return hash(frozenset(map(self.of, value)))
        return self._of_object(value)

    def _of_job(self, job: Job) -> int:
        known = self._jobs.get(id(job))
        if known is None:
            known = self._jobs[id(job)] = (job, self._of_fields(job))
        return known[1]

    def _of_object(self, value: Any) -> int:  # noqa: ANN401  # anything
        if isinstance(value, BaseException):
            return hash((type(value).__qualname__, str(value)))
        if is_dataclass(value) and not isinstance(value, type):
            return self._of_fields(value)
        if isinstance(value, _LOCKS) or getattr(value, "undigested", False):
            return 0
        if isinstance(value, FunctionType | MethodType | BuiltinFunctionType | type):
            return hash(value.__qualname__)
        if isinstance(value, count):
            return hash(repr(value))
        if hasattr(value, "__dict__"):
            return hash((type(value).__qualname__, self.of(vars(value))))
        raise CannotDigestError(f"the state of a {type(value).__name__} cannot be told")

    def _of_fields(self, value: Any) -> int:  # noqa: ANN401  # any dataclass
        kind = type(value)
        names = self._fields.get(kind)
        if names is None:
            names = self._fields[kind] = tuple(field.name for field in fields(value))
        return hash((kind.__qualname__, *(self.of(getattr(value, name)) for name in names)))


Digest = Callable[[object], int]
