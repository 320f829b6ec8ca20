"""Checks the parameters of a Stripe request, before anything is executed."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from oncely.providers.stripe.sandbox.errors import StripeValidationError

CURRENCY: Final = re.compile(r"[a-z]{3}")
MAX_AMOUNT: Final = 99_999_999
MAX_METADATA_ENTRIES, MAX_METADATA_KEY_LENGTH, MAX_METADATA_VALUE_LENGTH = 50, 40, 500
EXPANDABLE: Final = frozenset({"latest_charge", "data.latest_charge"})


# Of a list, as Stripe documents it.
DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE = 10, 100


class Params:
    """The parameters of one request, read one by one and by type."""

    def __init__(self, values: Mapping[str, Any], *, known: Iterable[str]) -> None:
        self._values = values
        for name in values:
            if name not in {*known, "expand"}:
                message = f"Received unknown parameter: {name}"
                raise StripeValidationError(message, code="parameter_unknown", param=name)

    def text(self, name: str) -> str | None:
        """Read an optional text; an empty one is refused, as Stripe does."""
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise StripeValidationError(f"Invalid string: {value}", param=name)
        if not value:
            message = f"You passed an empty string for '{name}'."
            raise StripeValidationError(message, code="parameter_invalid_empty", param=name)
        return value

    def required(self, name: str) -> str:
        """Read a text that must be there."""
        value = self.text(name)
        if value is None:
            message = f"Missing required param: {name}."
            raise StripeValidationError(message, code="parameter_missing", param=name)
        return value

    def amount(self, name: str = "amount") -> int:
        """Read a sum in minor units."""
        return self._integer(name, self.required(name), maximum=MAX_AMOUNT)

    def integer(self, name: str, *, default: int, maximum: int) -> int:
        """Read an optional whole number of at least one."""
        value = self.text(name)
        return default if value is None else self._integer(name, value, maximum=maximum)

    def currency(self) -> str:
        """Read a currency: three letters, lower case."""
        value = self.required("currency")
        if not CURRENCY.fullmatch(value):
            raise StripeValidationError(f"Invalid currency: {value}.", param="currency")
        return value

    def flag(self, name: str) -> bool:
        """Read an optional yes or no."""
        value = self.text(name)
        if value not in {None, "true", "false"}:
            raise StripeValidationError(f"Invalid boolean: {value}", param=name)
        return value == "true"

    def mapping(self, name: str) -> Mapping[str, Any]:
        """Read an optional object."""
        value = self._values.get(name) or {}
        if not isinstance(value, dict):
            raise StripeValidationError(f"Invalid object: {name}", param=name)
        return value

    def has_any(self, *names: str) -> bool:
        """Say whether any of the parameters was sent."""
        return any(name in self._values for name in names)

    def metadata(self) -> Mapping[str, str]:
        """Read the caller's own fields, within Stripe's limits."""
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
        """Say whether the latest charge is wanted in full."""
        wanted = self._values.get("expand", [])
        unknown = set(wanted) - EXPANDABLE
        if unknown:
            message = f"This property cannot be expanded ({min(unknown)})."
            raise StripeValidationError(message, param="expand")
        return bool(wanted)

    @staticmethod
    def _integer(name: str, value: str, *, maximum: int) -> int:
        if not re.fullmatch(r"-?\d+", value):
            message = f"Invalid integer: {value}"
            raise StripeValidationError(message, code="parameter_invalid_integer", param=name)
        if int(value) < 1:
            message = "This value must be greater than or equal to 1."
            raise StripeValidationError(message, code="parameter_invalid_integer", param=name)
        if int(value) > maximum:
            message = f"This value must be at most {maximum}."
            raise StripeValidationError(message, code="parameter_invalid_integer", param=name)
        return int(value)
