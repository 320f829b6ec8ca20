"""DynamoDB's attribute values in one form, in which equal values are equal dicts."""

import re
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from typing import Any, Final, TypeAlias

Value: TypeAlias = dict[str, Any]  # such as {"S": "ready"}

# A whole number that is already in the form in which DynamoDB returns it.
_PLAIN_NUMBER: Final = re.compile(r"0|-?[1-9][0-9]{0,17}")
_MAX_LEVELS: Final = 32
_MAX_DIGITS: Final = 38
_MAX_EXPONENT: Final = 125
_MIN_EXPONENT: Final = -130
_NUMBERS: Final = Context(prec=_MAX_DIGITS, rounding=ROUND_HALF_EVEN)
_SETS: Final = frozenset({"SS", "NS", "BS"})
# DynamoDB counts these for a list or a map, and for each of its elements.
_CONTAINER_BYTES: Final = 3
_ELEMENT_BYTES: Final = 1


class RefusedError(Exception):
    """DynamoDB refuses a request, or one part of a transaction, with this error code."""

    def __init__(self, message: str, code: str = "ValidationException", **response: object) -> None:
        super().__init__(message)
        self.code = code
        self.response = response


def canonical(value: Value, levels: int = _MAX_LEVELS) -> Value:
    """The form of a value that is stored, compared and returned."""
    [(kind, held)] = value.items()
    if not levels:
        raise RefusedError("Nesting Levels have exceeded supported limits")
    if kind == "S":
        # An enum's member is sent as its text. Anything but text is a TypeError.
        return value if type(held) is str else {"S": str.__str__(held)}
    if kind == "N":
        return value if _PLAIN_NUMBER.fullmatch(held) else {"N": _canonical_number(held)}
    if kind == "L":
        return {"L": [canonical(one, levels - 1) for one in held]}
    if kind == "M":
        return {"M": {name: canonical(one, levels - 1) for name, one in held.items()}}
    if kind in _SETS:
        return {kind: _canonical_set(kind, held)}
    if kind in {"BOOL", "NULL", "B"}:
        return value
    raise ValueError(f"{kind} is not a type of attribute values")


def _canonical_set(kind: str, members: list[Any]) -> list[Any]:
    if kind == "NS":
        distinct = sorted({_canonical_number(one) for one in members}, key=Decimal)
    else:
        distinct = sorted(set(members))
    if not members or len(distinct) < len(members):
        raise RefusedError("One or more parameter values were invalid: empty set or duplicates")
    return distinct


def _canonical_number(text: str) -> str:
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise RefusedError(
            f"The parameter cannot be converted to a numeric value: {text}"
        ) from None
    return _checked_number(number)


def _checked_number(number: Decimal) -> str:
    if not number.is_finite():
        raise RefusedError("The parameter cannot be converted to a numeric value")
    if not number:
        return "0"
    if not _MIN_EXPONENT <= number.adjusted() <= _MAX_EXPONENT:
        raise RefusedError("Number overflow or underflow: its magnitude is not supported")
    digits = "".join(map(str, number.as_tuple().digits)).strip("0")
    if len(digits) > _MAX_DIGITS:
        raise RefusedError(f"Attempting to store more than {_MAX_DIGITS} significant digits")
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def value_type(value: Value) -> str:
    """The type of a value, such as `S`."""
    return next(iter(value))


def sort_key(value: Value) -> Any:  # noqa: ANN401  # text, a number or bytes
    """What orders a value among those of its type. Returns None for a type without an order."""
    [(kind, held)] = value.items()
    if kind == "N":
        return int(held) if _PLAIN_NUMBER.fullmatch(held) else Decimal(held)
    # Text sorts by code points, which is the order of its UTF-8 bytes.
    return held if kind in {"S", "B"} else None


def add(left: Value, right: Value) -> Value:
    """The sum of two numbers."""
    if "N" not in left or "N" not in right:
        raise RefusedError("An operand in the update expression has an incorrect data type")
    augend, addend = left["N"], right["N"]
    if _PLAIN_NUMBER.fullmatch(augend) and _PLAIN_NUMBER.fullmatch(addend):
        return {"N": str(int(augend) + int(addend))}
    return {"N": _checked_number(_NUMBERS.add(Decimal(augend), Decimal(addend)))}


def size(value: Value) -> int:
    """The number of bytes that DynamoDB counts for a value."""
    [(kind, held)] = value.items()
    if kind == "S":
        return len(held) if held.isascii() else len(held.encode(errors="surrogatepass"))
    if kind == "N":
        return _number_size(held)
    if kind == "L":
        return _CONTAINER_BYTES + sum(_ELEMENT_BYTES + size(one) for one in held)
    if kind == "M":
        return _CONTAINER_BYTES + _ELEMENT_BYTES * len(held) + attributes_size(held)
    if kind in _SETS:
        return sum(size({kind[0]: one}) for one in held)
    return len(held) if kind == "B" else 1


def _number_size(text: str) -> int:
    """About one byte for two digits, as DynamoDB documents it."""
    digits = text.lstrip("-").replace(".", "").strip("0")
    return (len(digits) + 1) // 2 + 1 + text.startswith("-")


def attributes_size(attributes: dict[str, Value]) -> int:
    """The size of an item or a map, with the names of its attributes."""
    total = 0
    for name, value in attributes.items():
        total += len(name) if name.isascii() else len(name.encode())
        text = value.get("S")
        # Nearly all values are such text, and every write is measured.
        total += size(value) if text is None or not text.isascii() else len(text)
    return total
