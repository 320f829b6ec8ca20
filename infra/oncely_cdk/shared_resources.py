"""What the functions share: the stage, the layers, and the resources to grant."""

from dataclasses import dataclass

from aws_cdk import aws_events as events

from oncely_cdk.alerts import AlertTopic
from oncely_cdk.archive import ArchiveBucket
from oncely_cdk.function_code import CodeLayers
from oncely_cdk.job_function import OncelyFunction
from oncely_cdk.provider_secrets import ProviderSecrets
from oncely_cdk.queues import Queues
from oncely_cdk.required_resources import RequiredResources
from oncely_cdk.stages import Stage
from oncely_cdk.table_schemas import JOBS
from oncely_cdk.tables import Tables


@dataclass(frozen=True, kw_only=True)
class SharedResources:
    """Passed to each construct that creates a function."""

    stage: Stage
    required: RequiredResources
    layers: CodeLayers
    tables: Tables
    queues: Queues
    provider_secrets: ProviderSecrets
    archive: ArchiveBucket
    alerts: AlertTopic
    bus: events.EventBus

    def publish_env_vars(self) -> dict[str, str]:
        return {
            "EVENT_BUS_NAME": self.bus.event_bus_name,
            **self.retention_env_vars(),
            **self.queues.env_vars(),
        }

    def retention_env_vars(self) -> dict[str, str]:
        return {"RETENTION_DAYS": str(self.stage.row_retention_days)}

    def lookup_env_vars(self) -> dict[str, str]:
        return {
            **self.publish_env_vars(),
            **self.tables.env_vars(self.required.tables),
            **self.provider_secrets.env_vars(self.required.secrets, read_only=True),
            **self.stage.provider_env_vars(self.required.providers),
        }

    def grant_check_table(self, function: OncelyFunction) -> None:
        names = ("DescribeTable", "DescribeTimeToLive", "DescribeContinuousBackups")
        function.grant(*(f"dynamodb:{name}" for name in names), resources=[self.tables.arn(JOBS)])

    def grant_lookup(self, function: OncelyFunction) -> None:
        self.grant_check_table(function)
        function.grant(
            *("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"),
            resources=[self.tables.arn(JOBS)],
        )
        self.grant_required(function, self.required, read_only=True)

    def grant_required(
        self, function: OncelyFunction, required: RequiredResources, *, read_only: bool = False
    ) -> None:
        if required.tables:
            tables = [self.tables.arn(name) for name in required.tables]
            function.grant("dynamodb:GetItem", "dynamodb:UpdateItem", resources=tables)
        if required.secrets:
            keys = self.provider_secrets.arns(required.secrets, read_only=read_only)
            function.grant("secretsmanager:GetSecretValue", resources=keys)

    def grant_publish(self, function: OncelyFunction) -> None:
        if self.required.publishes_events:
            function.grant("events:PutEvents", resources=[self.bus.event_bus_arn])
        function.grant("sqs:SendMessage", resources=self.queues.arns())
