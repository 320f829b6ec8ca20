"""The stream consumer: what each ended job owes is sent, none skipped."""

import json
from datetime import timedelta
from typing import Final

from aws_cdk import Acknowledgment, Duration, Validations
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.job_function import JobFunction
from infra.surroundings import Surroundings
from infra.table_plans import JOBS
from oncely.domain.lifecycle import ENDED

BATCH_SIZE: Final = 100
# A poisoned record holds its shard up; after this it goes to a person, and the row to a sweep.
RETRIES: Final = 10
OLDEST: Final = timedelta(hours=6)

_Mapping = lambda_.CfnEventSourceMapping


class StreamPublisher(Construct):
    """What it misses, the reconciler redoes: an ended row keeps its due time until then."""

    def __init__(self, scope: Construct, id_: str, *, around: Surroundings) -> None:
        super().__init__(scope, id_)
        stage, tables = around.stage, around.tables
        self.missed = sqs.Queue(
            self,
            "Missed",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=stage.tls_only,
            retention_period=Duration.days(stage.dead_letter_retention_days),
        )
        Validations.of(self.missed).acknowledge(
            Acknowledgment(
                id="AwsSolutions-SQS3",
                reason="It is the end of the line: where in the stream to look, for a person.",
            )
        )
        self.publisher = JobFunction(
            self,
            "Publish",
            entry="publish_ended",
            description="sends what ended jobs owe: follow-ups and events",
            stage=stage,
            layers=around.layers,
            timeout=stage.reconciler_timeout_seconds,
            environment={
                **tables.variables(),
                **around.publishing_variables(),
                **stage.provider_settings(),
            },
        )
        self.publisher.allow("dynamodb:GetItem", "dynamodb:UpdateItem", on=[tables.arn(JOBS)])
        around.let_publish(self.publisher)
        self._feed(around)

    def _feed(self, around: Surroundings) -> None:
        stream = around.tables.jobs.table_stream_arn
        if stream is None:
            raise ValueError("the job table has no stream")
        function = self.publisher
        # Lambda reads the stream, and reports what it gives up on, in this function's name.
        function.allow(
            *("dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"),
            on=[stream],
        )
        function.allow("dynamodb:ListStreams", on=["*"])
        function.allow("sqs:SendMessage", on=[self.missed.queue_arn])
        # By hand: the construct's own destination would be granted more than sending.
        _Mapping(
            self,
            "Stream",
            function_name=function.function.function_name,
            event_source_arn=stream,
            starting_position="TRIM_HORIZON",
            batch_size=BATCH_SIZE,
            bisect_batch_on_function_error=True,
            function_response_types=["ReportBatchItemFailures"],
            maximum_retry_attempts=RETRIES,
            maximum_record_age_in_seconds=int(OLDEST.total_seconds()),
            destination_config=_Mapping.DestinationConfigProperty(
                on_failure=_Mapping.OnFailureProperty(destination=self.missed.queue_arn)
            ),
            filter_criteria=_Mapping.FilterCriteriaProperty(
                filters=[_Mapping.FilterProperty(pattern=_ended_and_due())]
            ),
        )


def _ended_and_due() -> str:
    """Rows that have ended and still have a due time; the rest concerns nobody else."""
    image = {"status": {"S": sorted(ENDED)}, "due_at": {"S": [{"exists": True}]}}
    return json.dumps({"dynamodb": {"NewImage": image}})
