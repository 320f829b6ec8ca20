"""How a queue and a row hold the message of a producer."""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Final

from pydantic import AwareDatetime, BeforeValidator, Field

from oncely.core.keys import MAX_ID_LENGTH

# Ample for a message that refers to data by id, and far below the 400 kB limit of a row.
MAX_MESSAGE_BYTES: Final = 64 * 1024

# Lone surrogates and the two characters that SQS rejects; escaped, they can be sent and read.
_UNSENDABLE_CHARACTERS: Final = "[\ud800-\udfff\ufffe\uffff]"


def _iso_time(value: object) -> object:
    # Pydantic would take a text of digits for seconds since 1970.
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError("write a time with a zone, such as 2026-12-07T09:00:00Z") from None


# The id of a business row, as messages have it.
BusinessId = Annotated[str, Field(min_length=1, max_length=MAX_ID_LENGTH)]
RunAt = Annotated[AwareDatetime, BeforeValidator(_iso_time), Field(description="time with a zone")]


def encode_message(message: Mapping[str, object]) -> str:
    """Encode a message for a queue, never longer than its producer sent it."""
    text = json.dumps(dict(message), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return re.sub(_UNSENDABLE_CHARACTERS, lambda match: f"\\u{ord(match[0]):04x}", text)
