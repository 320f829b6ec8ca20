"""The quick dataclasses behave like the standard ones, and cannot be changed."""

import copy
import dataclasses
import pickle
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from typing import Any, Generic, TypeVar

import pytest

from oncely.domain.values import dataclass

T = TypeVar("T")


@dataclass(frozen=True)
class Named:
    """One that others are made from."""

    name: str


@dataclass(frozen=True)
class Point(Named):
    """With defaults of both kinds."""

    x: int = 0
    tags: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Order(Generic[T]):
    """By name only, checked when it is made."""

    amount: int
    facts: T | None = None

    def __post_init__(self) -> None:
        if self.amount < 0:
            raise ValueError(self.amount)


def standard(make: Callable[..., Any]) -> Any:  # noqa: ANN401  # the classes are made twice
    @make(frozen=True)
    class Pair:
        """The same class by both decorators."""

        a: int
        b: str = "b"

    return Pair


QUICK, STANDARD = standard(dataclass), standard(dataclasses.dataclass)


def test_both_decorators_make_the_same_values() -> None:
    for arguments in ((1,), (1, "c")):
        quick, slow = QUICK(*arguments), STANDARD(*arguments)
        assert repr(quick) == repr(slow)
        assert hash(quick) == hash(slow)
        assert asdict(quick) == asdict(slow)
    assert QUICK.__match_args__ == STANDARD.__match_args__
    assert [one.name for one in fields(QUICK)] == [one.name for one in fields(STANDARD)]


@pytest.mark.parametrize("arguments", [(), (1, "b", 2)])
def test_both_refuse_the_same_arguments(arguments: tuple[object, ...]) -> None:
    for made in (QUICK, STANDARD):
        with pytest.raises(TypeError, match=r"__init__\(\)"):
            made(*arguments)


def test_values_are_equal_if_class_and_fields_are() -> None:
    assert Point("a", 1) == Point("a", 1)
    assert Point("a", 1) != Point("a", 2)
    assert Named("a") != Point("a")
    assert Point("a").__eq__("a") is NotImplemented
    assert len({Named("a"), Named("a"), Named("b")}) == 2


def test_a_value_cannot_be_changed() -> None:
    point = Point("a")

    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 1  # type: ignore[misc]  # this is what must not work
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x


def test_defaults_are_made_anew_for_each() -> None:
    assert Point("a").tags == {}
    assert Point("a").tags is not Point("a").tags
    assert Point("a", tags={"b": 1}).tags == {"b": 1}


def test_a_field_may_have_any_name() -> None:
    @dataclass(frozen=True)
    class Odd:
        """Named like what a constructor could be written with."""

        values: int
        scope: int
        held: int = 3
        MISSING: Mapping[str, int] = field(default_factory=dict)

    assert asdict(Odd(1, 2)) == {"values": 1, "scope": 2, "held": 3, "MISSING": {}}


def test_a_class_may_want_names_and_may_check_itself() -> None:
    assert Order[str](amount=1, facts="f") == Order(amount=1, facts="f")
    with pytest.raises(TypeError, match="positional"):
        Order(1)  # type: ignore[call-arg]  # this is what must not work
    with pytest.raises(ValueError, match="-1"):
        Order(amount=-1)


def test_a_value_can_be_replaced_copied_and_matched() -> None:
    point = Point("a", 1)

    assert replace(point, x=2) == Point("a", 2)
    assert copy.deepcopy(point) == pickle.loads(pickle.dumps(point)) == point  # noqa: S301  # our own
    match point:
        case Point("a", x):
            assert x == 1
        case _:
            pytest.fail("a pattern takes the fields in their order")


def test_a_class_that_is_not_frozen_is_the_standard_one() -> None:
    @dataclass(kw_only=True)
    class Count:
        """It can be changed."""

        seen: int = 0

    count = Count()
    count.seen = 1

    assert count == Count(seen=1)
