"""Turns Lambda's report of a dropped part of the stream into a gap of the history."""

import hashlib
import json
from datetime import datetime
from typing import Any, Final

from oncely.core.text import parse_time, single_line
from oncely.history.gaps import HistoryGap
from oncely.history.lines import MAX_HISTORY_ID_LENGTH

_NAME_LENGTH: Final = 32


def gap_from_failure(body: str, *, recorded_at: datetime) -> HistoryGap:
    """The gap of a failure message. An unreadable message becomes a gap without details."""
    try:
        failure: Any = json.loads(body)
        batch = failure["DDBStreamBatchInfo"]
        batch_start = [str(batch[name]) for name in ("streamArn", "shardId", "startSequenceNumber")]
        return HistoryGap(
            name=_gap_name("|".join(batch_start)),
            recorded_at=recorded_at,
            reason=single_line(
                str(failure.get("requestContext", {}).get("condition", "")), MAX_HISTORY_ID_LENGTH
            ),
            stream_arn=batch_start[0],
            shard=batch_start[1],
            first_sequence=batch_start[2],
            last_sequence=str(batch["endSequenceNumber"]),
            records=int(batch["batchSize"]),
            first_at=parse_time(batch["approximateArrivalOfFirstRecord"]),
            last_at=parse_time(batch["approximateArrivalOfLastRecord"]),
        )
    except (AttributeError, LookupError, TypeError, ValueError):
        return HistoryGap(
            name=_gap_name(body), recorded_at=recorded_at, reason="unreadable failure message"
        )


def _gap_name(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_NAME_LENGTH]
