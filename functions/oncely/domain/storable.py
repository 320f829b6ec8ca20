"""What DynamoDB can store of a JSON document; what it cannot would fail in every run of the job."""

from decimal import Decimal, InvalidOperation
from typing import Final

# DynamoDB's own limits for one number and for one attribute.
MAX_DIGITS: Final = 38
MAX_EXPONENT: Final = 125  # up to 9.9999999999999999999999999999999999999E+125
MIN_EXPONENT: Final = -130  # from 1E-130
MAX_DEPTH: Final = 32

_TOO_LARGE: Final = f"is too large to be stored (at most 9.99E+{MAX_EXPONENT})"
_TOO_SMALL: Final = f"is too close to zero to be stored (at least 1E{MIN_EXPONENT})"


def number_fault(text: str) -> str | None:
    """What is wrong with a number as JSON writes it. Returns None if it can be stored."""
    try:
        number = Decimal(text)
    except InvalidOperation:  # an exponent beyond those of Python's own decimals
        return _TOO_SMALL if "e-" in text.lower() else _TOO_LARGE
    if not number.is_zero() and number.adjusted() > MAX_EXPONENT:
        return _TOO_LARGE
    if not number.is_zero() and number.adjusted() < MIN_EXPONENT:
        return _TOO_SMALL
    if len(number.as_tuple().digits) > MAX_DIGITS:
        return f"has more than {MAX_DIGITS} digits, so it cannot be stored exactly"
    return None


def is_too_deep(document: object) -> bool:
    """Whether objects and lists are nested deeper than a row can be; the outermost is level 1."""
    level = [document]
    for _ in range(MAX_DEPTH + 1):
        level = [inner for value in level for inner in _inside(value)]
        if not level:
            return False
    return True


def _inside(value: object) -> list[object]:
    """What an object or a list holds; a level that is empty is a level all the same."""
    match value:
        case dict():
            return [*value.values()] or [None]
        case list():
            return [*value] or [None]
        case _:
            return []
