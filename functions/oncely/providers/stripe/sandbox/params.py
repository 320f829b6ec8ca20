"""Parses and validates the parameters and search queries of Stripe requests."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from oncely.providers.stripe.sandbox.errors import StripeValidationError
from oncely.providers.stripe.sandbox.ledger import PaymentIntent

CURRENCY: Final = re.compile(r"[a-z]{3}")
MAX_AMOUNT: Final = 99_999_999
MAX_METADATA_ENTRIES, MAX_METADATA_KEY_LENGTH, MAX_METADATA_VALUE_LENGTH = 50, 40, 500
EXPANDABLE: Final = frozenset({"latest_charge", "data.latest_charge"})
DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE = 10, 100

_CLAUSE: Final = re.compile(
    r"""(?:metadata\[(?P<mark>["'])(?P<key>.+?)(?P=mark)\]|(?P<field>status|customer|currency))
        :(?P<quote>["'])(?P<value>(?:\\.|(?!(?P=quote)).)*)(?P=quote)""",
    re.VERBOSE,
)
_AND: Final = re.compile(r"\s+AND\s+")


class Params:
    """The parameters of one request, with typed accessors."""

    def __init__(self, values: Mapping[str, Any], *, known: Iterable[str]) -> None:
        self._values = values
        for name in values:
            if name not in {*known, "expand"}:
                message = f"Received unknown parameter: {name}"
                raise StripeValidationError(message, code="parameter_unknown", param=name)

    def text(self, name: str) -> str | None:
        if (value := self._values.get(name)) is None:
            return None
        if not isinstance(value, str):
            raise StripeValidationError(f"Invalid string: {value}", param=name)
        if not value:
            message = f"You passed an empty string for '{name}'."
            raise StripeValidationError(message, code="parameter_invalid_empty", param=name)
        return value

    def required(self, name: str) -> str:
        if (value := self.text(name)) is None:
            message = f"Missing required param: {name}."
            raise StripeValidationError(message, code="parameter_missing", param=name)
        return value

    def optional_amount(self, name: str = "amount") -> int | None:
        return self.amount(name) if self.has_any(name) else None

    def amount(self, name: str = "amount") -> int:
        return self._integer(name, self.required(name), maximum=MAX_AMOUNT)

    def limit(self) -> int:
        value = self.text("limit") or str(DEFAULT_PAGE_SIZE)
        return self._integer("limit", value, maximum=MAX_PAGE_SIZE)

    def currency(self) -> str:
        value = self.required("currency")
        if not CURRENCY.fullmatch(value):
            raise StripeValidationError(f"Invalid currency: {value}.", param="currency")
        return value

    def flag(self, name: str) -> bool:
        value = self.text(name)
        if value not in {None, "true", "false"}:
            raise StripeValidationError(f"Invalid boolean: {value}", param=name)
        return value == "true"

    def mapping(self, name: str) -> Mapping[str, Any]:
        value = self._values.get(name) or {}
        if not isinstance(value, dict):
            raise StripeValidationError(f"Invalid object: {name}", param=name)
        return value

    def has_any(self, *names: str) -> bool:
        return any(name in self._values for name in names)

    def metadata(self) -> Mapping[str, str]:
        entries = self.mapping("metadata")
        fits = len(entries) <= MAX_METADATA_ENTRIES and all(
            isinstance(value, str)
            and len(name) <= MAX_METADATA_KEY_LENGTH
            and len(value) <= MAX_METADATA_VALUE_LENGTH
            for name, value in entries.items()
        )
        if not fits:
            message = "Metadata has at most 50 keys of 40 characters, with values of 500."
            raise StripeValidationError(message, param="metadata")
        return entries

    def expands_charge(self) -> bool:
        wanted = self._values.get("expand", [])
        if unknown := set(wanted) - EXPANDABLE:
            message = f"This property cannot be expanded ({min(unknown)})."
            raise StripeValidationError(message, param="expand")
        return bool(wanted)

    @staticmethod
    def _integer(name: str, value: str, *, maximum: int) -> int:
        if not re.fullmatch(r"-?\d+", value):
            message = f"Invalid integer: {value}"
        elif int(value) < 1:
            message = "This value must be greater than or equal to 1."
        elif int(value) > maximum:
            message = f"This value must be at most {maximum}."
        else:
            return int(value)
        raise StripeValidationError(message, code="parameter_invalid_integer", param=name)


def parse_filter(query: str) -> Callable[[PaymentIntent], bool]:
    """Parse a search query of the form `field:'value' AND …` into a predicate."""
    wanted: list[tuple[str | None, str | None, str]] = []
    position = 0
    while True:
        if (clause := _CLAUSE.match(query, position)) is None:
            message = f"We were unable to parse your search query: {query}"
            raise StripeValidationError(message, param="query")
        value = re.sub(r"\\(.)", r"\1", clause["value"])
        wanted.append((clause["key"], clause["field"], value))
        position = clause.end()
        if position == len(query.rstrip()):
            break
        joint = _AND.match(query, position)
        position = joint.end() if joint else len(query)

    def matches(intent: PaymentIntent) -> bool:
        return all(
            intent.metadata.get(key) == value if key else getattr(intent, str(field)) == value
            for key, field, value in wanted
        )

    return matches
