"""Oncely as one stack, derived from the registered contracts."""

from collections.abc import Iterable

from aws_cdk import CfnOutput, CfnParameter, Environment, Stack, Tags
from aws_cdk import aws_events as events
from constructs import Construct

from oncely.contract import AnyContract
from oncely.settings import pascal_case
from oncely_cdk import alarms
from oncely_cdk.admin_page import AdminPage
from oncely_cdk.alerts import AlertTopic
from oncely_cdk.archive import ArchiveBucket
from oncely_cdk.dashboard import Dashboard
from oncely_cdk.first_setup import FirstSetupConstruct
from oncely_cdk.function_code import CodeLayers
from oncely_cdk.guardrails import validate_stage
from oncely_cdk.provider_secrets import ProviderSecrets
from oncely_cdk.queue_consumers import DeadLetterConsumer, RejectConsumer
from oncely_cdk.queue_worker import QueueWorker
from oncely_cdk.queues import Queues
from oncely_cdk.reconciler import ReconcilerConstruct
from oncely_cdk.required_resources import RequiredResources
from oncely_cdk.shared_resources import SharedResources
from oncely_cdk.stages import PROVIDERS_ADDRESS, Stage
from oncely_cdk.stream_consumers import StreamHistory, StreamPublisher
from oncely_cdk.tables import Tables


class OncelyStack(Stack):
    """One construct for each capability. A new contract needs no change here."""

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
            description="Oncely: background jobs with one outcome, however often they run",
            termination_protection=stage.retain_data,
        )
        if stage.is_local:
            providers = CfnParameter(
                self, PROVIDERS_ADDRESS, description="Address of the local provider sandbox"
            )
            stage = stage.model_copy(update={"providers_address": providers.value_as_string})
        required = RequiredResources(tuple(contracts))
        validate_stage(stage, required.contracts)
        self.shared = SharedResources(
            stage=stage,
            required=required,
            layers=CodeLayers(self, "Layers", stage=stage),
            tables=Tables(self, "Tables", stage=stage, required=required),
            queues=Queues(self, "Queues", stage=stage, names=required.queues),
            provider_secrets=ProviderSecrets(
                self, "ProviderSecrets", stage=stage, names=required.secrets
            ),
            archive=ArchiveBucket(self, "Archive", stage=stage),
            alerts=AlertTopic(self, "Alerts", stage=stage),
            bus=events.EventBus(self, "Events", description="Oncely: ended jobs"),
        )
        self.first_setup = FirstSetupConstruct(self, "FirstSetup", shared=self.shared)
        self.workers = {
            queue: QueueWorker(self, f"{pascal_case(queue)}Worker", queue=queue, shared=self.shared)
            for queue in required.queues
        }
        self.reconciler = ReconcilerConstruct(self, "Reconciler", shared=self.shared)
        self.publisher = StreamPublisher(self, "Stream", shared=self.shared)
        self.history = StreamHistory(self, "History", shared=self.shared)
        self.dead_letters = DeadLetterConsumer(self, "DeadLetters", shared=self.shared)
        self.rejects = RejectConsumer(self, "Rejects", shared=self.shared)
        self.admin_page = AdminPage(self, "AdminPage", shared=self.shared)
        self._add_alarms()
        self._add_outputs()
        Tags.of(self).add("app", "oncely")
        Tags.of(self).add("stage", stage.name)

    def _add_alarms(self) -> None:
        queues, machine = self.shared.queues, self.reconciler.machine
        metrics = alarms.JobMetrics(self.stack_name)
        alarms.Alarms(
            self,
            "Alarms",
            stage=self.shared.stage,
            alerts=self.shared.alerts,
            specs=(
                *alarms.job_alarms(metrics),
                *alarms.queue_alarms(
                    jobs=queues.by_name,
                    dead_letters=queues.dead_letters,
                    rejects=queues.rejects,
                    missed=self.publisher.missed,
                ),
                *alarms.reconciler_alarms(machine),
                *alarms.history_alarms(self.history.writer.function, gaps=self.history.gaps),
            ),
        )
        if self.shared.stage.dashboard:
            Dashboard(
                self,
                "Dashboard",
                metrics=metrics,
                workers={name: worker.worker.function for name, worker in self.workers.items()},
                queues={
                    **queues.by_name,
                    "dead letters": queues.dead_letters,
                    "rejects": queues.rejects,
                },
                machine=machine,
            )

    def _add_outputs(self) -> None:
        """Add the outputs that tools rely on."""
        shared = self.shared
        outputs = {
            **{
                f"{pascal_case(name)}QueueUrl": queue.queue_url
                for name, queue in shared.queues.by_name.items()
            },
            "RejectsQueueUrl": shared.queues.rejects.queue_url,
            "DeadLetterQueueUrl": shared.queues.dead_letters.queue_url,
            "MissedQueueUrl": self.publisher.missed.queue_url,
            "GapsQueueUrl": self.history.gaps.queue_url,
            **{
                f"{pascal_case(name)}TableName": table.table_name
                for name, table in shared.tables.by_name.items()
            },
            **{
                f"{pascal_case(name)}SecretArn": arn
                for name, arn in shared.provider_secrets.arns_by_name.items()
            },
            "ReconcilerArn": self.reconciler.machine.state_machine_arn,
            "ArchiveBucketName": shared.archive.name,
            "EventBusName": shared.bus.event_bus_name,
            "AlertTopicArn": shared.alerts.topic.topic_arn,
            "AdminUrl": self.admin_page.url,
            "DueShards": str(shared.stage.due_shards),
            "UserPoolId": self.admin_page.user_pool.pool.user_pool_id,
            "RowRetentionDays": str(shared.stage.row_retention_days),
            **shared.stage.provider_outputs(shared.required.providers),
        }
        for name, value in outputs.items():
            CfnOutput(self, name, value=value)
