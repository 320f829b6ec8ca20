"""DynamoDB's expressions, as far as the adapters use them. Each text is parsed once.

Whatever else is in an expression raises a ValueError: a test must not pass on syntax that DynamoDB
would read in another way.
"""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NoReturn, TypeAlias

from oncely.testing.memory_aws.attribute_values import (
    RefusedError,
    Value,
    add,
    canonical,
    sort_key,
    value_type,
)

ItemValues: TypeAlias = Mapping[str, Value]
Names: TypeAlias = Mapping[str, str]
_Operand: TypeAlias = Callable[[ItemValues, Names, ItemValues], Value | None]
_Predicate: TypeAlias = Callable[[ItemValues, Names, ItemValues], bool]
_Action: TypeAlias = Callable[[dict[str, Value], ItemValues, Names, ItemValues], None]
_StaticCheck: TypeAlias = Callable[[ItemValues], None]

_TOKEN: Final = re.compile(r"\s*([#:]?[A-Za-z0-9_]+|<>|<=|>=|[=<>(),+])")
_ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ORDERED_TYPES: Final = frozenset({"S", "N", "B"})
_NUMBERS: Final = frozenset({"N"})
_MAX_IN_OPERANDS: Final = 100
_CACHE_SIZE: Final = 4096


@dataclass(frozen=True, kw_only=True)
class _Parsed:
    """An expression, with the placeholders that it uses."""

    names: frozenset[str]
    values: frozenset[str]
    checks: tuple[_StaticCheck, ...]  # of the types of values, before any item is read


@dataclass(frozen=True, kw_only=True)
class Condition(_Parsed):
    """A condition of a write."""

    holds: _Predicate


@dataclass(frozen=True, kw_only=True)
class KeyCondition(_Parsed):
    """The condition of a query: comparisons by their attribute and operator."""

    clauses: tuple[tuple[str, str, tuple[str, ...], _Predicate], ...]


@dataclass(frozen=True, kw_only=True)
class Update(_Parsed):
    """An update: what it changes, and how."""

    targets: tuple[str, ...]
    actions: tuple[_Action, ...]

    def apply(self, before: ItemValues, names: Names, values: ItemValues) -> dict[str, Value]:
        """The attributes after the update. Every operand is read from those before it."""
        after = dict(before)
        for action in self.actions:
            action(after, before, names, values)
        return after


@dataclass(frozen=True, kw_only=True)
class Projection(_Parsed):
    """The attributes that a read returns."""

    paths: tuple[str, ...]


def resolve(path: str, names: Names) -> str:
    """The name of an attribute, which may be written as a placeholder."""
    return names[path] if path[0] == "#" else path


def bind(parsed: Sequence[_Parsed], request: Mapping[str, Any]) -> tuple[Names, ItemValues]:
    """The names and values of a request. Those of its expressions must be these, and no others."""
    names: Names = request.get("ExpressionAttributeNames") or {}
    given: ItemValues = request.get("ExpressionAttributeValues") or {}
    for parameter in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
        if parameter in request and not request[parameter]:
            raise RefusedError(f"{parameter} must not be empty")
    if len(parsed) == 1:
        used_names, used_values = parsed[0].names, parsed[0].values
    else:
        used_names = frozenset().union(*[one.names for one in parsed])
        used_values = frozenset().union(*[one.values for one in parsed])
    if names.keys() != used_names:
        raise RefusedError(f"unused or undefined names: {sorted(used_names ^ names.keys())}")
    if given.keys() != used_values:
        raise RefusedError(f"unused or undefined values: {sorted(used_values ^ given.keys())}")
    values = {placeholder: canonical(value) for placeholder, value in given.items()}
    for one in parsed:
        for check in one.checks:
            check(values)
    return names, values


@lru_cache(_CACHE_SIZE)
def parse_condition(text: str) -> Condition:
    """Parse the condition of a write."""
    reader = _Reader(text)
    holds = reader.condition()
    reader.end()
    return Condition(holds=holds, **reader.used())


@lru_cache(_CACHE_SIZE)
def parse_key_condition(text: str) -> KeyCondition:
    """Parse the condition of a query: one comparison, or two with AND."""
    reader = _Reader(text)
    clauses = [reader.key_clause()]
    if reader.take("AND"):
        clauses.append(reader.key_clause())
    reader.end()
    return KeyCondition(clauses=tuple(clauses), **reader.used())


@lru_cache(_CACHE_SIZE)
def parse_update(text: str) -> Update:
    """Parse an update."""
    reader = _Reader(text)
    targets, actions = reader.update()
    return Update(targets=tuple(targets), actions=tuple(actions), **reader.used())


