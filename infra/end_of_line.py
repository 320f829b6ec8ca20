"""The consumers at the end of the line: dead letters come to a known state, rejects are kept."""

from typing import Final

from aws_cdk import Duration
from constructs import Construct

from infra.job_function import JobFunction
from infra.surroundings import Surroundings
from infra.table_plans import JOBS

BATCH_SIZE: Final = 10
# A batch of dead letters is one alert: an outage that gives up thousands must not mail thousands.
LETTERS: Final = 100
GATHERED_FOR: Final = Duration.minutes(1)
# Two is the least that Lambda takes, and neither of them is in a hurry.
MAX_CONCURRENCY: Final = 2


class DeadLetterConsumer(Construct):
    """Brings the job of each dead letter to a known state; the row carries it on."""

    def __init__(self, scope: Construct, id_: str, *, around: Surroundings) -> None:
        super().__init__(scope, id_)
        queues, tables = around.queues, around.tables
        self.consumer = JobFunction(
            self,
            "Receive",
            entry="receive_dead_letters",
            description="brings the jobs of dead letters to a known state",
            stage=around.stage,
            layers=around.layers,
            timeout=around.stage.reconciler_timeout_seconds,
            environment={
                **around.alerts.variables(),
                "REJECTS_QUEUE_URL": queues.rejects.queue_url,
                **tables.variables(),
            },
        )
        self.consumer.allow(
            *("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"), on=[tables.arn(JOBS)]
        )
        self.consumer.allow("sqs:SendMessage", on=[queues.rejects.queue_arn])
        around.alerts.let_tell(self.consumer)
        around.let_check_table(self.consumer)
        self.consumer.consume(
            queues.dead_letters,
            batch_size=LETTERS,
            max_concurrency=MAX_CONCURRENCY,
            gathered_for=GATHERED_FOR,
        )


class RejectConsumer(Construct):
    """Archives each rejected message with its reason."""

    def __init__(self, scope: Construct, id_: str, *, around: Surroundings) -> None:
        super().__init__(scope, id_)
        self.consumer = JobFunction(
            self,
            "Archive",
            entry="archive_rejects",
            description="archives rejected messages",
            stage=around.stage,
            layers=around.layers,
            timeout=around.stage.reconciler_timeout_seconds,
            environment={"ARCHIVE_BUCKET": around.archive.name},
        )
        around.archive.let_keep_rejects(self.consumer)
        self.consumer.consume(
            around.queues.rejects, batch_size=BATCH_SIZE, max_concurrency=MAX_CONCURRENCY
        )
