"""Job keys, the idempotency keys made from them, and the fingerprint of business values."""

import hashlib
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, NewType

from oncely.core.errors import InvalidKeyError

JobKey = NewType("JobKey", str)
IdempotencyKey = NewType("IdempotencyKey", str)

# A longer business id is a mistake of the producer, such as a whole document.
MAX_ID_LENGTH: Final = 128
# Most providers accept this much.
MAX_IDEMPOTENCY_KEY_LENGTH: Final = 255
# Leaves room for the deployment, the step and the number in an idempotency key.
MAX_KEY_LENGTH: Final = 200

_SEPARATOR: Final = ":"
_UNSAFE: Final = r"[^A-Za-z0-9_.@#+-]"
_JOB_TYPE: Final = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")


def job_key(job_type: str, *parts: str | int, prefix: str = "") -> JobKey:
    """Build a job key from business ids, such as `payment.charge:order_18452`."""
    if not parts:
        raise InvalidKeyError(f"the job key of {job_type} needs at least one business id")
    first, *rest = (_escape(part) for part in parts)
    return _build_key(job_type, prefix + first, *rest)


def idempotency_key(
    job: JobKey,
    step: str,
    number: int,
    *,
    deployment: str | None = None,
    max_length: int = MAX_IDEMPOTENCY_KEY_LENGTH,
) -> IdempotencyKey:
    """Build the idempotency key of one step. The number rises only when absence is proved.

    It starts with the row's deployment, so two stacks on one provider account never share a key.
    """
    parts = (job, step, str(number))
    plain = _SEPARATOR.join((deployment, *parts) if deployment else parts)
    if len(plain) <= max_length:
        return IdempotencyKey(plain)
    return IdempotencyKey(hashlib.sha256(plain.encode()).hexdigest()[:max_length])


def claim_tag(job: JobKey, *, deployment: str | None, fence: int, key: str) -> str:
    """The tag that identifies one claim in a provider's events: a digest, since tags are short.

    Ids can be known or guessed, so only the key of the deployment makes it a proof.
    """
    text = _SEPARATOR.join((deployment or "", job, str(fence)))
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


def job_type_of(key: JobKey) -> str:
    """The job type of a key."""
    return key.partition(_SEPARATOR)[0]


def is_job_key(text: str) -> bool:
    """Whether it looks like a job key, even of a job type that is not deployed."""
    job_type, separator, rest = text.partition(_SEPARATOR)
    return bool(separator and rest) and is_job_type(job_type)


def indexable_id(business_id: str | None) -> str | None:
    """The business id, if an index can hold it. Returns None if not."""
    return business_id if business_id and len(business_id) <= MAX_KEY_LENGTH else None


def is_job_type(name: str) -> bool:
    """Whether `name` is a valid job type: lower case with a dot, as in `payment.charge`."""
    return _JOB_TYPE.fullmatch(name) is not None


def _build_key(job_type: str, *parts: str) -> JobKey:
    if not is_job_type(job_type):
        raise InvalidKeyError(
            f"{job_type!r} is not a valid job type: write it like 'payment.charge'"
        )
    key = _SEPARATOR.join((job_type, *parts))
    if len(key) > MAX_KEY_LENGTH:
        raise InvalidKeyError(
            f"the job key has {len(key)} characters, {MAX_KEY_LENGTH} are allowed; shorten the ids"
        )
    return JobKey(key)


def _escape(part: str | int) -> str:
    text = str(part)
    if not text.strip():
        raise InvalidKeyError("a business id is empty; every part of a job key needs a value")
    if len(text) > MAX_ID_LENGTH:
        raise InvalidKeyError(
            f"a business id has {len(text)} characters, {MAX_ID_LENGTH} are allowed"
        )
    try:
        return re.sub(_UNSAFE, lambda found: _percent_encode(found[0]), text)
    except UnicodeEncodeError:
        raise InvalidKeyError(
            "a business id contains a lone surrogate, which is not a valid character"
        ) from None


def _percent_encode(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())


def fingerprint(values: Mapping[str, object]) -> str:
    """Digest the resolved business values; order, spacing and number format do not matter."""
    canonical = json.dumps(_plain(values), sort_keys=True, separators=(",", ":"))
    # 128 bits are enough: it is only compared with fingerprints of the same key.
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
