"""The alarms: each has a metric, a limit, its impact, a first command and a runbook section."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from aws_cdk import Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from oncely.aws import signals
from oncely.aws.alarm_description import AlarmDescription
from oncely.contracts.settings import pascal_case
from oncely.plugins.provider import AnyProvider
from oncely_cdk.alerts import AlertTopic
from oncely_cdk.stages import OncelySettings

PERIOD: Final = Duration.minutes(5)


@dataclass(frozen=True)
class JobMetrics:
    """The metrics of one stack's functions. The dimension keeps stacks of one account apart."""

    service: str

    def __call__(self, name: str, *, statistic: str = "Sum", **split_by: str) -> cloudwatch.Metric:
        """Return one metric. `reason` or `provider` selects one value of a metric that is split."""
        return cloudwatch.Metric(
            namespace=signals.NAMESPACE,
            metric_name=name,
            dimensions_map={"service": self.service, **split_by},
            statistic=statistic,
            period=PERIOD,
            # An alarm's metric cannot have a label.
            label=split_by.get("reason"),
        )


@dataclass(frozen=True, kw_only=True)
class AlarmSpec:
    """One alarm.

    `impact` first says whether money or data is at risk. `next_step` is the `oncely` command to
    run first; the runbook section explains its output.
    """

    name: str
    metric: cloudwatch.IMetric
    impact: str
    runbook_section: str
    threshold: float = 1
    next_step: str = "doctor"
    evaluation_periods: int = 1
    datapoints_to_alarm: int | None = None
    missing_data_breaches: bool = False


