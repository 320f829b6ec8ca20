"""What functions share: the stage, the layers, and everything they may be let into."""

from dataclasses import dataclass

from aws_cdk import aws_events as events

from infra.alerts import Alerts
from infra.archive import Archive
from infra.code import CodeLayers
from infra.job_function import JobFunction
from infra.needs import Demand
from infra.provider_keys import ProviderKeys
from infra.queues import Queues
from infra.stages import Stage
from infra.table_plans import JOBS
from infra.tables import Tables


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """Handed to each construct that makes a function."""

    stage: Stage
    demand: Demand
    layers: CodeLayers
    tables: Tables
    queues: Queues
    keys: ProviderKeys
    archive: Archive
    alerts: Alerts
    bus: events.EventBus

    def publishing_variables(self) -> dict[str, str]:
        """What a function needs to know to publish an end."""
        return {
            "EVENT_BUS_NAME": self.bus.event_bus_name,
            **self.retention_variables(),
            **self.queues.urls(),
        }

    def retention_variables(self) -> dict[str, str]:
        """What a function needs to know to end a job."""
        return {"RETENTION_DAYS": str(self.stage.row_retention_days)}

    def asking_variables(self) -> dict[str, str]:
        """What a function needs to know to ask what became of any job, and to record it."""
        return {
            **self.publishing_variables(),
            **self.tables.variables(self.demand.tables),
            **self.keys.variables(self.demand.secrets, reading=True),
            **self.stage.provider_settings(),
        }

    def let_check_table(self, function: JobFunction) -> None:
        """Let a function see whether the job table holds the proofs; it may read its rows."""
        names = ("DescribeTable", "DescribeTimeToLive", "DescribeContinuousBackups")
        function.allow(*(f"dynamodb:{name}" for name in names), on=[self.tables.arn(JOBS)])

    def let_ask(self, function: JobFunction) -> None:
        """Let a function ask what became of any job, and record it."""
        demand, tables = self.demand, self.tables
        self.let_check_table(function)
        function.allow(
            *("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"),
            on=[tables.arn(JOBS)],
        )
        if demand.tables:
            function.allow(
                *("dynamodb:GetItem", "dynamodb:UpdateItem"),
                on=[tables.arn(name) for name in demand.tables],
            )
        if demand.secrets:
            keys = self.keys.arns(demand.secrets, reading=True)
            function.allow("secretsmanager:GetSecretValue", on=keys)

    def let_publish(self, function: JobFunction) -> None:
        """Let a function send what an ended job owes: the event, the follow-ups."""
        if self.demand.publishes_events:
            function.allow("events:PutEvents", on=[self.bus.event_bus_arn])
        function.allow("sqs:SendMessage", on=self.queues.arns())
