"""The whole of Oncely as one stack, derived from the contracts' registry."""

from collections.abc import Iterable

from aws_cdk import CfnOutput, CfnParameter, Environment, Stack, Tags
from aws_cdk import aws_events as events
from constructs import Construct

from infra.alarms import Alarms
from infra.alerts import Alerts
from infra.archive import Archive
from infra.code import CodeLayers
from infra.dashboard import Dashboard
from infra.end_of_line import DeadLetterConsumer, RejectConsumer
from infra.first_setup import FirstSetup
from infra.guardrails import refuse_unsafe
from infra.metrics import Emitted
from infra.needs import Demand
from infra.provider_keys import ProviderKeys
from infra.queue_worker import QueueWorker
from infra.queues import Queues
from infra.reconciler import Reconciler
from infra.stages import PROVIDERS_ADDRESS, Stage
from infra.stream_history import StreamHistory
from infra.stream_publisher import StreamPublisher
from infra.support_view import SupportView
from infra.surroundings import Surroundings
from infra.tables import Tables
from infra.watches import about_jobs, about_queues, about_the_history, about_the_reconciler
from oncely.contract import AnyContract
from oncely.settings import camel


class OncelyStack(Stack):
    """One construct for each capability; a new contract needs no line here."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        stage: Stage,
        contracts: Iterable[type[AnyContract]],
        env: Environment | None = None,
    ) -> None:
        super().__init__(
            scope,
            id_,
            env=env,
            description="Oncely: background jobs that run once, however often they are delivered",
            termination_protection=stage.retain_data,
        )
        if stage.is_local:
            providers = CfnParameter(
                self, PROVIDERS_ADDRESS, description="Address of the local provider sandbox"
            )
            stage = stage.with_providers_at(providers.value_as_string)
        demand = Demand.of(contracts)
        refuse_unsafe(stage, demand.contracts)
        self.around = Surroundings(
            stage=stage,
            demand=demand,
            layers=CodeLayers(self, "Layers", stage=stage),
            tables=Tables(self, "Tables", stage=stage, business=demand.tables),
            queues=Queues(self, "Queues", stage=stage, names=demand.queues),
            keys=ProviderKeys(self, "ProviderKeys", stage=stage, names=demand.secrets),
            archive=Archive(self, "Archive", stage=stage),
            alerts=Alerts(self, "Alerts", stage=stage),
            bus=events.EventBus(self, "Events", description="Oncely: jobs that have ended"),
        )
        self.first_setup = FirstSetup(self, "FirstSetup", around=self.around)
        self.workers = {
            queue: QueueWorker(self, f"{camel(queue)}Worker", queue=queue, around=self.around)
            for queue in demand.queues
        }
        self.reconciler = Reconciler(self, "Reconciler", around=self.around)
        self.publisher = StreamPublisher(self, "Stream", around=self.around)
        self.history = StreamHistory(self, "History", around=self.around)
        self.dead_letters = DeadLetterConsumer(self, "DeadLetters", around=self.around)
        self.rejects = RejectConsumer(self, "Rejects", around=self.around)
        self.support = SupportView(self, "Support", around=self.around)
        self._watch()
        self._tell_outputs()
        Tags.of(self).add("app", "oncely")
        Tags.of(self).add("stage", stage.name)

    def _watch(self) -> None:
        """Alarms over all of it, and a dashboard if the stage has one."""
        queues, machine = self.around.queues, self.reconciler.machine
        emitted = Emitted(self.stack_name)
        Alarms(
            self,
            "Alarms",
            stage=self.around.stage,
            alerts=self.around.alerts,
            watches=(
                *about_jobs(emitted),
                *about_queues(
                    jobs=queues.by_name,
                    dead_letters=queues.dead_letters,
                    rejects=queues.rejects,
                    missed=self.publisher.missed,
                ),
                *about_the_reconciler(machine),
                *about_the_history(self.history.writer.function, gaps=self.history.gaps),
            ),
        )
        if self.around.stage.dashboard:
            Dashboard(
                self,
                "Dashboard",
                emitted=emitted,
                workers={name: worker.worker.function for name, worker in self.workers.items()},
                queues={
                    **queues.by_name,
                    "dead letters": queues.dead_letters,
                    "rejects": queues.rejects,
                },
                machine=machine,
            )

    def _tell_outputs(self) -> None:
        """The names that outside tools rely on."""
        around = self.around
        outputs = {
            **{
                f"{camel(name)}QueueUrl": queue.queue_url
                for name, queue in around.queues.by_name.items()
            },
            "RejectsQueueUrl": around.queues.rejects.queue_url,
            "DeadLetterQueueUrl": around.queues.dead_letters.queue_url,
            "MissedQueueUrl": self.publisher.missed.queue_url,
            "GapsQueueUrl": self.history.gaps.queue_url,
            **{
                f"{camel(name)}TableName": around.tables.table(name).table_name
                for name in around.tables.names
            },
            **{f"{camel(name)}SecretArn": arn for name, arn in around.keys.named().items()},
            "ReconcilerArn": self.reconciler.machine.state_machine_arn,
            "ArchiveBucketName": around.archive.name,
            "EventBusName": around.bus.event_bus_name,
            "AlertTopicArn": around.alerts.topic.topic_arn,
            "AdminUrl": self.support.url,
            "DueShards": str(around.stage.due_shards),
            "UserPoolId": self.support.people.pool.user_pool_id,
            "RowRetentionDays": str(around.stage.row_retention_days),
            **around.stage.provider_addresses(),
        }
        for name, value in outputs.items():
            CfnOutput(self, name, value=value)
