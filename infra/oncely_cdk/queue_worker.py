"""The worker of one queue, with the permissions that its contracts need and no others."""

from aws_cdk import Stack
from constructs import Construct

from oncely.operate.own_tables import GATES
from oncely.plugins.provider import IamGrant
from oncely_cdk import job_items
from oncely_cdk.job_function import GrantedFunction, OncelyFunction
from oncely_cdk.own_resources import OwnFunction
from oncely_cdk.required_resources import RequiredResources
from oncely_cdk.shared_resources import SharedResources


class QueueWorker(Construct):
    """A function of oncely/handlers/process_queue.py, or the team's, that consumes one queue."""

    def __init__(self, scope: Construct, id_: str, *, queue: str, shared: SharedResources) -> None:
        super().__init__(scope, id_)
        stage, required = shared.stage, shared.required.for_queue(queue)
        own = shared.queues.by_name[queue]
        environment = {
            **shared.job_env_vars(required),
            "QUEUE_NAME": queue,
            "QUEUE_URL": own.queue_url,
            "REJECTS_QUEUE_URL": shared.queues.rejects.queue_url,
            **shared.alerts.env_vars(),
            **shared.retention_env_vars(),
            **shared.table_retention_env_vars(required),
            **shared.resubmission_env_vars(),
            "MAX_RECEIVE_COUNT": str(stage.max_receive_count),
            **shared.tables.env_vars(required.tables),
            **shared.provider_secrets.env_vars(required.secrets),
            **shared.queues.env_vars(required.sends_to),
            **stage.provider_env_vars(required.configured_providers),
            **shared.tables.table_env_vars(GATES),
        }
        sends_to_own_queue = queue in required.sends_to
        self.worker: GrantedFunction
        if (function := shared.own.worker(queue)) is not None:
            self.worker = OwnFunction(
                self,
                "Worker",
                function=function,
                layers=shared.layers,
                environment=environment,
                required=required,
                sends_to_own_queue=sends_to_own_queue,
            )
        else:
            self.worker = OncelyFunction(
                self,
                "Worker",
                entry="process_queue",
                description=f"runs the jobs of the queue {queue!r}",
                layers=shared.layers,
                timeout_seconds=stage.worker_timeout_seconds,
                memory_mb=stage.worker_memory_mb,
                providers=required.providers,
                sends_to_own_queue=sends_to_own_queue,
                environment=environment,
            )
        self._grant_work(required, shared)
        self.worker.add_queue_source(
            own, batch_size=stage.batch_size, max_concurrency=stage.concurrency_for(queue)
        )

    def _grant_work(self, required: RequiredResources, shared: SharedResources) -> None:
        worker = self.worker
        own = job_items.job_rows(required.job_types)
        # The put is for the row of an early message. The condition check is for a resubmission:
        # the prior job must have failed.
        rights = ("GetItem", "PutItem", "ConditionCheckItem")
        shared.grant_jobs(worker, *rights, leading_keys=own)
        alerts = job_items.alert_budgets(required.job_types)
        shared.grant_jobs(worker, "UpdateItem", leading_keys=[*own, *alerts])
        shared.grant_required(worker, required)
        worker.grant(
            "sqs:SendMessage",
            resources=[shared.queues.rejects.queue_arn, *shared.queues.arns(required.sends_to)],
        )
        shared.alerts.grant_publish(worker)
        shared.grant_check_table(worker)
        shared.grant_prove_lookups(worker, required)
        shared.grant_gates(worker, required)
        for plugin in required.providers:
            for grant in plugin.iam_grants(shared.stage.settings_of(plugin)):
                self._grant_provider(grant)

    def _grant_provider(self, grant: IamGrant) -> None:
        resource_type, _, name = grant.resource.partition("/")
        resource = Stack.of(self).format_arn(
            service=grant.service, resource=resource_type, resource_name=name
        )
        self.worker.grant(
            *grant.actions, resources=[resource], string_equals=dict(grant.string_equals)
        )
        if name == "*":
            self.worker.suppress_nag_for_pattern(resource, reason=grant.reason)
