"""The archive on S3: one object for each job, found by its key alone."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

from botocore.exceptions import ClientError

from oncely.adapters.aws import NO_ANSWER, code_of
from oncely.adapters.job_rows import from_attributes, to_attributes
from oncely.domain.errors import NotConfiguredError, UnavailableError
from oncely.domain.former import takes_the_place_of
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.writes import Json

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


_MISSING: Final = frozenset({"NoSuchKey", "404"})
# Another object is there, or none; or another is being written in this very moment.
_NOT_AS_EXPECTED: Final = frozenset(
    {"PreconditionFailed", "412", "ConditionalRequestConflict", "409", *_MISSING}
)
# Each round was lost to another publisher of the same job; that does not go on.
_ROUNDS: Final = 5


class _Condition(TypedDict, total=False):
    """What a write expects to find."""

    IfNoneMatch: str
    IfMatch: str


@dataclass(frozen=True)
class _Kept:
    """An archived job, and the tag that S3 gave to this very copy."""

    job: Job
    tag: str


@dataclass(frozen=True)
class S3Archive:
    """Jobs under `jobs/`, rejected messages under `rejects/`."""

    client: "S3Client"
    bucket: str

    def keep(self, job: Job) -> None:
        """Write the row as it stands, in DynamoDB's own form, so that it can be put back.

        Whoever was held up between its look at the row and this must not put an end back that was
        contradicted since: only what was looked at is written over.
        """
        name = _name(job.job_key)
        expected: _Condition = {"IfNoneMatch": "*"}
        for _ in range(_ROUNDS):
            if self._put(name, to_attributes(job), **expected):
                return
            kept = self._get(name)
            if kept is not None and not takes_the_place_of(job, kept.job):
                return
            expected = {"IfNoneMatch": "*"} if kept is None else {"IfMatch": kept.tag}
        raise UnavailableError(f"what is archived of {job.job_key} kept changing")

    def find(self, key: JobKey) -> Job | None:
        """Read an archived job; S3 answers consistently."""
        kept = self._get(_name(key))
        return None if kept is None else kept.job

    def keep_reject(self, message_id: str, reject: Mapping[str, Json], *, at: datetime) -> None:
        """Write a rejected message under its day."""
        self._put(f"rejects/{at.astimezone(UTC):%Y/%m/%d}/{message_id}.json", reject)

    def _get(self, name: str) -> "_Kept | None":
        try:
            answer = self.client.get_object(Bucket=self.bucket, Key=name)
            body = answer["Body"].read()
        except NO_ANSWER as error:
            raise self._silent(error) from error
        except ClientError as error:
            if code_of(error) in _MISSING:
                return None
            raise self._refused(error) from error
        return _Kept(from_attributes(json.loads(body)), answer["ETag"])

    def _put(self, name: str, content: object, **expected: Unpack["_Condition"]) -> bool:
        """Write an object; False: what is there is not what was expected."""
        body = json.dumps(content, indent=1).encode()
        try:
            self.client.put_object(
                Bucket=self.bucket,
                Key=name,
                Body=body,
                ContentType="application/json",
                **expected,
            )
        except NO_ANSWER as error:
            raise self._silent(error) from error
        except ClientError as error:
            if code_of(error) in _NOT_AS_EXPECTED and expected:
                return False
            raise self._refused(error) from error
        return True

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
