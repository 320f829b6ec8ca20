"""The history on S3: gzipped JSON lines under `history/day=…/job_type=…/`."""

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Final

from oncely.core.aws_errors import translated
from oncely.core.text import format_time
from oncely.history.gaps import BackfillProgress, HistoryGap
from oncely.history.lines import HistoryLine

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

BUCKET_CHECK: Final = "that it exists and that this role may use it"
HISTORY_PREFIX: Final = "history/"
SUFFIX: Final = ".jsonl.gz"
# A gap is an object, and so is its closing: recording a gap twice does not reopen it.
GAPS_PREFIX: Final = f"{HISTORY_PREFIX}gaps/"
OPEN_GAP_SUFFIX: Final = ".gap.json"
CLOSED_GAP_SUFFIX: Final = ".closed.json"
BACKFILL_PROGRESS_KEY: Final = f"{GAPS_PREFIX}backfill.json"


@dataclass(frozen=True)
class S3HistoryStore:
    """Writes objects of lines."""

    client: "S3Client"
    bucket: str

    def put(self, day: date, job_type: str, name: str, lines: Sequence[HistoryLine]) -> None:
        """Write one object. The same name replaces it."""
        text = "".join(json.dumps(line.to_dict(), separators=(",", ":")) + "\n" for line in lines)
        with translated("the archive", name=self.bucket, check=BUCKET_CHECK):
            self.client.put_object(
                Bucket=self.bucket,
                Key=f"{history_prefix(day, job_type)}{name}{SUFFIX}",
                # Without the time, so that a retried batch writes the same bytes.
                Body=gzip.compress(text.encode(), mtime=0),
                ContentType="application/gzip",
            )

    def record_gap(self, gap: HistoryGap) -> None:
        self._put_json(f"{GAPS_PREFIX}{gap.name}{OPEN_GAP_SUFFIX}", gap.to_dict())

    def close_gap(self, gap: HistoryGap, *, at: datetime) -> None:
        content = {"name": gap.name, "closed_at": format_time(at)}
        self._put_json(f"{GAPS_PREFIX}{gap.name}{CLOSED_GAP_SUFFIX}", content)

    def save_backfill(self, progress: BackfillProgress) -> None:
        self._put_json(BACKFILL_PROGRESS_KEY, progress.to_dict())

    def _put_json(self, key: str, content: object) -> None:
        with translated("the archive", name=self.bucket, check=BUCKET_CHECK):
            self.client.put_object(
                Bucket=self.bucket,
                Key=key,
                Body=json.dumps(content, indent=1).encode(),
                ContentType="application/json",
            )


def history_prefix(day: date, job_type: str | None = None) -> str:
    """The prefix of a day's objects, or of one job type on that day."""
    of_day = f"{HISTORY_PREFIX}day={day.isoformat()}/"
    return of_day if job_type is None else f"{of_day}job_type={job_type}/"
