"""The archive on S3: one object for each job, found by its key alone."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from oncely.adapters.aws import NO_ANSWER, code_of
from oncely.adapters.job_rows import from_attributes, to_attributes
from oncely.domain.errors import NotConfiguredError, UnavailableError
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.writes import Json

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@dataclass(frozen=True)
class S3Archive:
    """Jobs under `jobs/`, rejected messages under `rejects/`."""

    client: "S3Client"
    bucket: str

    def keep(self, job: Job) -> None:
        """Write the row as it stands, in DynamoDB's own form, so that it can be put back."""
        self._put(_name(job.job_key), to_attributes(job))

    def find(self, key: JobKey) -> Job | None:
        """Read an archived job; S3 answers consistently."""
        try:
            body = self.client.get_object(Bucket=self.bucket, Key=_name(key))["Body"].read()
        except NO_ANSWER as error:
            raise self._silent(error) from error
        except ClientError as error:
            if code_of(error) in {"NoSuchKey", "404"}:
                return None
            raise self._refused(error) from error
        return from_attributes(json.loads(body))

    def keep_reject(self, message_id: str, reject: Mapping[str, Json], *, at: datetime) -> None:
        """Write a rejected message under its day."""
        self._put(f"rejects/{at.astimezone(UTC):%Y/%m/%d}/{message_id}.json", reject)

    def _put(self, name: str, content: object) -> None:
        body = json.dumps(content, indent=1).encode()
        try:
            self.client.put_object(
                Bucket=self.bucket, Key=name, Body=body, ContentType="application/json"
            )
        except NO_ANSWER as error:
            raise self._silent(error) from error
        except ClientError as error:
            raise self._refused(error) from error

    def _silent(self, error: Exception) -> UnavailableError:
        return UnavailableError(f"S3 gave no answer about bucket {self.bucket!r}: {error}")

    def _refused(self, error: ClientError) -> NotConfiguredError | UnavailableError:
        code = code_of(error)
        if code in {"SlowDown", "InternalError", "ServiceUnavailable", "503", "500"}:
            return UnavailableError(f"S3 could not serve bucket {self.bucket!r} now ({code})")
        return NotConfiguredError(
            f"bucket {self.bucket!r} cannot be used ({code}): check that it is there and granted"
        )


def _name(key: JobKey) -> str:
    job_type, _, rest = key.partition(":")
    return f"jobs/{job_type}/{rest}.json"
