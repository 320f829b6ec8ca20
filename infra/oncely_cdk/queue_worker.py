"""The worker of one queue, with the permissions that its contracts need and no others."""

from aws_cdk import Stack
from constructs import Construct

from oncely.provider import IamGrant
from oncely_cdk.job_function import OncelyFunction
from oncely_cdk.required_resources import RequiredResources
from oncely_cdk.shared_resources import SharedResources


class QueueWorker(Construct):
    """A function of oncely/handlers/process_queue.py that consumes one queue."""

    def __init__(self, scope: Construct, id_: str, *, queue: str, shared: SharedResources) -> None:
        super().__init__(scope, id_)
        stage, required = shared.stage, shared.required.for_queue(queue)
        own = shared.queues.by_name[queue]
        self.worker = OncelyFunction(
            self,
            "Worker",
            entry="process_queue",
            description=f"runs the jobs of the queue {queue!r}",
            layers=shared.layers,
            timeout_seconds=stage.worker_timeout_seconds,
            memory_mb=stage.worker_memory_mb,
            providers=required.providers,
            sends_to_own_queue=queue in required.sends_to,
            environment={
                "QUEUE_NAME": queue,
                "QUEUE_URL": own.queue_url,
                "REJECTS_QUEUE_URL": shared.queues.rejects.queue_url,
                **shared.alerts.env_vars(),
                **shared.retention_env_vars(),
                "MAX_RECEIVE_COUNT": str(stage.max_receive_count),
                "BATCH_CONCURRENCY": str(stage.batch_concurrency),
                **shared.tables.env_vars(required.tables),
                **shared.provider_secrets.env_vars(required.secrets),
                **shared.queues.env_vars(required.sends_to),
                **stage.provider_env_vars(shared.required.providers),
            },
        )
        self._grant_work(required, shared)
        self.worker.add_queue_source(
            own, batch_size=stage.batch_size, max_concurrency=stage.concurrency_for(queue)
        )
        # A message of a job that is leased elsewhere is delayed until that lease expires.
        self.worker.grant("sqs:ChangeMessageVisibility", resources=[own.queue_arn])

    def _grant_work(self, required: RequiredResources, shared: SharedResources) -> None:
        worker = self.worker
        # The condition check is for a resubmission: the prior job must have failed.
        worker.grant(
            *("dynamodb:GetItem", "dynamodb:UpdateItem", "dynamodb:ConditionCheckItem"),
            resources=[shared.tables.jobs.table_arn],
        )
        shared.grant_required(worker, required)
        worker.grant(
            "sqs:SendMessage",
            resources=[shared.queues.rejects.queue_arn, *shared.queues.arns(required.sends_to)],
        )
        shared.alerts.grant_publish(worker)
        shared.grant_check_table(worker)
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
        self.worker.suppress_nag_for_pattern(resource, reason=grant.reason)
