"""What both consumers of the table's stream share: how they are fed, and where failures go."""

from datetime import timedelta

from aws_cdk import Acknowledgment, Duration, Validations
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from oncely_cdk.job_function import OncelyFunction
from oncely_cdk.shared_resources import SharedResources

_Mapping = lambda_.CfnEventSourceMapping


def failure_queue(scope: Construct, id_: str, *, shared: SharedResources) -> sqs.Queue:
    """Where Lambda reports the part of the stream that a function could not process."""
    stage = shared.stage
    queue = sqs.Queue(
        scope,
        id_,
        encryption=sqs.QueueEncryption.SQS_MANAGED,
        enforce_ssl=stage.tls_only,
        visibility_timeout=Duration.seconds(stage.visibility_timeout_seconds),
        retention_period=Duration.days(stage.dead_letter_retention_days),
    )
    Validations.of(queue).acknowledge(
        Acknowledgment(
            id="AwsSolutions-SQS3",
            reason="It is the end of the line: where in the stream to look, for an operator.",
        )
    )
    return queue


def read_stream(
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
    """Feed a function from the stream, from its oldest record on."""
    stream = shared.tables.jobs.table_stream_arn
    if stream is None:
        raise ValueError("the job table has no stream")
    # Lambda reads the stream, and reports what it gives up on, in this function's name.
    function.grant(
        *("dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"),
        resources=[stream],
    )
    function.grant("dynamodb:ListStreams", resources=["*"])
    function.grant("sqs:SendMessage", resources=[failures.queue_arn])
    # By hand: the construct's own destination would be granted more than sending.
    _Mapping(
        function,
        "Stream",
        function_name=function.function.function_name,
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
        filter_criteria=(
            None
            if pattern is None
            else _Mapping.FilterCriteriaProperty(filters=[_Mapping.FilterProperty(pattern=pattern)])
        ),
    )
