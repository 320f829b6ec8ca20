"""Frozen dataclasses that are quick to define, for what every cold start imports.

The standard decorator compiles seven methods for each class, which takes half a millisecond, and a
worker imports a hundred classes. This one compiles the constructor and shares the other methods.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from dataclasses import dataclass as standard
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

C = TypeVar("C", bound=type)


def _quick(*, frozen: bool = False, kw_only: bool = False) -> Callable[[C], C]:
    """Make a class of fields, as the standard decorator does with these options."""
    if not frozen:
        return cast("Callable[[C], C]", standard(kw_only=kw_only))

    def decorate(cls: C) -> C:
        standard(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
        for method in (_constructor(cls), *_SHARED):
            if method.__name__ not in vars(cls):
                setattr(cls, method.__name__, method)
        return cls

    return decorate


def _constructor(cls: type) -> Callable[..., None]:
    """Write each field into the instance; only this differs from class to class."""
    # Names that no field has: parameters are called like their fields.
    # Not through __dict__: an instance whose dictionary was asked for is slower to read.
    scope: dict[str, Any] = {"__missing": MISSING, "__set": object.__setattr__}
    lines = ["pass"]
    known = fields(cls)
    for field in known:
        name, given = field.name, field.name
        scope[f"__default_{name}"] = field.default  # missing, if it has a factory
        if field.default_factory is not MISSING:
            scope[f"__make_{name}"] = field.default_factory
            given = f"__make_{name}() if {name} is __missing else {name}"
        lines.append(f"__set(self, {name!r}, {given})")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    placed = [_parameter(field) for field in known if not field.kw_only]
    named = [_parameter(field) for field in known if field.kw_only]
    parameters = ", ".join(["self", *placed, *(["*", *named] if named else [])])
    body = "\n ".join(lines)
    exec(f"def __init__({parameters}):\n {body}", scope)  # noqa: S102  # names of fields only
    made: Callable[..., None] = scope["__init__"]
    return made


def _parameter(field: "Field[Any]") -> str:
    optional = field.default is not MISSING or field.default_factory is not MISSING
    return f"{field.name}=__default_{field.name}" if optional else field.name


class _Methods:
    """What all of these classes share."""

    def __repr__(self) -> str:
        held = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__qualname__}({held})"

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __setattr__(self, name: str, _value: object) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete field {name!r}")


_SHARED = tuple(method for method in vars(_Methods).values() if callable(method))

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414  # type checkers know this one
else:
    dataclass = _quick
