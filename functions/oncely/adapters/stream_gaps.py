"""What Lambda tells of a part of the stream that it gave up on, as a gap of the history."""

import hashlib
import json
from datetime import datetime
from typing import Any, Final

from oncely.domain.gaps import Gap
from oncely.domain.history import MAX_ID
from oncely.domain.text import one_line
from oncely.domain.times import instant

_NAME_LENGTH: Final = 32


def gap_from_failure(body: str, *, recorded_at: datetime) -> Gap:
    """The gap of a failure message; one that cannot be read is a gap of which nothing is known."""
    try:
        failure: Any = json.loads(body)
        batch = failure["DDBStreamBatchInfo"]
        place = [str(batch[name]) for name in ("streamArn", "shardId", "startSequenceNumber")]
        return Gap(
            name=_name("|".join(place)),
            recorded_at=recorded_at,
            reason=one_line(str(failure.get("requestContext", {}).get("condition", "")), MAX_ID),
            stream_arn=place[0],
            shard=place[1],
            first_sequence=place[2],
            last_sequence=str(batch["endSequenceNumber"]),
            records=int(batch["batchSize"]),
            first_at=instant(batch["approximateArrivalOfFirstRecord"]),
            last_at=instant(batch["approximateArrivalOfLastRecord"]),
        )
    except (AttributeError, LookupError, TypeError, ValueError):
        return Gap(name=_name(body), recorded_at=recorded_at, reason="unreadable failure message")


def _name(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_NAME_LENGTH]
