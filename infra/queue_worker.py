"""The worker of one queue, with what the queue's contracts need and nothing else."""

from email.utils import parseaddr

from aws_cdk import Stack
from constructs import Construct

from infra.job_function import JobFunction
from infra.needs import Demand
from infra.stages import Stage, StageError
from infra.surroundings import Surroundings


class QueueWorker(Construct):
    """One function of functions/work_queue/, fed from one queue."""

    def __init__(self, scope: Construct, id_: str, *, queue: str, around: Surroundings) -> None:
        super().__init__(scope, id_)
        stage, demand = around.stage, around.demand.of_queue(queue)
        own = around.queues.by_name[queue]
        self.worker = JobFunction(
            self,
            "Worker",
            entry="work_queue",
            description=f"works the queue {queue!r}",
            stage=stage,
            layers=around.layers,
            timeout=stage.worker_timeout_seconds,
            memory=stage.worker_memory_mb,
            secrets=demand.secrets,
            feeds_itself=queue in demand.sends_to,
            environment={
                "QUEUE_NAME": queue,
                "QUEUE_URL": own.queue_url,
                "REJECTS_QUEUE_URL": around.queues.rejects.queue_url,
                **around.alerts.variables(),
                **around.retention_variables(),
                "MAX_RECEIVES": str(stage.max_receive_count),
                "SIDE_BY_SIDE": str(stage.batch_concurrency),
                **around.tables.variables(demand.tables),
                **around.keys.variables(demand.secrets),
                **around.queues.urls(demand.sends_to),
                **stage.provider_settings(),
            },
        )
        self._let_work(demand, around)
        self.worker.consume(
            own, batch_size=stage.batch_size, max_concurrency=stage.concurrency_of(queue)
        )
        # A message of a job that another worker holds is shown again when that one is done.
        self.worker.allow("sqs:ChangeMessageVisibility", on=[own.queue_arn])

    def _let_work(self, demand: Demand, around: Surroundings) -> None:
        worker, tables = self.worker, around.tables
        # The condition check is the second attempt's: the first must have failed.
        worker.allow(
            *("dynamodb:GetItem", "dynamodb:UpdateItem", "dynamodb:ConditionCheckItem"),
            on=[tables.jobs.table_arn],
        )
        if demand.tables:
            worker.allow(
                *("dynamodb:GetItem", "dynamodb:UpdateItem"),
                on=[tables.arn(name) for name in demand.tables],
            )
        if demand.secrets:
            worker.allow("secretsmanager:GetSecretValue", on=around.keys.arns(demand.secrets))
        worker.allow(
            "sqs:SendMessage",
            on=[around.queues.rejects.queue_arn, *around.queues.arns(demand.sends_to)],
        )
        around.alerts.let_tell(worker)
        around.let_check_table(worker)
        for action in demand.actions:
            self._allow(action, around.stage)

    def _allow(self, action: str, stage: Stage) -> None:
        """Permit an action that a contract names itself."""
        match action:
            case "ses:SendEmail":
                self._let_send_mail(stage)
            case _:
                raise StageError(
                    f"a contract names the action {action!r}, and the stack does not know on what: "
                    "say it in infra/queue_worker.py"
                )

    def _let_send_mail(self, stage: Stage) -> None:
        """Permit mail from the sender's address; without one no mail is sent."""
        if stage.sender_address is None:
            return
        _, address = parseaddr(stage.sender_address)
        for kind in ("identity", "configuration-set"):
            # SES authorizes the sender's identity, which may be a parent domain, its default
            # configuration set and, while the account is in the SES sandbox, the recipient's
            # identity. None of them is known here; the sender is, and the condition names it.
            resource = Stack.of(self).format_arn(service="ses", resource=kind, resource_name="*")
            self.worker.allow("ses:SendEmail", on=[resource], only_if={"ses:FromAddress": address})
            self.worker.acknowledge_pattern(
                resource,
                reason="The condition on ses:FromAddress limits it to one sender.",
            )
