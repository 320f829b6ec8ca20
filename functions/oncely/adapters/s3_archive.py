"""The archive on S3: rejected messages, each with its reason, under the day it came."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from oncely.adapters.aws import NO_ANSWER, code_of
from oncely.domain.errors import NotConfiguredError, UnavailableError
from oncely.domain.writes import Json

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@dataclass(frozen=True)
class S3Archive:
    """Rejected messages under `rejects/`."""

    client: "S3Client"
    bucket: str

    def keep_reject(self, message_id: str, reject: Mapping[str, Json], *, at: datetime) -> None:
        """Write a rejected message under its day."""
        try:
            self.client.put_object(
                Bucket=self.bucket,
                Key=f"rejects/{at.astimezone(UTC):%Y/%m/%d}/{message_id}.json",
                Body=json.dumps(reject, indent=1).encode(),
                ContentType="application/json",
            )
        except NO_ANSWER as error:
            raise UnavailableError(
                f"S3 gave no answer about bucket {self.bucket!r}: {error}"
            ) from error
        except ClientError as error:
            raise self._refused(error) from error

    def _refused(self, error: ClientError) -> NotConfiguredError | UnavailableError:
        code = code_of(error)
        if code in {"SlowDown", "InternalError", "ServiceUnavailable", "503", "500"}:
            return UnavailableError(f"S3 could not serve bucket {self.bucket!r} now ({code})")
        return NotConfiguredError(
            f"bucket {self.bucket!r} cannot be used ({code}): check that it is there and granted"
        )
