"""The message of a producer, and how a queue and a row hold it."""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Final

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from oncely.core.effect_outcomes import Json

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


RunAt = Annotated[AwareDatetime, BeforeValidator(_iso_time), Field(description="time with a zone")]


class Message(BaseModel):
    """The message of a producer. Strict: a wrong type is rejected, never coerced."""

    # Build lazily: a worker imports every contract but runs only those of one queue.
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)

    job: str
    v: int
    # The earliest time to run. Not one of the job's values: another message may change it.
    run_at: RunAt | None = None

    def to_dict(self) -> dict[str, Json]:
        """Return the message as the row stores it: the fields that the producer set, no time."""
        return self.model_dump(
            mode="json", exclude={"run_at"}, exclude_none=True, exclude_unset=True
        )

    def to_sent_dict(self) -> dict[str, Json]:
        """Return the message as a queue holds it: with its run time."""
        time = {} if self.run_at is None else {"run_at": self.run_at.isoformat()}
        return {**self.to_dict(), **time}


def encode_message(message: Mapping[str, object]) -> str:
    """Encode a message for a queue, never longer than its producer sent it."""
    text = json.dumps(dict(message), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return re.sub(_UNSENDABLE_CHARACTERS, lambda match: f"\\u{ord(match[0]):04x}", text)
