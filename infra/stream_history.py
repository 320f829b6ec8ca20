"""The history: every change that the job table's stream shows goes to the archive in batches."""

from datetime import timedelta
from typing import Final

from constructs import Construct

from infra.job_function import JobFunction
from infra.stream_mapping import failure_queue, read_stream
from infra.surroundings import Surroundings
from infra.table_plans import JOBS

# Lambda hands over at most 6 MB, so a batch is smaller than this when rows are large.
BATCH_SIZE: Final = 10_000
WINDOW_SECONDS: Final = 60
# Only S3 or DynamoDB can make a batch fail, so it is retried for as long as there is time.
RETRIES: Final = -1
# The stream forgets a record after 24 hours without a word; before that, Lambda reports the gap.
OLDEST: Final = timedelta(hours=22)
# A batch of 10,000 rows is read, zipped and written well within it.
TIMEOUT_SECONDS: Final = 120
MEMORY_MB: Final = 512
GAPS_BATCH: Final = 10
# Two is the least that Lambda takes.
GAPS_CONCURRENCY: Final = 2


class StreamHistory(Construct):
    """Writes lines under `history/`, and each gap that the stream left."""

    def __init__(self, scope: Construct, id_: str, *, around: Surroundings) -> None:
        super().__init__(scope, id_)
        self.gaps = failure_queue(self, "Gaps", around=around)
        self.writer = JobFunction(
            self,
            "Write",
            entry="archive_history",
            description="writes every change of a job to the archive",
            stage=around.stage,
            layers=around.layers,
            timeout=TIMEOUT_SECONDS,
            memory=MEMORY_MB,
            environment={**around.tables.names_of(JOBS), "ARCHIVE_BUCKET": around.archive.name},
        )
        self.writer.allow("dynamodb:DescribeTable", on=[around.tables.arn(JOBS)])
        around.archive.let_write_history(self.writer)
        read_stream(
            self.writer,
            around=around,
            failures=self.gaps,
            batch_size=BATCH_SIZE,
            window_seconds=WINDOW_SECONDS,
            max_retries=RETRIES,
            max_age=OLDEST,
        )
        self.writer.consume(self.gaps, batch_size=GAPS_BATCH, max_concurrency=GAPS_CONCURRENCY)
