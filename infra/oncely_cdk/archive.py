"""The archive: an S3 bucket with the history of jobs, rejected messages and audit reports."""

from typing import Final

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_s3 as s3
from constructs import Construct

from oncely_cdk.encryption_keys import EncryptionKeys
from oncely_cdk.job_function import OncelyFunction
from oncely_cdk.nag import acknowledge
from oncely_cdk.stages import OncelySettings

_REJECTS_PREFIX: Final = "rejects/"
_AUDITS_PREFIX: Final = "audits/"
# A report contains orders and amounts, and an erasure does not change it.
_AUDIT_RETENTION: Final = Duration.days(90)
REJECTS: Final = f"{_REJECTS_PREFIX}*"
RESENT_REJECTS: Final = f"{_REJECTS_PREFIX}resent/*"
HISTORY_OBJECTS: Final = "history/*"
ERASURES: Final = "erasures/*"
AUDITS: Final = f"{_AUDITS_PREFIX}*"
_BULK_PREFIX: Final = "bulk/"
BULK_RUNS: Final = f"{_BULK_PREFIX}*"
# A run is continued within days. What it did is in the rows and in the history.
_BULK_RETENTION: Final = Duration.days(90)
# In a versioned bucket, expiry only hides an object. Its versions go a day later.
_VERSIONS_RETENTION: Final = Duration.days(1)


class ArchiveBucket(Construct):
    """A bucket that `cdk destroy` does not delete, or an existing one."""

    def __init__(
        self, scope: Construct, id_: str, *, stage: OncelySettings, given: s3.IBucket | None
    ) -> None:
        super().__init__(scope, id_)
        name = stage.existing_archive_bucket
        if given is None and name is not None:
            given = s3.Bucket.from_bucket_name(self, "Bucket", name)
        self.is_created = given is None
        self.bucket = given or self._new_bucket(stage)
        key = given and given.encryption_key
        if key_arn := key.key_arn if key else stage.existing_keys.archive_bucket:
            EncryptionKeys.of(self).add(key_arn, self.bucket.bucket_arn)

    def _new_bucket(self, stage: OncelySettings) -> s3.Bucket:
        bucket = s3.Bucket(
            self,
            "Bucket",
            versioned=True,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=stage.tls_only,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            removal_policy=RemovalPolicy.RETAIN,
            lifecycle_rules=[
                s3.LifecycleRule(
                    noncurrent_version_expiration=Duration.days(365),
                    abort_incomplete_multipart_upload_after=Duration.days(1),
                ),
                *(
                    s3.LifecycleRule(
                        prefix=prefix,
                        expiration=expiration,
                        noncurrent_version_expiration=_VERSIONS_RETENTION,
                    )
                    for prefix, expiration in (
                        (_REJECTS_PREFIX, Duration.days(stage.rejects_retention_days)),
                        (_AUDITS_PREFIX, _AUDIT_RETENTION),
                        (_BULK_PREFIX, _BULK_RETENTION),
                    )
                ),
            ],
        )
        acknowledge(bucket, "S1", "Only our own functions have access; CloudTrail can log it.")
        return bucket

    @property
    def name(self) -> str:
        return self.bucket.bucket_name

    def grant_write_rejects(self, function: OncelyFunction) -> None:
        self._grant(function, "s3:PutObject", objects=REJECTS)

    def grant_write_history(self, function: OncelyFunction) -> None:
        self._grant(function, "s3:PutObject", objects=HISTORY_OBJECTS)
        # The names in the erasure log.
        function.grant("s3:ListBucket", resources=[self.bucket.bucket_arn])

    def grant_read_history(self, function: OncelyFunction) -> None:
        self._grant(function, "s3:GetObject", objects=HISTORY_OBJECTS)
        function.grant("s3:ListBucket", resources=[self.bucket.bucket_arn])

    def grant_audits(self, function: OncelyFunction) -> None:
        self._grant(function, "s3:GetObject", "s3:PutObject", objects=AUDITS)

    def grant_read_reports(self, function: OncelyFunction) -> None:
        self._grant(function, "s3:GetObject", objects=AUDITS)
        self._grant(function, "s3:GetObject", objects=REJECTS)

    def grant_bulk_runs(self, function: OncelyFunction) -> None:
        self._grant(function, "s3:GetObject", "s3:PutObject", objects=BULK_RUNS)

    def grant_resend_rejects(self, function: OncelyFunction) -> None:
        self._grant(function, "s3:GetObject", objects=REJECTS)
        self._grant(function, "s3:PutObject", objects=RESENT_REJECTS)

    def _grant(self, function: OncelyFunction, *actions: str, objects: str) -> None:
        arn = self.bucket.arn_for_objects(objects)
        function.grant(*actions, resources=[arn])
        function.suppress_nag_for_pattern(
            arn, reason="Object names are known only when they are written, under this prefix."
        )
