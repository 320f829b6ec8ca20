"""The worker of one queue, with what the queue's contracts need and nothing else."""

from email.utils import parseaddr

from aws_cdk import Stack
from constructs import Construct

from oncely_cdk.job_function import OncelyFunction
from oncely_cdk.required_resources import RequiredResources
from oncely_cdk.shared_resources import SharedResources
from oncely_cdk.stages import Stage, StageError


class QueueWorker(Construct):
    """One function of oncely/handlers/process_queue.py, fed from one queue."""

    def __init__(self, scope: Construct, id_: str, *, queue: str, shared: SharedResources) -> None:
        super().__init__(scope, id_)
        stage, required = shared.stage, shared.required.for_queue(queue)
        own = shared.queues.by_name[queue]
        self.worker = OncelyFunction(
            self,
            "Worker",
            entry="process_queue",
            description=f"works the queue {queue!r}",
            stage=stage,
            layers=shared.layers,
            timeout_seconds=stage.worker_timeout_seconds,
            memory_mb=stage.worker_memory_mb,
            secrets=required.secrets,
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
                **stage.provider_env_vars(),
            },
        )
        self._grant_work(required, shared)
        self.worker.add_queue_source(
            own, batch_size=stage.batch_size, max_concurrency=stage.concurrency_for(queue)
        )
        # A message of a job that another worker holds is shown again when that one is done.
        self.worker.grant("sqs:ChangeMessageVisibility", resources=[own.queue_arn])

    def _grant_work(self, required: RequiredResources, shared: SharedResources) -> None:
        worker, tables = self.worker, shared.tables
        # The condition check is the second attempt's: the first must have failed.
        worker.grant(
            *("dynamodb:GetItem", "dynamodb:UpdateItem", "dynamodb:ConditionCheckItem"),
            resources=[tables.jobs.table_arn],
        )
        if required.tables:
            worker.grant(
                *("dynamodb:GetItem", "dynamodb:UpdateItem"),
                resources=[tables.arn(name) for name in required.tables],
            )
        if required.secrets:
            worker.grant(
                "secretsmanager:GetSecretValue",
                resources=shared.provider_secrets.arns(required.secrets),
            )
        worker.grant(
            "sqs:SendMessage",
            resources=[shared.queues.rejects.queue_arn, *shared.queues.arns(required.sends_to)],
        )
        shared.alerts.grant_publish(worker)
        shared.grant_check_table(worker)
        for action in required.actions:
            self._grant_action(action, shared.stage)

    def _grant_action(self, action: str, stage: Stage) -> None:
        """Permit an action that a contract names itself."""
        match action:
            case "ses:SendEmail":
                self._grant_send_mail(stage)
            case _:
                raise StageError(
                    f"a contract names the action {action!r}, and the stack does not know on what: "
                    "say it in infra/oncely_cdk/queue_worker.py"
                )

    def _grant_send_mail(self, stage: Stage) -> None:
        """Permit mail from the sender's address; without one no mail is sent."""
        if stage.sender_address is None:
            return
        _, address = parseaddr(stage.sender_address)
        for resource_type in ("identity", "configuration-set"):
            # SES authorizes the sender's identity, which may be a parent domain, its default
            # configuration set and, while the account is in the SES sandbox, the recipient's
            # identity. None of them is known here; the sender is, and the condition names it.
            resource = Stack.of(self).format_arn(
                service="ses", resource=resource_type, resource_name="*"
            )
            self.worker.grant(
                "ses:SendEmail", resources=[resource], string_equals={"ses:FromAddress": address}
            )
            self.worker.suppress_nag_for_pattern(
                resource,
                reason="The condition on ses:FromAddress limits it to one sender.",
            )