class Alarms(Construct):
    """The alarms of a stack. Each notifies the alert topic when it starts and when it ends."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        stage: OncelySettings,
        alerts: AlertTopic,
        specs: Iterable[AlarmSpec],
    ) -> None:
        super().__init__(scope, id_)
        notify = actions.SnsAction(alerts.topic)
        stack = Stack.of(self).stack_name
        for spec in specs:
            # The local engine does not support alarms on more than one metric.
            if stage.is_local and isinstance(spec.metric, cloudwatch.MathExpression):
                continue
            alarm = cloudwatch.Alarm(
                self,
                spec.name,
                metric=spec.metric,
                threshold=spec.threshold,
                comparison_operator=(
                    cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
                ),
                evaluation_periods=spec.evaluation_periods,
                datapoints_to_alarm=spec.datapoints_to_alarm or spec.evaluation_periods,
                treat_missing_data=(
                    cloudwatch.TreatMissingData.BREACHING
                    if spec.missing_data_breaches
                    else cloudwatch.TreatMissingData.NOT_BREACHING
                ),
                alarm_description=AlarmDescription(
                    impact=spec.impact,
                    next_step=f"oncely {spec.next_step} --stack {stack}",
                    runbook=f"{stage.runbook_url}#{spec.runbook_section}",
                ).render(),
            )
            alarm.add_alarm_action(notify)
            alarm.add_ok_action(notify)


def job_alarms(metrics: JobMetrics) -> Iterator[AlarmSpec]:
    """Alarms on the metrics that the functions emit."""
    yield AlarmSpec(
        name="OldestUnresolved",
        metric=metrics(signals.OLDEST_UNRESOLVED_AGE, statistic="Maximum"),
        threshold=Duration.minutes(30).to_seconds(),
        evaluation_periods=2,
        impact=(
            "A job has had no outcome for 30 minutes: its effect may or may not have happened. "
            "It is not repeated until the outcome is known."
        ),
        runbook_section="unresolved-jobs",
        next_step="list --status in_progress",
    )
    yield AlarmSpec(
        name="NeedsReview",
        metric=metrics(signals.NEEDS_REVIEW),
        impact=(
            "A job needs review: its outcome cannot be determined automatically. "
            "Nothing more is sent for it until an operator decides."
        ),
        runbook_section="jobs-in-review",
        next_step="list --status needs_review",
    )
    yield AlarmSpec(
        name="HighDuplicateRate",
        metric=_duplicate_share(metrics),
        threshold=0.5,
        evaluation_periods=3,
        datapoints_to_alarm=2,
        impact=(
            "No job runs twice. At least half of the messages are duplicates: a producer is "
            "probably resending in a loop, which costs money."
        ),
        runbook_section="high-duplicate-rate",
    )
    yield AlarmSpec(
        name="HighFailureRate",
        metric=_failure_flag(metrics),
        impact=(
            "More than 5 % of the jobs, and at least 20, failed in 15 minutes. "
            "Nothing is lost, and each failure is definite: the provider declined, and nothing is "
            "left open there."
        ),
        runbook_section="high-failure-rate",
        next_step="list --status failed",
    )
    yield AlarmSpec(
        name=signals.THROTTLED,
        metric=metrics(signals.THROTTLED),
        threshold=10,
        evaluation_periods=3,
        datapoints_to_alarm=2,
        impact=(
            "No job is lost, but jobs are delayed. DynamoDB throttles requests: the load "
            "exceeds the capacity of a table or an index."
        ),
        runbook_section="tables-throttled",
    )
    yield AlarmSpec(
        name=signals.NOTHING_SENT,
        metric=metrics(signals.NOTHING_SENT),
        threshold=10,
        evaluation_periods=3,
        datapoints_to_alarm=2,
        impact="No jobs are lost. A provider cannot be reached, and its jobs are retried.",
        runbook_section="provider-unreachable",
        next_step="list --status in_progress",
    )
    yield AlarmSpec(
        name=signals.CREDENTIALS_REJECTED,
        metric=metrics(signals.CREDENTIALS_REJECTED),
        impact=(
            "Nothing was sent. A provider rejects our API key or account settings, or a daily "
            "limit is used up. Its jobs are on hold until that is fixed."
        ),
        runbook_section="provider-credentials-rejected",
    )
    yield AlarmSpec(
        name=signals.TABLE_BLOCKED,
        metric=metrics(signals.TABLE_BLOCKED),
        impact=(
            "No jobs run, and nothing was sent; messages stay queued. The job table may lack the "
            "proofs of completed jobs: it was restored, copied or emptied, a setting names another "
            "table, or its stream, TTL or point-in-time recovery is off."
        ),
        runbook_section="job-table-blocked",
    )
    for name in (signals.PROCESSING_ERROR, signals.ACK_FAILED, signals.PUBLISH_FAILED):
        yield AlarmSpec(
            name=name,
            metric=metrics(name),
            evaluation_periods=2,
            impact=(
                "Jobs are delayed, none are lost. Unexpected error: the stack trace is in the logs."
            ),
            runbook_section="unexpected-errors",
        )
    yield AlarmSpec(
        name=signals.SWEEP_FINISHED,
        metric=metrics(signals.SWEEP_FINISHED, statistic="Maximum"),
        threshold=Duration.minutes(15).to_seconds(),
        evaluation_periods=2,
        # A reconciler that does not run at all emits nothing.
        missing_data_breaches=True,
        impact=(
            "Unknown jobs are not resolved. No reconciler sweep has finished for 10 minutes, or "
            "one took more than 15 minutes."
        ),
        runbook_section="reconciler-failing",
    )
    yield AlarmSpec(
        name=signals.RESOLVE_FAILED,
        metric=metrics(signals.RESOLVE_FAILED),
        evaluation_periods=3,
        datapoints_to_alarm=2,
        impact=(
            "The outcome of at least one job stays unknown: the reconciler repeatedly fails to "
            "process it. Other jobs are not affected."
        ),
        runbook_section="job-cannot-be-reconciled",
        next_step="reconcile --dry-run",
    )
    yield AlarmSpec(
        name=signals.ALERT_FAILED,
        metric=metrics(signals.ALERT_FAILED),
        evaluation_periods=2,
        impact=(
            "No job is affected, but operators do not receive alerts. "
            "Each undelivered alert is retried until it is sent."
        ),
        runbook_section="alert-delivery-failing",
    )


def queue_alarms(
    *, jobs: Mapping[str, sqs.Queue], dead_letters: sqs.Queue, rejects: sqs.Queue, missed: sqs.Queue
) -> Iterator[AlarmSpec]:
    """Alarms on the metrics of the queues."""
    yield AlarmSpec(
        name="DeadLetters",
        metric=dead_letters.metric_number_of_messages_received(period=PERIOD, statistic="Sum"),
        impact=(
            "No job is lost. A message reached its receive limit; its job is tracked in its row "
            "and resent automatically."
        ),
        runbook_section="dead-letters",
        next_step="redrive --dry-run",
    )
    yield AlarmSpec(
        name="Rejects",
        metric=rejects.metric_number_of_messages_sent(period=PERIOD, statistic="Sum"),
        impact=(
            "A message was rejected, and no job was changed. It is invalid or conflicts with an "
            "existing job. The archive has it."
        ),
        runbook_section="rejects",
    )
    yield AlarmSpec(
        name="StreamRecordsDropped",
        metric=missed.metric_approximate_number_of_messages_visible(
            period=PERIOD, statistic="Maximum"
        ),
        impact=(
            "Nothing is lost. The stream dropped records of ended jobs; the reconciler publishes "
            "those jobs instead."
        ),
        runbook_section="stream-records-dropped",
    )
    for name, queue in {**jobs, "dead_letters": dead_letters, "rejects": rejects}.items():
        yield AlarmSpec(
            name=f"OldestMessage{pascal_case(name)}",
            metric=queue.metric_approximate_age_of_oldest_message(
                period=PERIOD, statistic="Maximum"
            ),
            threshold=Duration.minutes(30).to_seconds(),
            impact=(
                f"No message is lost. One has been in the queue {name!r} for 30 minutes, so its "
                "job is delayed."
            ),
            runbook_section="queue-backlog",
        )


def function_alarms(*, api_id: str) -> Iterator[AlarmSpec]:
    """Alarms on the functions and the API of the admin page."""
    # An alarm reads at most 10 metrics and each costs, so these two count all functions of the
    # account and Region. Throttles depend on the others anyway: they share one concurrency limit.
    yield AlarmSpec(
        name="FunctionErrors",
        metric=_lambda_metric("Errors"),
        threshold=3,
        evaluation_periods=3,
        datapoints_to_alarm=2,
        impact=(
            "No job is lost. Functions of this account crash, time out or run out of memory, so "
            "jobs may be delayed. The count includes functions of other stacks."
        ),
        runbook_section="functions-failing",
    )
    yield AlarmSpec(
        name="FunctionThrottles",
        metric=_lambda_metric("Throttles"),
        threshold=5,
        evaluation_periods=3,
        datapoints_to_alarm=2,
        impact=(
            "No job is lost, but jobs are delayed. Lambda does not start functions of this "
            "account: their concurrency limit is reached."
        ),
        runbook_section="functions-throttled",
    )
    yield AlarmSpec(
        name="AdminPageErrors",
        metric=cloudwatch.Metric(
            namespace="AWS/ApiGateway",
            metric_name="5xx",
            dimensions_map={"ApiId": api_id},
            statistic="Sum",
            period=PERIOD,
        ),
        threshold=5,
        impact="No job is affected. The admin page answers requests with an internal error.",
        runbook_section="admin-page-failing",
    )


def _lambda_metric(name: str) -> cloudwatch.Metric:
    """A metric of all functions: it has no dimension."""
    return cloudwatch.Metric(
        namespace="AWS/Lambda", metric_name=name, statistic="Sum", period=PERIOD
    )


def history_alarms(writer: lambda_.Function, *, gaps: sqs.Queue) -> Iterator[AlarmSpec]:
    """Alarms on the history: dropped stream records, and how far its writer is behind."""
    yield AlarmSpec(
        name="HistoryGap",
        metric=gaps.metric_number_of_messages_sent(period=PERIOD, statistic="Sum"),
        impact=(
            "No job is affected. The history lacks changes that only the rows have. "
            "A restore is refused until the gap is closed."
        ),
        runbook_section="history-gap",
        next_step="archive gaps",
    )
    yield AlarmSpec(
        name="HistoryBehind",
        metric=writer.metric("IteratorAge", period=PERIOD, statistic="Maximum"),
        threshold=Duration.hours(12).to_milliseconds(),
        impact=(
            "No job is affected. The history is 12 hours behind. "
            "In 10 hours its oldest changes are dropped, which leaves a gap."
        ),
        runbook_section="history-behind",
    )


def _duplicate_share(metrics: JobMetrics) -> cloudwatch.MathExpression:
    """The share of duplicates, or 0 below 100 messages, where a share says little."""
    return cloudwatch.MathExpression(
        expression=(
            "IF(FILL(duplicates, 0) + FILL(finished, 0) + FILL(failed, 0) >= 100, FILL(duplicates, "
            "0) / (FILL(duplicates, 0) + FILL(finished, 0) + FILL(failed, 0)), 0)"
        ),
        using_metrics={
            "duplicates": metrics(signals.DEDUPLICATED),
            "finished": metrics(signals.FINISHED),
            "failed": metrics(signals.FAILED),
        },
        period=PERIOD,
        label="share of duplicates",
    )


def _failure_flag(metrics: JobMetrics) -> cloudwatch.MathExpression:
    """1 if more than 5 % of the jobs failed, and at least 20: a few would be a large share."""
    failed = "FILL(failed, 0)"
    return cloudwatch.MathExpression(
        expression=(
            f"IF({failed} >= 20 AND {failed} > 0.05 * ({failed} + FILL(finished, 0)), 1, 0)"
        ),
        using_metrics={
            "finished": metrics(signals.FINISHED),
            "failed": metrics(signals.FAILED),
        },
        period=Duration.minutes(15),
        label="high failure rate",
    )


def gate_alarms(metrics: JobMetrics, providers: Iterable[AnyProvider]) -> Iterator[AlarmSpec]:
    """Alarms on what is held: one for all pauses, and one for each provider."""
    yield AlarmSpec(
        name=signals.PAUSED,
        metric=metrics(signals.PAUSED, statistic="Maximum"),
        impact=(
            "Nothing is lost. An operator paused a job type, a queue or a provider: its effects "
            "do not run until someone resumes it."
        ),
        runbook_section="paused-jobs",
        next_step="gates",
    )
    for plugin in providers:
        yield AlarmSpec(
            name=f"{signals.CIRCUIT_OPEN}{pascal_case(plugin.name)}",
            metric=metrics(signals.CIRCUIT_OPEN, statistic="Maximum", provider=plugin.name),
            impact=(
                f"No jobs are lost. {plugin.profile.name} does not respond, and its jobs wait. The "
                "metric counts the seconds."
            ),
            runbook_section="provider-does-not-respond",
            next_step="gates",
        )
