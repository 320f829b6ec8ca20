"""The history: every change that the job table's stream shows goes to the archive in batches."""

from datetime import timedelta
from typing import Final

from constructs import Construct

from oncely_cdk.job_function import OncelyFunction
from oncely_cdk.shared_resources import SharedResources
from oncely_cdk.stream_mapping import failure_queue, read_stream
from oncely_cdk.table_schemas import JOBS

# Lambda hands over at most 6 MB, so a batch is smaller than this when rows are large.
BATCH_SIZE: Final = 10_000
WINDOW_SECONDS: Final = 60
# Only S3 or DynamoDB can make a batch fail, so it is retried for as long as there is time.
MAX_RETRIES: Final = -1
# The stream forgets a record after 24 hours without a word; before that, Lambda reports the gap.
MAX_RECORD_AGE: Final = timedelta(hours=22)
# A batch of 10,000 rows is read, zipped and written well within it.
TIMEOUT_SECONDS: Final = 120
MEMORY_MB: Final = 512
GAPS_BATCH_SIZE: Final = 10
# Two is the least that Lambda takes.
GAPS_CONCURRENCY: Final = 2


class StreamHistory(Construct):
    """Writes lines under `history/`, and each gap that the stream left."""

    def __init__(self, scope: Construct, id_: str, *, shared: SharedResources) -> None:
        super().__init__(scope, id_)
        self.gaps = failure_queue(self, "Gaps", shared=shared)
        self.writer = OncelyFunction(
            self,
            "Write",
            entry="archive_history",
            description="writes every change of a job to the archive",
            stage=shared.stage,
            layers=shared.layers,
            timeout_seconds=TIMEOUT_SECONDS,
            memory_mb=MEMORY_MB,
            environment={
                **shared.tables.table_env_vars(JOBS),
                "ARCHIVE_BUCKET": shared.archive.name,
            },
        )
        self.writer.grant("dynamodb:DescribeTable", resources=[shared.tables.arn(JOBS)])
        shared.archive.grant_write_history(self.writer)
        read_stream(
            self.writer,
            shared=shared,
            failures=self.gaps,
            batch_size=BATCH_SIZE,
            window_seconds=WINDOW_SECONDS,
            max_retries=MAX_RETRIES,
            max_age=MAX_RECORD_AGE,
        )
        self.writer.add_queue_source(
            self.gaps, batch_size=GAPS_BATCH_SIZE, max_concurrency=GAPS_CONCURRENCY
        )
