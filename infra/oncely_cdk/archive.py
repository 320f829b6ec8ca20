"""The archive: an S3 bucket with the history of jobs and the rejected messages."""

from typing import Final

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_s3 as s3
from constructs import Construct

from oncely_cdk.job_function import OncelyFunction
from oncely_cdk.nag import acknowledge
from oncely_cdk.stages import Stage

_REJECTS: Final = "rejects/*"
_HISTORY: Final = "history/*"


class ArchiveBucket(Construct):
    """A bucket that `cdk destroy` does not delete."""

    def __init__(self, scope: Construct, id_: str, *, stage: Stage) -> None:
        super().__init__(scope, id_)
        self.bucket = s3.Bucket(
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
                )
            ],
        )
        acknowledge(self.bucket, "S1", "Only our own functions have access; CloudTrail can log it.")

    @property
    def name(self) -> str:
        return self.bucket.bucket_name

    def grant_write_rejects(self, function: OncelyFunction) -> None:
        function.grant("s3:PutObject", resources=[self.bucket.arn_for_objects(_REJECTS)])
        self._suppress_nag(function, _REJECTS)

    def grant_write_history(self, function: OncelyFunction) -> None:
        function.grant("s3:PutObject", resources=[self.bucket.arn_for_objects(_HISTORY)])
        self._suppress_nag(function, _HISTORY)

    def grant_read_history(self, function: OncelyFunction) -> None:
        function.grant("s3:GetObject", resources=[self.bucket.arn_for_objects(_HISTORY)])
        function.grant("s3:ListBucket", resources=[self.bucket.bucket_arn])
        self._suppress_nag(function, _HISTORY)

    def _suppress_nag(self, function: OncelyFunction, prefix: str) -> None:
        resource = self.bucket.node.default_child
        assert isinstance(resource, s3.CfnBucket)  # noqa: S101  # for the type checker
        function.suppress_nag(
            f"IAM5[Resource::<{self.bucket.stack.get_logical_id(resource)}.Arn>/{prefix}]",
            reason="Object names are known only when they are written, under this prefix.",
        )
