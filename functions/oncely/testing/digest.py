"""Digests of states, so that the explorer visits equal states once."""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from itertools import count
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Final

from oncely.testing.memory_aws.dynamodb import Item

Digest = Callable[[object], int]
_LOCKS: Final = (type(threading.Lock()), type(threading.RLock()))
_PLAIN: Final = frozenset({str, int, float, bool, bytes, datetime, timedelta, type(None)})


class UndigestableStateError(TypeError):
    """An object without readable state. Its schedules are not merged."""


class Digester:
    """Digests of one run, with a cache for what never changes: items, rows, recorded charges."""

    def __init__(self) -> None:
        self._frozen: dict[int, tuple[object, int]] = {}
        self._fields: dict[type, tuple[str, ...]] = {}
        self._by_type: dict[type, Digest] = dict.fromkeys(_PLAIN, hash)

    def digest(self, value: object) -> int:
        """Return a number that is equal for equal values."""
        kind = type(value)
        digest = self._by_type.get(kind)
        if digest is None:
            digest = self._by_type[kind] = self._digest_for_type(kind)
        return digest(value)

    def _digest_for_type(self, kind: type) -> Digest:
        if issubclass(kind, Enum):
            return hash
        if issubclass(kind, Item) or _is_value(kind):
            return self._digest_frozen
        if issubclass(kind, tuple | list | deque):
            return self._digest_items
        if issubclass(kind, dict | Mapping):
            return self._digest_mapping
        if issubclass(kind, set | frozenset):
            return self._digest_set
        return self._digest_object

    def _digest_items(self, value: Any) -> int:  # noqa: ANN401  # a sequence of anything
        return hash(tuple([self.digest(one) for one in value]))

    def _digest_mapping(self, value: Any) -> int:  # noqa: ANN401  # a mapping of anything
        return hash(
            frozenset([(self.digest(key), self.digest(held)) for key, held in value.items()])
        )

    def _digest_set(self, value: Any) -> int:  # noqa: ANN401  # a set of anything
        return hash(frozenset([self.digest(one) for one in value]))

    def _digest_frozen(self, value: object) -> int:
        known = self._frozen.get(id(value))
        if known is None:
            # Store the value, so that Python does not reuse its id.
            of_value = _digest_item if isinstance(value, Item) else self._digest_fields
            known = self._frozen[id(value)] = (value, of_value(value))
        return known[1]

    def _digest_object(self, value: Any) -> int:  # noqa: ANN401  # anything
        if isinstance(value, BaseException):
            return hash((type(value).__qualname__, str(value)))
        if is_dataclass(value) and not isinstance(value, type):
            return self._digest_fields(value)
        if isinstance(value, _LOCKS) or getattr(value, "undigested", False):
            return 0
        if isinstance(value, FunctionType | MethodType | BuiltinFunctionType | type):
            return hash(value.__qualname__)
        if isinstance(value, count):
            return hash(repr(value))
        if hasattr(value, "__dict__"):
            return hash((type(value).__qualname__, self.digest(vars(value))))
        raise UndigestableStateError(f"the state of a {type(value).__name__} cannot be read")

    def _digest_fields(self, value: Any) -> int:  # noqa: ANN401  # any dataclass
        kind = type(value)
        names = self._fields.get(kind)
        if names is None:
            names = self._fields[kind] = tuple(field.name for field in fields(value))
        return hash((kind.__qualname__, *[self.digest(getattr(value, name)) for name in names]))


def _is_value(kind: type) -> bool:
    """Whether objects of ours never change. A team's frozen fake may hold a list that does."""
    parameters = getattr(kind, "__dataclass_params__", None)
    return parameters is not None and parameters.frozen and kind.__module__.startswith("oncely.")


def _digest_item(item: Any) -> int:  # noqa: ANN401  # a stored item
    # Attribute values are small, and there are many.
    return hash(frozenset([(name, repr(held)) for name, held in item.items()]))
