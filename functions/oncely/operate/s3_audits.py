"""The reports of scheduled audits on S3. Each name contains the period and the result."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from oncely.core.aws_errors import translated
from oncely.core.effect_outcomes import Json
from oncely.history.s3_store import BUCKET_CHECK
from oncely.operate.daily_audit import StoredAudit

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

PREFIX: Final = "audits/"
_SUFFIX: Final = ".jsonl"
_NAME: Final = re.compile(r"(\d{8}T\d{6}Z)-(\d{8}T\d{6}Z)-(\d+)")


@dataclass(frozen=True)
class S3AuditReports:
    """One object of JSON lines for each audit."""

    client: "S3Client"
    bucket: str

    def save_audit(self, audit: StoredAudit, lines: Sequence[Mapping[str, Json]]) -> None:
        """Write a report, or replace the one of the same period and number."""
        with translated("the archive", name=self.bucket, check=BUCKET_CHECK):
            self.client.put_object(
                Bucket=self.bucket,
                Key=f"{PREFIX}{audit.name}{_SUFFIX}",
                Body="".join(f"{json.dumps(line)}\n" for line in lines).encode(),
                ContentType="application/jsonl",
            )

    def recent_audits(self, *, limit: int) -> list[StoredAudit]:
        """Return the newest report of each of the latest periods, the latest period first."""
        with translated("the archive", name=self.bucket, check=BUCKET_CHECK):
            pages = self.client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=PREFIX
            )
            found = [one for page in pages for one in page.get("Contents", [])]
        newest: dict[tuple[datetime, datetime], StoredAudit] = {}
        for one in sorted(found, key=lambda one: one["LastModified"]):
            if audit := _parse(one["Key"].removeprefix(PREFIX).removesuffix(_SUFFIX)):
                newest[audit.since, audit.until] = audit
        return [newest[period] for period in sorted(newest, reverse=True)][:limit]

    def read_audit(self, name: str) -> list[dict[str, Json]] | None:
        """Return the lines of a report. Returns None if there is none of this name."""
        if _parse(name) is None:
            return None
        key = f"{PREFIX}{name}{_SUFFIX}"
        with translated("the archive", name=self.bucket, check=BUCKET_CHECK):
            found = self.client.list_objects_v2(Bucket=self.bucket, Prefix=key, MaxKeys=1)
            if not found.get("Contents"):
                return None
            body = self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return [json.loads(line) for line in body.splitlines()]


def _parse(name: str) -> StoredAudit | None:
    if (found := _NAME.fullmatch(name)) is None:
        return None
    since, until = (
        datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC) for text in found.groups()[:2]
    )
    return StoredAudit(name=name, since=since, until=until, differences=int(found[3]))
