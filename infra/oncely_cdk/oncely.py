"""Oncely as one construct, derived from the jobs that it is given."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from aws_cdk import CfnOutput, CfnParameter, CfnResource, Stack, Tags
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events as events
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from oncely.contracts.job import AnyJob
from oncely.contracts.job_names import name_jobs
from oncely.contracts.registry import JobRegistry
from oncely.contracts.settings import pascal_case
from oncely.operate.own_tables import JOBS
from oncely.plugins.provider import AnyProvider
from oncely_cdk import alarms
from oncely_cdk.access_policies import AccessPolicies, producer_statements
from oncely_cdk.admin_page import AdminPage
from oncely_cdk.alerts import AlertTopic
from oncely_cdk.archive import ArchiveBucket
from oncely_cdk.dashboard import Dashboard
from oncely_cdk.encryption_keys import EncryptionKeys
from oncely_cdk.event_intake import EventIntakeConstruct, event_alarms
from oncely_cdk.first_setup import FirstSetupConstruct
from oncely_cdk.function_code import CodeLayers
from oncely_cdk.given_resources import GivenResources
from oncely_cdk.guardrails import validate_stage
from oncely_cdk.job_function import GrantedFunction, refuse_large_environment
from oncely_cdk.own_resources import OwnResources
from oncely_cdk.payment_audit import PaymentAudit
from oncely_cdk.provider_secrets import ProviderSecrets
from oncely_cdk.queue_consumers import DeadLetterConsumer, RejectConsumer
from oncely_cdk.queue_worker import QueueWorker
from oncely_cdk.queues import Queues
from oncely_cdk.reconciler import ReconcilerConstruct
from oncely_cdk.required_resources import RequiredResources
from oncely_cdk.shared_resources import SharedResources
from oncely_cdk.stage_file import IDENTITY_OUTPUT
from oncely_cdk.stages import PROVIDERS_ADDRESS, OncelySettings, StageError
from oncely_cdk.stream_consumers import StreamHistory, StreamPublisher
from oncely_cdk.tables import Tables

# A child of each stack that has the construct.
_MARKER: Final = "HasOncely"


class Oncely(Construct):
    """Oncely in your stack: queues, workers, reconciler and admin page for your jobs.

    One construct for each capability. A new job needs no change here.
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
        queues: Mapping[str, sqs.IQueue] | None = None,
        workers: Mapping[str, lambda_.IFunction] | None = None,
        archive_bucket: s3.IBucket | None = None,
        environment: Mapping[str, str] | None = None,
        requirements: str | Path | None = None,
    ) -> None:
        """Add Oncely to a stack.

        - `tables`, `secrets`: existing ones by the short names in the jobs' resources. Those that
          are not given are created. Their KMS keys may be used through their service.
        - `queues`, `workers`: your own, by the jobs' names of queues. A queue gets the redrive
          policy. A function, whose handler is `oncely.worker(jobs=[…])`, gets the layers,
          variables and permissions, and the messages of its queue.
        - `archive_bucket`: an existing, versioned one, such as that of a deleted stack.
        - `environment`: variables of your own, for every function that imports jobs. Those that a
          job declares in its settings are outputs as well, for the command.
        - `requirements`: the lock of the packages that your jobs import, with hashes. They become
          a layer.
        """
        super().__init__(scope, id_)
        _refuse_second_construct(self)
        required = RequiredResources(tuple(jobs))
        name_jobs(required.contracts)  # refuses what no function could import
        JobRegistry(required.contracts)
        stage = _with_local_providers(self, settings)
        validate_stage(stage, required.contracts)
        given = GivenResources(
            required,
            settings,
            tables=tables or {},
            secrets=secrets or {},
            queues=queues or {},
            workers=workers or {},
            archive_bucket=archive_bucket,
            environment=environment or {},
        )
        stage = with_provider_resources(self, stage, required.providers)
        own = OwnResources(stage, given.queues, given.workers)
        own.check(self, required)
        EncryptionKeys(self)
        self._given = given
        required = stage.required_resources(required.contracts)
        self.shared = SharedResources(
            stage=stage,
            required=required,
            environment=given.job_env_vars,
            layers=CodeLayers(
                self,
                "Layers",
                stage=stage,
                required=required,
                requirements=None if requirements is None else Path(requirements),
                environment=given.job_env_vars,
            ),
            tables=Tables(self, "Tables", stage=stage, required=required, given=given.tables),
            queues=Queues(self, "Queues", stage=stage, names=required.queues, own=own),
            own=own,
            provider_secrets=ProviderSecrets(
                self,
                "ProviderSecrets",
                stage=stage,
                names=(
                    *required.secrets,
                    *(one.webhook_secret_name for one in stage.webhook_providers(required)),
                ),
                given=given.secrets,
            ),
            archive=ArchiveBucket(self, "Archive", stage=stage, given=given.archive_bucket),
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
        self.payment_audit = (
            PaymentAudit(self, "PaymentAudit", shared=self.shared)
            if stage.daily_payment_audit and required.taking_money().job_types
            else None
        )
        self.admin_page = AdminPage(self, "AdminPage", shared=self.shared)
        self.event_intake = (
            EventIntakeConstruct(
                self, "EventIntake", shared=self.shared, engine=self.admin_page.engine
            )
            if stage.event_providers(required)
            else None
        )
        self.policies = AccessPolicies(
            self,
            "Policies",
            shared=self.shared,
            reconciler=self.reconciler,
            failure_queues=(self.publisher.missed, self.history.gaps),
        )
        for one in self.node.find_all():
            if isinstance(one, GrantedFunction):
                self.first_setup.run_before(one)
        self._add_alarms()
        self._add_outputs()
        Tags.of(self).add("app", "oncely")
        Tags.of(self).add("stage", stage.name)

    def worker(self, queue: str) -> lambda_.Function:
        """Return the worker of a queue, to grant it more: `table.grant_read_data(worker)`."""
        if queue not in self.workers:
            known = ", ".join(sorted(self.workers))
            raise StageError(f"no job uses the queue {queue!r}; the jobs use {known}")
        return self.workers[queue].worker.function

    def grant_send(self, function: lambda_.Function, *queues: str) -> None:
        """Let a function enqueue jobs of these queues (default: all).

        It can insert jobs and send their messages, and change or delete none. Its environment gets
        what `create_producer` reads.
        """
        shared = self.shared
        for queue in queues or shared.required.queues:
            self.worker(queue)  # refuses an unknown queue
            for statement in producer_statements(shared, queue):
                function.add_to_role_policy(statement)
        variables = {
            **shared.tables.table_env_vars(JOBS),
            **shared.queues.env_vars(queues or None),
        }
        refuse_large_environment(function, variables)
        for name, value in variables.items():
            function.add_environment(name, value)

    def _add_alarms(self) -> None:
        queues, machine = self.shared.queues, self.reconciler.machine
        metrics = alarms.JobMetrics(Stack.of(self).stack_name)
        alarms.Alarms(
            self,
            "Alarms",
            stage=self.shared.stage,
            alerts=self.shared.alerts,
            specs=(
                *alarms.job_alarms(metrics),
                *alarms.gate_alarms(metrics, self.shared.required.providers),
                *alarms.queue_alarms(
                    jobs=queues.by_name,
                    dead_letters=queues.dead_letters,
                    rejects=queues.rejects,
                    missed=self.publisher.missed,
                ),
                *alarms.function_alarms(api_id=self.admin_page.api.api_id),
                *event_alarms(self.event_intake),
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
            **{
                f"{pascal_case(name)}ReadOnlySecretArn": arn
                for name, arn in shared.stage.read_only_secrets.items()
            },
            **(self.event_intake.outputs if self.event_intake else {}),
            **self.policies.outputs,
            "ReconcilerArn": self.reconciler.machine.state_machine_arn,
            "ArchiveBucketName": shared.archive.name,
            IDENTITY_OUTPUT: self.first_setup.output(),
            "EventBusName": shared.bus.event_bus_name,
            "AlertTopicArn": shared.alerts.topic.topic_arn,
            "AdminUrl": self.admin_page.url,
            "DueShards": str(shared.stage.due_shards),
            "UserPoolId": self.admin_page.user_pool.pool.user_pool_id,
            "AccessLogSecretArn": self.admin_page.access_log_secret,
            "RowRetentionDays": str(shared.stage.row_retention_days),
            **{
                pascal_case(name.lower()): value
                for name, value in (
                    shared.resubmission_env_vars() | shared.second_operator_env_vars()
                ).items()
            },
            **shared.stage.provider_outputs(shared.required.providers),
            **{
                pascal_case(name.lower()): value
                for name, value in shared.tables.existing_env_vars(shared.required.tables).items()
            },
            **self._given.job_setting_outputs,
        }
        for name, value in outputs.items():
            # Tools read it by this name, wherever in the stack the construct is.
            CfnOutput(self, name, value=value).override_logical_id(name)


def _with_local_providers(scope: Construct, settings: OncelySettings) -> OncelySettings:
    """Add the sandbox's address, which is known when the local engine runs."""
    if not settings.is_local:
        return settings
    address = CfnParameter(
        Stack.of(scope), PROVIDERS_ADDRESS, description="Address of the local provider sandbox"
    )
    return settings.model_copy(update={"providers_address": address.value_as_string})


def _refuse_second_construct(scope: Construct) -> None:
    stack = Stack.of(scope)
    if stack.node.try_find_child(_MARKER):
        raise StageError(
            f"the stack {stack.stack_name} has two Oncely constructs, whose outputs, alarms and "
            "metrics would have the same names: put one of them into another stack"
        )
    Construct(stack, _MARKER)


# Every AWS service accepts names of this length.
_MAX_NAME_LENGTH: Final = 64


def with_provider_resources(
    scope: Construct, stage: OncelySettings, providers: Iterable[AnyProvider]
) -> OncelySettings:
    """Create what the providers need, and return the stage with its names in the settings."""
    stack = Stack.of(scope)
    bus = stack.format_arn(service="events", resource="event-bus", resource_name="default")
    found = dict(stage.provider_settings)
    for plugin in providers:
        wanted = plugin.stack_resources(
            stage.settings_of(plugin), name=_short_name(stack.stack_name), event_bus=bus
        )
        parent = Construct(scope, f"{pascal_case(plugin.name)}Resources") if wanted else scope
        created: list[CfnResource] = []
        for one in wanted:
            resource = CfnResource(parent, one.id, type=one.type, properties=dict(one.properties))
            resource.node.add_dependency(*created)
            created.append(resource)
            if one.setting is not None:
                # A reference, so that no function starts before the resource exists.
                found[f"{plugin.name}_{one.setting}"] = resource.ref
    return stage.model_copy(update={"provider_settings": found})


def _short_name(stack_name: str) -> str:
    if len(stack_name) <= _MAX_NAME_LENGTH:
        return stack_name
    digest = hashlib.sha256(stack_name.encode()).hexdigest()[:8]
    return f"{stack_name[: _MAX_NAME_LENGTH - len(digest) - 1]}-{digest}"
