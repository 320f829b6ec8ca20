"""The fingerprint: equal for equal business values, however a message happened to say them."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal


def fingerprint(values: Mapping[str, object]) -> str:
    """A digest of resolved business values; order, spacing and number spelling do not matter."""
    canonical = json.dumps(_plain(values), sort_keys=True, separators=(",", ":"))
    # 128 bits: it is only ever compared with that of the same key, and every row holds one.
    return hashlib.sha256(canonical.encode()).hexdigest()[:32]


def _plain(value: object) -> object:
    match value:
        case None | bool() | int() | str():
            return value
        case float() | Decimal():
            return _number(Decimal(str(value)))
        case Mapping():
            return {str(name): _plain(inner) for name, inner in value.items()}
        case Sequence():
            return [_plain(inner) for inner in value]
        case _:
            raise TypeError(
                f"a fingerprint cannot hold a {type(value).__name__}; use text or numbers"
            )


def _number(value: Decimal) -> int | dict[str, str]:
    """12, 12.0 and Decimal("12.00") are one number; 12.5 is not the text "12.5"."""
    if not value.is_finite():
        raise TypeError(f"a fingerprint cannot hold {value}; it is not a number")
    if value == value.to_integral_value():
        return int(value)
    return {"number": format(value, "f").rstrip("0")}
