"""The consumers at the end of the line: dead letters come to a known state, rejects are kept."""

from typing import Final

from aws_cdk import Duration
from constructs import Construct

from oncely_cdk.job_function import OncelyFunction
from oncely_cdk.shared_resources import SharedResources
from oncely_cdk.table_schemas import JOBS

BATCH_SIZE: Final = 10
# A batch of dead letters is one alert: an outage that gives up thousands must not mail thousands.
DEAD_LETTER_BATCH_SIZE: Final = 100
BATCHING_WINDOW: Final = Duration.minutes(1)
# Two is the least that Lambda takes, and neither of them is in a hurry.
MAX_CONCURRENCY: Final = 2


class DeadLetterConsumer(Construct):
    """Brings the job of each dead letter to a known state; the row carries it on."""

    def __init__(self, scope: Construct, id_: str, *, shared: SharedResources) -> None:
        super().__init__(scope, id_)
        queues, tables = shared.queues, shared.tables
        self.consumer = OncelyFunction(
            self,
            "Receive",
            entry="handle_dead_letters",
            description="brings the jobs of dead letters to a known state",
            stage=shared.stage,
            layers=shared.layers,
            timeout_seconds=shared.stage.reconciler_timeout_seconds,
            environment={
                **shared.alerts.env_vars(),
                "REJECTS_QUEUE_URL": queues.rejects.queue_url,
                **tables.env_vars(),
            },
        )
        self.consumer.grant(
            *("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"),
            resources=[tables.arn(JOBS)],
        )
        self.consumer.grant("sqs:SendMessage", resources=[queues.rejects.queue_arn])
        shared.alerts.grant_publish(self.consumer)
        shared.grant_check_table(self.consumer)
        self.consumer.add_queue_source(
            queues.dead_letters,
            batch_size=DEAD_LETTER_BATCH_SIZE,
            max_concurrency=MAX_CONCURRENCY,
            batching_window=BATCHING_WINDOW,
        )


class RejectConsumer(Construct):
    """Archives each rejected message with its reason."""

    def __init__(self, scope: Construct, id_: str, *, shared: SharedResources) -> None:
        super().__init__(scope, id_)
        self.consumer = OncelyFunction(
            self,
            "Archive",
            entry="archive_rejects",
            description="archives rejected messages",
            stage=shared.stage,
            layers=shared.layers,
            timeout_seconds=shared.stage.reconciler_timeout_seconds,
            environment={"ARCHIVE_BUCKET": shared.archive.name},
        )
        shared.archive.grant_write_rejects(self.consumer)
        self.consumer.add_queue_source(
            shared.queues.rejects, batch_size=BATCH_SIZE, max_concurrency=MAX_CONCURRENCY
        )
