"""Oncely as a separate stack."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from aws_cdk import Environment, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from oncely.contracts.job import AnyJob
from oncely_cdk.oncely import Oncely
from oncely_cdk.stages import OncelySettings


class OncelyStack(Stack):
    """A stack with one `Oncely` construct, and the same arguments.

    For your own queues and workers, use the construct in your own stack.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        jobs: Iterable[type[AnyJob]],
        settings: OncelySettings,
        tables: Mapping[str, dynamodb.ITable] | None = None,
        secrets: Mapping[str, secretsmanager.ISecret] | None = None,
        archive_bucket: s3.IBucket | None = None,
        environment: Mapping[str, str] | None = None,
        requirements: str | Path | None = None,
        env: Environment | None = None,
    ) -> None:
        super().__init__(
            scope,
            id_,
            env=env,
            description="Oncely: background jobs with many attempts and one real outcome",
            termination_protection=settings.retain_data,
        )
        self.oncely = Oncely(
            self,
            "Default",  # the CDK leaves this name out of logical ids
            jobs=jobs,
            settings=settings,
            tables=tables,
            secrets=secrets,
            archive_bucket=archive_bucket,
            environment=environment,
            requirements=requirements,
        )

    def worker(self, queue: str) -> lambda_.Function:
        """Return the worker of a queue."""
        return self.oncely.worker(queue)

    def grant_send(self, function: lambda_.Function, *queues: str) -> None:
        """Let a function enqueue jobs."""
        self.oncely.grant_send(function, *queues)
