"""The archive on S3: rejected messages, each with its reason, by day."""

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from oncely.core.aws_errors import AWS_ERRORS, error_code, translated
from oncely.core.effect_outcomes import Json
from oncely.history.s3_store import BUCKET_CHECK
from oncely.operate.rejects import StoredReject

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


_PREFIX: Final = "rejects/"
_SUFFIX: Final = ".json"
_NAME: Final = re.compile(r"\d{4}/\d\d/\d\d/[\w-]{1,100}", re.ASCII)
# Empty objects that point to a reject. They hold no data, so an erasure leaves them.
_BY_JOB: Final = f"{_PREFIX}by-job/"
_LAST_SECOND: Final = 9_999_999_999
_RESENT: Final = f"{_PREFIX}resent/"
_LOST_RACE: Final = frozenset({"PreconditionFailed", "ConditionalRequestConflict"})


@dataclass(frozen=True)
class S3Archive:
    """Rejected messages under `rejects/`, with the job of each and whether it was resent."""

    client: "S3Client"
    bucket: str

    def recent_rejects(self, *, since: datetime, until: datetime, limit: int) -> list[StoredReject]:
        """Return the messages that were rejected in this time, the latest first."""
        return [self._read(key, at) for key, at in self._newest(since, until, limit)]

    def count_rejects(self, *, since: datetime, until: datetime, limit: int) -> int:
        """Count the messages that were rejected in this time, without reading them."""
        return len(self._newest(since, until, limit))

    def read_reject(self, name: str) -> StoredReject | None:
        """Return one message. Returns None if there is none of this name."""
        if not _NAME.fullmatch(name):
            return None
        key = f"{_PREFIX}{name}{_SUFFIX}"
        with translated("the archive", name=self.bucket, check=BUCKET_CHECK):
            found = self.client.list_objects_v2(Bucket=self.bucket, Prefix=key, MaxKeys=1)
        times = (one["LastModified"] for one in found.get("Contents", ()))
        return next((self._read(key, at) for at in times), None)

    def job_rejects(self, job_key: str, *, limit: int) -> list[StoredReject]:
        """Return the rejected messages of this job, latest first."""
        with translated("the archive", name=self.bucket, check=BUCKET_CHECK):
            listed = self.client.list_objects_v2(
                Bucket=self.bucket, Prefix=f"{_BY_JOB}{_digest(job_key)}/", MaxKeys=limit
            )
        # A batch that was archived twice is listed twice.
        names = dict.fromkeys(
            "/".join(one["Key"].split("/")[4:]) for one in listed.get("Contents", ())
        )
        # One may have been erased or have expired since.
        return [one for one in map(self.read_reject, names) if one is not None]

    def resent(self, names: Collection[str]) -> frozenset[str]:
        """Return which of these messages were resent."""
        days = {name[:10] for name in names if _NAME.fullmatch(name)}
        one = next(iter(names)) if len(names) == 1 else ""
        keys = (key for day in days for key, _ in self._list(f"{_RESENT}{one or f'{day}/'}"))
        return frozenset(names) & {key.removeprefix(_RESENT) for key in keys}

    def reserve_resend(self, name: str, *, actor: str) -> bool:
        """Record that a message is resent. Returns False if that is already recorded."""
        if not _NAME.fullmatch(name):
            return False
        with translated("the archive", name=self.bucket, check=BUCKET_CHECK):
            try:
                self.client.put_object(
                    Bucket=self.bucket,
                    Key=f"{_RESENT}{name}",
                    Body=actor.encode(),
                    IfNoneMatch="*",
                )
            except AWS_ERRORS as error:
                if error_code(error) in _LOST_RACE:
                    return False
                raise
        return True

    def _list(self, prefix: str) -> list[tuple[str, datetime]]:
        with translated("the archive", name=self.bucket, check=BUCKET_CHECK):
            pages = self.client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=prefix
            )
            objects = [one for page in pages for one in page.get("Contents", [])]
        return [(one["Key"], one["LastModified"]) for one in objects]

    def _newest(self, since: datetime, until: datetime, limit: int) -> list[tuple[str, datetime]]:
        """Names and times of objects, the latest first. Lists one day after the other."""
        found: list[tuple[str, datetime]] = []
        day, first = until.astimezone(UTC).date(), since.astimezone(UTC).date()
        while day >= first and len(found) < limit:
            wanted = (one for one in self._list(f"{_PREFIX}{day:%Y/%m/%d}/") if one[1] >= since)
            found += sorted(wanted, key=lambda one: one[1], reverse=True)
            day -= timedelta(days=1)
        return found[:limit]

    def _read(self, key: str, at: datetime) -> StoredReject:
        with translated("the archive", name=self.bucket, check=BUCKET_CHECK):
            stored = json.loads(self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read())
        return StoredReject(
            name=key.removeprefix(_PREFIX).removesuffix(_SUFFIX),
            at=at,
            body=str(stored.get("body", "")),
            reason=str(stored.get("reason", "no reason was recorded")),
            queue=str(stored.get("queue", "unknown")),
        )

    def save_reject(self, message_id: str, reject: Mapping[str, Json], *, at: datetime) -> None:
        name, key = f"{at.astimezone(UTC):%Y/%m/%d}/{message_id}", reject.get("job_key")
        with translated("the archive", name=self.bucket, check=BUCKET_CHECK):
            self.client.put_object(
                Bucket=self.bucket,
                Key=f"{_PREFIX}{name}{_SUFFIX}",
                Body=json.dumps(reject, indent=1).encode(),
                ContentType="application/json",
            )
            if isinstance(key, str):
                # A list is in the order of names, so that one request returns the newest.
                order = f"{_LAST_SECOND - int(at.timestamp()):010d}"
                self.client.put_object(
                    Bucket=self.bucket, Key=f"{_BY_JOB}{_digest(key)}/{order}/{name}"
                )


def _digest(job_key: str) -> str:
    return hashlib.sha256(job_key.encode(errors="surrogatepass")).hexdigest()[:32]
