"""The archive on S3: rejected messages, each with its reason, by day."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from oncely.aws.errors import translated
from oncely.aws.s3_history import BUCKET_CHECK
from oncely.domain.effect_outcomes import Json

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@dataclass(frozen=True)
class S3Archive:
    """Rejected messages under `rejects/`."""

    client: "S3Client"
    bucket: str

    def save_reject(self, message_id: str, reject: Mapping[str, Json], *, at: datetime) -> None:
        with translated(f"bucket {self.bucket!r}", check=BUCKET_CHECK):
            self.client.put_object(
                Bucket=self.bucket,
                Key=f"rejects/{at.astimezone(UTC):%Y/%m/%d}/{message_id}.json",
                Body=json.dumps(reject, indent=1).encode(),
                ContentType="application/json",
            )