@lru_cache(_CACHE_SIZE)
def parse_projection(text: str) -> Projection:
    """Parse a list of attributes."""
    reader = _Reader(text)
    paths = [reader.path()]
    while reader.take(","):
        paths.append(reader.path())
    reader.end()
    return Projection(paths=tuple(paths), **reader.used())


@dataclass
class _Reader:
    """Reads one expression from left to right."""

    text: str
    tokens: list[str] = field(init=False)
    at: int = 0
    group: tuple[int, int] | None = None  # the last one in parentheses
    names: set[str] = field(default_factory=set)
    values: set[str] = field(default_factory=set)
    checks: list[_StaticCheck] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tokens = _TOKEN.findall(self.text)
        if "".join(self.tokens) != "".join(self.text.split()):
            self.fail("it has characters")

    def fail(self, what: str) -> NoReturn:
        raise ValueError(f"{what} that DynamoDB in memory does not support: {self.text!r}")

    def used(self) -> dict[str, Any]:
        return {
            "names": frozenset(self.names),
            "values": frozenset(self.values),
            "checks": tuple(self.checks),
        }

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def take(self, token: str) -> bool:
        """Skip a keyword or a sign if it comes next."""
        if self.peek().upper() != token:
            return False
        self.at += 1
        return True

    def expect(self, token: str) -> None:
        if not self.take(token):
            self.fail(f"it has {self.peek()!r} instead of {token!r}, syntax")

    def end(self) -> None:
        if self.peek():
            self.fail(f"it has {self.peek()!r}, syntax")

    def path(self) -> str:
        """The name of an attribute. No adapter addresses parts of lists and maps."""
        token = self.next()
        if token.startswith("#"):
            self.names.add(token)
        elif not token[:1].isalpha() or self.peek() == "(":
            self.fail(f"it has {token!r} as an attribute, syntax")
        return token

    def value(self) -> str:
        token = self.next()
        if not token.startswith(":"):
            self.fail(f"it has {token!r} as a value, syntax")
        self.values.add(token)
        return token

    def condition(self) -> _Predicate:
        terms = [self._conjunction()]
        while self.take("OR"):
            terms.append(self._conjunction())
        return terms[0] if len(terms) == 1 else _any_of(terms)

    def _conjunction(self) -> _Predicate:
        terms = [self._term()]
        while self.take("AND"):
            terms.append(self._term())
        return terms[0] if len(terms) == 1 else _all_of(terms)

    def _term(self) -> _Predicate:
        if self.take("NOT"):
            negated = self._term()
            return lambda item, names, values: not negated(item, names, values)
        if self.peek() == "(":
            return self._group()
        if self.peek() in {"attribute_exists", "attribute_not_exists"}:
            wanted = self.next() == "attribute_exists"
            self.expect("(")
            path = self.path()
            self.expect(")")
            return lambda item, names, _values: (resolve(path, names) in item) is wanted
        return self._comparison(_attribute(self.path()))

    def _group(self) -> _Predicate:
        opened = self.at
        self.expect("(")
        inner = self.condition()
        self.expect(")")
        if self.group == (opened + 1, self.at - 2):
            self.checks.append(_refuse("The expression has redundant parentheses"))
        self.group = (opened, self.at - 1)
        return inner

    def key_clause(self) -> tuple[str, str, tuple[str, ...], _Predicate]:
        path, known = self.path(), set(self.values)
        sign = self.peek().upper()
        holds = self._comparison(_attribute(path))
        return path, sign, tuple(sorted(self.values - known)), holds

    def _comparison(self, held: _Operand) -> _Predicate:
        """A comparison of an attribute with values. No adapter compares two attributes."""
        sign = self.next().upper()
        if sign == "BETWEEN":
            low = self.value()
            self.expect("AND")
            high = self.value()
            both = [self._ordered(held, ">=", low), self._ordered(held, "<=", high)]
            self.checks.append(_check_bounds(low, high))
            return _all_of(both)
        if sign == "IN":
            self.expect("(")
            ways = [_equal(held, self.value())]
            while self.take(","):
                ways.append(_equal(held, self.value()))
            self.expect(")")
            if len(ways) > _MAX_IN_OPERANDS:
                self.checks.append(_refuse("IN takes at most 100 operands"))
            return _any_of(ways)
        if sign in _ORDERS:
            return self._ordered(held, sign, self.value())
        if sign != "=":
            self.fail(f"it has {sign!r} as an operator, syntax")
        return _equal(held, self.value())

    def _ordered(self, held: _Operand, sign: str, placeholder: str) -> _Predicate:
        self.checks.append(_check_type(placeholder, _ORDERED_TYPES))
        return _ordered(held, _ORDERS[sign], placeholder)

    def update(self) -> tuple[list[str], list[_Action]]:
        targets: list[str] = []
        actions: list[_Action] = []
        seen: set[str] = set()
        while self.peek():
            section = self.next().upper()
            if section not in _SECTIONS or section in seen:
                self.fail(f"it has {section!r} as a section, syntax")
            seen.add(section)
            while True:
                targets.append(self.path())
                actions.append(_SECTIONS[section](self, targets[-1]))
                if not self.take(","):
                    break
        if not actions:
            self.fail("it has no section, syntax")
        return targets, actions

    def set_action(self, target: str) -> _Action:
        self.expect("=")
        operand = self._sum()

        def action(
            after: dict[str, Value], before: ItemValues, names: Names, values: ItemValues
        ) -> None:
            after[resolve(target, names)] = _existing(operand(before, names, values))

        return action

    def remove_action(self, target: str) -> _Action:  # of the sections' form
        def action(
            after: dict[str, Value], _before: ItemValues, names: Names, _values: ItemValues
        ) -> None:
            after.pop(resolve(target, names), None)

        return action

    def add_action(self, target: str) -> _Action:
        more = self.value()
        self.checks.append(_check_type(more, _NUMBERS))

        def action(
            after: dict[str, Value], before: ItemValues, names: Names, values: ItemValues
        ) -> None:
            name = resolve(target, names)
            after[name] = add(before[name], values[more]) if name in before else values[more]

        return action

    def _sum(self) -> _Operand:
        literal, left = self._set_operand()
        if not self.take("+"):
            return left
        other, right = self._set_operand()
        for placeholder in (literal, other):
            if placeholder is not None:
                self.checks.append(_check_type(placeholder, _NUMBERS))
        return lambda item, names, values: add(
            _existing(left(item, names, values)), _existing(right(item, names, values))
        )

    def _set_operand(self) -> tuple[str | None, _Operand]:
        """The placeholder of a value, if it is one, and how the operand is read."""
        if self.peek().startswith(":"):
            token = self.value()
            return token, lambda _item, _names, values: values[token]
        if self.peek() != "if_not_exists":
            return None, _attribute(self.path())
        self.next()
        self.expect("(")
        held = _attribute(self.path())
        self.expect(",")
        _, default = self._set_operand()
        self.expect(")")

        def operand(item: ItemValues, names: Names, values: ItemValues) -> Value | None:
            found = held(item, names, values)
            return default(item, names, values) if found is None else found

        return None, operand


