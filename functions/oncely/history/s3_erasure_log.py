"""The erasure log on S3, under `erasures/`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Final

from oncely.core.aws_errors import translated
from oncely.core.text import format_time
from oncely.history.erasure_log import ErasedJobs, ErasureEntry
from oncely.history.s3_store import BUCKET_CHECK

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_JOBS_PREFIX: Final = "erasures/jobs/"
_AUDIT_PREFIX: Final = "erasures/audit/"
_JSON: Final = ".json"


@dataclass(frozen=True)
class S3ErasureLog:
    """One object for each erased job, by day. Its name has everything that functions need."""

    client: "S3Client"
    bucket: str

    def record(self, entry: ErasureEntry) -> None:
        content = {
            "job_key": entry.job_key,
            "requested_at": format_time(entry.requested_at),
            "actor": entry.actor,
        }
        day = entry.requested_at.astimezone(UTC).date()
        self._put(f"{_JOBS_PREFIX}{day}/{entry.name}{_JSON}", content)

    def record_run(self, run: Mapping[str, object], *, at: datetime) -> None:
        """Write the audit entry of one erasure."""
        self._put(f"{_AUDIT_PREFIX}{format_time(at)}{_JSON}", run)

    def erased(self, *, since: date | None = None) -> ErasedJobs:
        with translated("the archive", name=self.bucket, check=BUCKET_CHECK):
            pages = self.client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket,
                Prefix=_JOBS_PREFIX,
                StartAfter=f"{_JOBS_PREFIX}{since or ''}",
            )
            keys = [one["Key"] for page in pages for one in page.get("Contents", [])]
        return ErasedJobs.from_names(key.rpartition("/")[2].removesuffix(_JSON) for key in keys)

    def _put(self, key: str, content: Mapping[str, object]) -> None:
        with translated("the archive", name=self.bucket, check=BUCKET_CHECK):
            self.client.put_object(
                Bucket=self.bucket,
                Key=key,
                Body=json.dumps(content, indent=1).encode(),
                ContentType="application/json",
            )
