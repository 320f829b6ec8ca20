"""What the functions share: the stage, the layers, and the resources to grant."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import aws_events as events

from oncely.contracts.settings import RESUBMISSION_SETTINGS, retention_env_var
from oncely.operate.own_tables import GATES, JOBS
from oncely_cdk import job_items
from oncely_cdk.alerts import AlertTopic
from oncely_cdk.archive import ArchiveBucket
from oncely_cdk.function_code import CodeLayers
from oncely_cdk.job_function import GrantedFunction, OncelyFunction
from oncely_cdk.own_resources import OwnResources
from oncely_cdk.provider_secrets import ProviderSecrets
from oncely_cdk.queues import Queues
from oncely_cdk.required_resources import RequiredResources
from oncely_cdk.stages import OncelySettings
from oncely_cdk.tables import Tables


@dataclass(frozen=True, kw_only=True)
class SharedResources:
    """Passed to each construct that creates a function."""

    stage: OncelySettings
    required: RequiredResources
    environment: Mapping[str, str]  # of the team, for its jobs
    layers: CodeLayers
    tables: Tables
    queues: Queues
    own: OwnResources
    provider_secrets: ProviderSecrets
    archive: ArchiveBucket
    alerts: AlertTopic
    bus: events.EventBus

    def job_env_vars(self, required: RequiredResources | None = None) -> dict[str, str]:
        """Return the variables of a function that imports these jobs, or all."""
        return {**self.environment, **(required or self.required).env_vars()}

    def publish_env_vars(self) -> dict[str, str]:
        return {
            "EVENT_BUS_NAME": self.bus.event_bus_name,
            **self.retention_env_vars(),
            **self.queues.env_vars(),
        }

    def retention_env_vars(self) -> dict[str, str]:
        return {"RETENTION_DAYS": str(self.stage.row_retention_days)}

    def table_retention_env_vars(self, required: RequiredResources) -> dict[str, str]:
        days = self.stage.retention_days_of(required)
        written = (name for name in required.written_tables if name in days)
        return {retention_env_var(name): str(days[name]) for name in written}

    def resubmission_env_vars(self) -> dict[str, str]:
        return {name.upper(): str(getattr(self.stage, name)) for name in RESUBMISSION_SETTINGS}

    def second_operator_env_vars(self) -> dict[str, str]:
        above = self.stage.second_operator_above
        return {"SECOND_OPERATOR_ABOVE": above} if above else {}

    def lookup_env_vars(self) -> dict[str, str]:
        return {
            **self.job_env_vars(),
            **self.publish_env_vars(),
            **self.tables.env_vars(self.required.tables),
            **self.provider_secrets.env_vars(self.required.secrets, read_only=True),
            **self.stage.provider_env_vars(self.required.configured_providers),
            **self.tables.table_env_vars(GATES),
        }

    def grant_gates(self, function: GrantedFunction, required: RequiredResources) -> None:
        """Allow a function to take slots and change circuits. Only operators pause."""
        table = [self.tables.arn(GATES)]
        function.grant("dynamodb:Scan", resources=table)
        if names := job_items.gates(required.providers):
            function.grant("dynamodb:UpdateItem", resources=table, leading_keys=names)

    def grant_check_table(self, function: GrantedFunction) -> None:
        """Let the table guard read the identity item and what DynamoDB says about the table."""
        names = ("DescribeTable", "DescribeTimeToLive", "DescribeContinuousBackups")
        function.grant(*(f"dynamodb:{name}" for name in names), resources=[self.tables.arn(JOBS)])
        self.grant_jobs(function, "GetItem", leading_keys=[job_items.IDENTITY])

    def grant_prove_lookups(self, function: GrantedFunction, required: RequiredResources) -> None:
        """Let a function write what is known of lookups, and nothing else of the identity item."""
        if job_types := required.proving_job_types:
            function.grant(
                "dynamodb:UpdateItem",
                resources=[self.tables.arn(JOBS)],
                leading_keys=[job_items.IDENTITY],
                attributes=job_items.lookup_attributes(job_types),
            )

    def grant_jobs(
        self, function: GrantedFunction, *actions: str, leading_keys: Sequence[str]
    ) -> None:
        """Permit actions on these items of the job table."""
        function.grant(
            *(f"dynamodb:{name}" for name in actions),
            resources=[self.tables.arn(JOBS)],
            leading_keys=leading_keys,
        )

    def grant_lookup(
        self, function: OncelyFunction, *, leading_keys: Sequence[str] = (job_items.ANY_JOB,)
    ) -> None:
        self.grant_check_table(function)
        self.grant_prove_lookups(function, self.required)
        self.grant_gates(function, self.required)
        self.grant_jobs(function, "GetItem", "UpdateItem", leading_keys=leading_keys)
        self.grant_required(function, self.required, read_only=True)

    def grant_required(
        self, function: GrantedFunction, required: RequiredResources, *, read_only: bool = False
    ) -> None:
        tables = self.tables
        function.grant("dynamodb:GetItem", resources=tables.arns(required.read_tables))
        function.grant("dynamodb:UpdateItem", resources=tables.arns(required.written_tables))
        keys = self.provider_secrets.arns(required.secrets, read_only=read_only)
        function.grant("secretsmanager:GetSecretValue", resources=keys)

    def grant_publish(self, function: OncelyFunction) -> None:
        if self.required.publishes_events:
            function.grant("events:PutEvents", resources=[self.bus.event_bus_arn])
        function.grant("sqs:SendMessage", resources=self.queues.arns())
