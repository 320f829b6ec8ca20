"""Parses and validates the parameters of Stripe requests."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from oncely.providers.stripe.sandbox.errors import StripeValidationError

CURRENCY: Final = re.compile(r"[a-z]{3}")
MAX_AMOUNT: Final = 99_999_999
MAX_METADATA_ENTRIES, MAX_METADATA_KEY_LENGTH, MAX_METADATA_VALUE_LENGTH = 50, 40, 500
EXPANDABLE: Final = frozenset({"latest_charge", "payment_intent"})
DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE = 10, 100


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

    def created(self) -> tuple[float, float]:
        """The first time of a list, and the first time after it."""
        given = self.mapping("created")
        if unknown := set(given) - {"gte", "lt"}:
            raise StripeValidationError(f"Invalid range: {min(unknown)}", param="created")
        return float(given.get("gte", 0)), float(given.get("lt", "inf"))

    def expands(self, name: str) -> bool:
        wanted = {one.removeprefix("data.") for one in self._values.get("expand", [])}
        if unknown := wanted - EXPANDABLE:
            message = f"This property cannot be expanded ({min(unknown)})."
            raise StripeValidationError(message, param="expand")
        return name in wanted

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
