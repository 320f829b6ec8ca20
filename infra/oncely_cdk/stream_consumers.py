"""The consumers of the job table's stream: the publisher of ended jobs and the history writer."""

import json
from datetime import timedelta
from typing import Final

from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from oncely.core.lifecycle import ENDED
from oncely.history.erasure_log import ARCHIVER_TIMEOUT
from oncely.operate.own_tables import JOBS
from oncely_cdk import job_items
from oncely_cdk.job_function import OncelyFunction
from oncely_cdk.nag import acknowledge
from oncely_cdk.queues import create_queue
from oncely_cdk.shared_resources import SharedResources
from oncely_cdk.stages import DEAD_LETTER_RETENTION_DAYS

PUBLISH_BATCH_SIZE: Final = 100
# A record that always fails blocks its shard. Past these limits it is dropped, which raises an
# alarm, and the reconciler publishes the job.
PUBLISH_MAX_RETRIES: Final = 10
PUBLISH_MAX_RECORD_AGE: Final = timedelta(hours=6)

# Lambda passes at most 6 MB, so batches of large rows are smaller.
HISTORY_BATCH_SIZE: Final = 10_000
HISTORY_WINDOW_SECONDS: Final = 60
# Only S3 or DynamoDB can make a batch fail, so it is retried until it is too old.
HISTORY_MAX_RETRIES: Final = -1
# The stream drops a record silently after 24 hours. Lambda reports the gap before that.
HISTORY_MAX_RECORD_AGE: Final = timedelta(hours=22)
# Enough to read, compress and write a batch of 10,000 rows. An erasure waits as long.
HISTORY_TIMEOUT_SECONDS: Final = int(ARCHIVER_TIMEOUT.total_seconds())
HISTORY_MEMORY_MB: Final = 512

_Mapping = lambda_.CfnEventSourceMapping


class StreamPublisher(Construct):
    """Sends the follow-ups and events of ended jobs.

    An ended row keeps its due time until they are sent, so the reconciler sends what this misses.
    """

    def __init__(self, scope: Construct, id_: str, *, shared: SharedResources) -> None:
        super().__init__(scope, id_)
        stage, tables = shared.stage, shared.tables
        self.missed = _failure_queue(self, "Missed", shared=shared)
        self.publisher = OncelyFunction(
            self,
            "Publish",
            entry="publish_ended_jobs",
            description="sends the follow-ups and events of ended jobs",
            layers=shared.layers,
            environment={
                **shared.job_env_vars(),
                **tables.env_vars(),
                **shared.publish_env_vars(),
                **stage.provider_env_vars(shared.required.configured_providers),
            },
        )
        rights = ("GetItem", "UpdateItem")
        shared.grant_jobs(self.publisher, *rights, leading_keys=[job_items.ANY_JOB])
        shared.grant_publish(self.publisher)
        # Ended rows that still have follow-ups or events to send.
        image = {"status": {"S": sorted(ENDED)}, "due_at": {"S": [{"exists": True}]}}
        _read_stream(
            self.publisher,
            shared=shared,
            failures=self.missed,
            batch_size=PUBLISH_BATCH_SIZE,
            max_retries=PUBLISH_MAX_RETRIES,
            max_age=PUBLISH_MAX_RECORD_AGE,
            pattern=json.dumps({"dynamodb": {"NewImage": image}}),
        )


class StreamHistory(Construct):
    """Writes every change of a job, and every gap in the stream, to the archive's history."""

    def __init__(self, scope: Construct, id_: str, *, shared: SharedResources) -> None:
        super().__init__(scope, id_)
        self.gaps = _failure_queue(self, "Gaps", shared=shared)
        self.writer = OncelyFunction(
            self,
            "Write",
            entry="archive_history",
            description="writes every change of a job to the archive",
            layers=shared.layers,
            timeout_seconds=HISTORY_TIMEOUT_SECONDS,
            memory_mb=HISTORY_MEMORY_MB,
            environment={
                **shared.tables.table_env_vars(JOBS),
                "ARCHIVE_BUCKET": shared.archive.name,
            },
        )
        self.writer.grant("dynamodb:DescribeTable", resources=[shared.tables.arn(JOBS)])
        shared.archive.grant_write_history(self.writer)
        _read_stream(
            self.writer,
            shared=shared,
            failures=self.gaps,
            batch_size=HISTORY_BATCH_SIZE,
            window_seconds=HISTORY_WINDOW_SECONDS,
            max_retries=HISTORY_MAX_RETRIES,
            max_age=HISTORY_MAX_RECORD_AGE,
        )
        self.writer.add_queue_source(self.gaps, hands_back=False)


def _failure_queue(scope: Construct, id_: str, *, shared: SharedResources) -> sqs.Queue:
    """The queue to which Lambda reports the stream records that it dropped."""
    queue = create_queue(scope, id_, stage=shared.stage, days=DEAD_LETTER_RETENTION_DAYS)
    acknowledge(
        queue, "SQS3", "It is itself a dead letter queue: it holds positions in the stream."
    )
    return queue


def _read_stream(
    function: OncelyFunction,
    *,
    shared: SharedResources,
    failures: sqs.Queue,
    batch_size: int,
    max_retries: int,
    max_age: timedelta,
    window_seconds: int = 0,
    pattern: str | None = None,
) -> None:
    """Invoke a function with the stream's records, starting at the oldest."""
    stream = shared.tables.by_name[JOBS].table_stream_arn
    if stream is None:
        raise ValueError("the job table has no stream")
    # Lambda reads the stream and reports dropped records with this function's role.
    function.grant(
        *("dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"),
        resources=[stream],
    )
    function.grant("dynamodb:ListStreams", resources=["*"])
    function.grant("sqs:SendMessage", resources=[failures.queue_arn])
    criteria = None
    if pattern is not None:
        filters = [_Mapping.FilterProperty(pattern=pattern)]
        criteria = _Mapping.FilterCriteriaProperty(filters=filters)
    # Not the L2 construct: its destination grants more than sending.
    _Mapping(
        function,
        "Stream",
        function_name=function.live.function_arn,
        event_source_arn=stream,
        starting_position="TRIM_HORIZON",
        batch_size=batch_size,
        maximum_batching_window_in_seconds=window_seconds,
        bisect_batch_on_function_error=True,
        function_response_types=["ReportBatchItemFailures"],
        maximum_retry_attempts=max_retries,
        maximum_record_age_in_seconds=int(max_age.total_seconds()),
        destination_config=_Mapping.DestinationConfigProperty(
            on_failure=_Mapping.OnFailureProperty(destination=failures.queue_arn)
        ),
        filter_criteria=criteria,
    )
