"""The consumers of dead letters and rejects."""

from typing import Final

from aws_cdk import Duration
from constructs import Construct

from oncely_cdk import job_items
from oncely_cdk.job_function import OncelyFunction
from oncely_cdk.shared_resources import SharedResources

# One alert per batch, so that thousands of dead letters do not send thousands of emails.
DEAD_LETTER_BATCH_SIZE: Final = 100
BATCHING_WINDOW: Final = Duration.minutes(1)


class DeadLetterConsumer(Construct):
    """Records the job of each dead letter in its row, from which it is resumed."""

    def __init__(self, scope: Construct, id_: str, *, shared: SharedResources) -> None:
        super().__init__(scope, id_)
        queues, tables = shared.queues, shared.tables
        self.consumer = OncelyFunction(
            self,
            "Receive",
            entry="handle_dead_letters",
            description="records the jobs of dead letters",
            layers=shared.layers,
            environment={
                **shared.job_env_vars(),
                **shared.alerts.env_vars(),
                "QUEUE_URL": queues.dead_letters.queue_url,
                "REJECTS_QUEUE_URL": queues.rejects.queue_url,
                **tables.env_vars(),
            },
        )
        actions = ("GetItem", "PutItem", "UpdateItem")
        items = [job_items.ANY_JOB, job_items.ANY_ALERT_BUDGET]
        shared.grant_jobs(self.consumer, *actions, leading_keys=items)
        self.consumer.grant("sqs:SendMessage", resources=[queues.rejects.queue_arn])
        shared.alerts.grant_publish(self.consumer)
        shared.grant_check_table(self.consumer)
        self.consumer.add_queue_source(
            queues.dead_letters,
            batch_size=DEAD_LETTER_BATCH_SIZE,
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
            layers=shared.layers,
            environment={
                "ARCHIVE_BUCKET": shared.archive.name,
                "QUEUE_URL": shared.queues.rejects.queue_url,
            },
        )
        shared.archive.grant_write_rejects(self.consumer)
        self.consumer.add_queue_source(shared.queues.rejects)
