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
            "ARCHIVE_BUCKET": self.archive.name,
            "EVENT_BUS_NAME": self.bus.event_bus_name,
            "RETENTION_DAYS": str(self.stage.row_retention_days),
            **self.queues.urls(),
        }

    def asking_variables(self) -> dict[str, str]:
        """What a function needs to know to ask what became of any job, and to record it."""
        return {
            **self.publishing_variables(),
            **self.tables.variables(self.demand.tables),
            **self.keys.variables(self.demand.secrets, reading=True),
            **self.stage.provider_settings(),
        }

    def let_ask(self, function: JobFunction) -> None:
        """Let a function ask what became of any job, and record it."""
        demand, tables = self.demand, self.tables
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
        self.archive.let_find_jobs(function)

    def let_publish(self, function: JobFunction) -> None:
        """Let a function publish an end: the event, the follow-ups, the archive."""
        function.allow("events:PutEvents", on=[self.bus.event_bus_arn])
        function.allow("sqs:SendMessage", on=self.queues.arns())
        self.archive.let_keep_jobs(function)
