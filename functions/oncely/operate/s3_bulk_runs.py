"""Bulk runs on S3, under `bulk/`. A lifecycle rule removes them."""

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from oncely.core.aws_errors import AWS_ERRORS, error_code, translated
from oncely.history.s3_store import BUCKET_CHECK
from oncely.operate.bulk_runs import BulkRun

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_PREFIX: Final = "bulk/"
_RUN_ID: Final = re.compile(r"[a-z0-9-]{1,40}")


@dataclass(frozen=True)
class S3BulkRuns:
    """One object for each run."""

    client: "S3Client"
    bucket: str

    def save(self, run: BulkRun) -> None:
        with translated("the bulk run", name=self.bucket, check=BUCKET_CHECK):
            self.client.put_object(
                Bucket=self.bucket,
                Key=f"{_PREFIX}{run.run_id}.json",
                Body=json.dumps(run.to_dict()).encode(),
                ContentType="application/json",
                IfNoneMatch="*",
            )

    def get(self, run_id: str) -> BulkRun | None:
        if not _RUN_ID.fullmatch(run_id):
            return None  # entered by hand
        with translated("the bulk run", name=self.bucket, check=BUCKET_CHECK):
            try:
                answer = self.client.get_object(Bucket=self.bucket, Key=f"{_PREFIX}{run_id}.json")
            except AWS_ERRORS as error:
                if error_code(error) == "NoSuchKey":
                    return None
                raise
            return BulkRun.from_dict(json.loads(answer["Body"].read()))