_SECTIONS: Final[Mapping[str, Callable[[_Reader, str], _Action]]] = {
    "SET": _Reader.set_action,
    "REMOVE": _Reader.remove_action,
    "ADD": _Reader.add_action,
}


def _attribute(path: str) -> _Operand:
    if path[0] == "#":
        return lambda item, names, _values: item.get(names[path])
    return lambda item, _names, _values: item.get(path)


def _existing(value: Value | None) -> Value:
    if value is None:
        raise RefusedError(
            "The provided expression refers to an attribute that does not exist in the item"
        )
    return value


def _any_of(terms: Sequence[_Predicate]) -> _Predicate:
    def holds(item: ItemValues, names: Names, values: ItemValues) -> bool:
        for term in terms:  # noqa: SIM110  # a generator takes twice as long
            if term(item, names, values):
                return True
        return False

    return holds


def _all_of(terms: Sequence[_Predicate]) -> _Predicate:
    def holds(item: ItemValues, names: Names, values: ItemValues) -> bool:
        for term in terms:  # noqa: SIM110  # a generator takes twice as long
            if not term(item, names, values):
                return False
        return True

    return holds


def _equal(held: _Operand, placeholder: str) -> _Predicate:
    return lambda item, names, values: held(item, names, values) == values[placeholder]


def _ordered(
    held: _Operand, is_ordered: Callable[[Any, Any], bool], placeholder: str
) -> _Predicate:
    def holds(item: ItemValues, names: Names, values: ItemValues) -> bool:
        one, other = held(item, names, values), values[placeholder]
        if one is None or value_type(one) != value_type(other):
            return False
        return is_ordered(sort_key(one), sort_key(other))

    return holds


def _check_type(placeholder: str, allowed: frozenset[str]) -> _StaticCheck:
    def check(values: ItemValues) -> None:
        if (found := value_type(values[placeholder])) not in allowed:
            raise RefusedError(f"Incorrect operand type for operator or function: {found}")

    return check


def _check_bounds(low: str, high: str) -> _StaticCheck:
    def check(values: ItemValues) -> None:
        one, other = values[low], values[high]
        if value_type(one) != value_type(other):
            raise RefusedError("The BETWEEN operator requires same data type for its bounds")
        if sort_key(one) > sort_key(other):
            raise RefusedError("The BETWEEN operator requires upper bound >= lower bound")

    return check


def _refuse(message: str) -> _StaticCheck:
    def check(_values: ItemValues) -> None:
        raise RefusedError(message)

    return check
