"""What people are woken for: each alarm's metric, its limit, what it means, where to read on."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn

from oncely import signals
from oncely.settings import pascal_case
from oncely_cdk.metrics import PERIOD, JobMetrics


@dataclass(frozen=True, kw_only=True)
class AlarmSpec:
    """One alarm; `section` is the heading of the runbook that says what to do.

    `begin` is the `oncely` command of that section which shows what is wrong.
    """

    name: str
    metric: cloudwatch.IMetric
    threshold: float
    description: str
    runbook_section: str
    first_command: str = "doctor"
    evaluation_periods: int = 1
    datapoints_to_alarm: int | None = None
    missing_data_breaches: bool = field(default=False)  # no data at all is as bad as too much


def job_alarms(metrics: JobMetrics) -> Iterator[AlarmSpec]:
    """What the functions say about jobs."""
    yield AlarmSpec(
        name="OldestUnresolved",
        metric=metrics(signals.OLDEST_UNRESOLVED_AGE, statistic="Maximum"),
        threshold=Duration.minutes(30).to_seconds(),
        evaluation_periods=2,
        description="A job has been without an outcome for half an hour.",
        runbook_section="a-job-has-no-outcome",
        first_command="list --status in_progress",
    )
    yield AlarmSpec(
        name="NeedsReview",
        metric=metrics(signals.NEEDS_REVIEW),
        threshold=1,
        description="No rule may decide about a job: a person must.",
        runbook_section="a-job-needs-review",
        first_command="list --status needs_review",
    )
    yield AlarmSpec(
        name="Deduplications",
        metric=_duplicate_share(metrics),
        threshold=0.5,
        evaluation_periods=3,
        datapoints_to_alarm=2,
        description=(
            "Every second message is a repetition: a producer sends again and again. "
            "No job runs twice by this; it costs, and something is wrong over there."
        ),
        runbook_section="many-repetitions",
    )
    for name in (signals.PROVIDER_UNREACHABLE, signals.NOTHING_SENT):
        yield AlarmSpec(
            name=name,
            metric=metrics(name),
            threshold=10,
            evaluation_periods=3,
            datapoints_to_alarm=2,
            description="A provider does not answer. Jobs wait for it; nothing is lost.",
            runbook_section="a-provider-is-unreachable",
            first_command="list --status in_progress",
        )
    yield AlarmSpec(
        name="ProviderRefusesUs",
        metric=metrics(signals.CREDENTIALS_REJECTED),
        threshold=1,
        description=(
            "A provider turns our requests away: it rejects our API key or our account's settings, "
            "or a daily limit is used up. Nothing was sent, and its jobs wait."
        ),
        runbook_section="a-provider-refuses-our-key",
    )
    yield AlarmSpec(
        name=signals.TABLE_BLOCKED,
        metric=metrics(signals.TABLE_BLOCKED),
        threshold=1,
        description=(
            "No job runs: the job table may not hold the proofs of what has run. It was restored, "
            "copied or emptied, a setting names another table, or its stream, TTL or "
            "point-in-time recovery is off. Nothing was sent, and messages wait."
        ),
        runbook_section="the-job-table-is-refused",
    )
    for name in (signals.PROCESSING_ERROR, signals.ACK_FAILED, signals.PUBLISH_FAILED):
        yield AlarmSpec(
            name=name,
            metric=metrics(name),
            threshold=1,
            evaluation_periods=2,
            description=(
                "Something happened that the code does not foresee; the logs hold its trace."
            ),
            runbook_section="something-unforeseen",
        )

    yield AlarmSpec(
        name=signals.SWEEP_FINISHED,
        metric=metrics(signals.SWEEP_FINISHED, statistic="Maximum"),
        threshold=Duration.minutes(15).to_seconds(),
        evaluation_periods=2,
        missing_data_breaches=True,
        description=(
            "No sweep of the reconciler has come to its end for ten minutes, or one took a quarter "
            "of an hour: unknown jobs stay unknown."
        ),
        runbook_section="the-reconciler-fails",
    )
    yield AlarmSpec(
        name=signals.RESOLVE_FAILED,
        metric=metrics(signals.RESOLVE_FAILED),
        threshold=1,
        evaluation_periods=3,
        datapoints_to_alarm=2,
        description="Again and again the reconciler cannot look at some job.",
        runbook_section="the-reconciler-cannot-look-at-a-job",
        first_command="reconcile --dry-run",
    )
    yield AlarmSpec(
        name=signals.ALERT_FAILED,
        metric=metrics(signals.ALERT_FAILED),
        threshold=1,
        evaluation_periods=2,
        description="An alert could not be delivered. Its job stays due until somebody was told.",
        runbook_section="an-alert-is-not-delivered",
    )


def queue_alarms(
    *,
    jobs: Mapping[str, sqs.Queue],
    dead_letters: sqs.Queue,
    rejects: sqs.Queue,
    missed: sqs.Queue,
) -> Iterator[AlarmSpec]:
    """What the queues say."""
    yield AlarmSpec(
        name="DeadLetterHandler",
        metric=dead_letters.metric_number_of_messages_received(period=PERIOD, statistic="Sum"),
        threshold=1,
        description="A message was delivered too often without an end; its row carries the job on.",
        runbook_section="dead-letters",
        first_command="redrive --dry-run",
    )
    yield AlarmSpec(
        name="Rejects",
        metric=rejects.metric_number_of_messages_sent(period=PERIOD, statistic="Sum"),
        threshold=1,
        description="A message is not valid, or contradicts a job that ran; it is in the archive.",
        runbook_section="rejects",
    )
    yield AlarmSpec(
        name="MissedByTheStream",
        metric=missed.metric_approximate_number_of_messages_visible(
            period=PERIOD, statistic="Maximum"
        ),
        threshold=1,
        description="The stream gave up on ended jobs; the reconciler publishes them instead.",
        runbook_section="missed-by-the-stream",
    )
    for name, queue in {**jobs, "dead_letters": dead_letters, "rejects": rejects}.items():
        yield AlarmSpec(
            name=f"OldestMessage{pascal_case(name)}",
            metric=queue.metric_approximate_age_of_oldest_message(
                period=PERIOD, statistic="Maximum"
            ),
            threshold=Duration.minutes(30).to_seconds(),
            description=f"A message has been in the queue {name!r} for half an hour.",
            runbook_section="messages-wait",
        )


def reconciler_alarms(machine: sfn.StateMachine) -> Iterator[AlarmSpec]:
    """What the state machine says."""
    minute = Duration.minutes(1)
    ends = {
        "FailedSweeps": machine.metric_failed(period=minute, statistic="Sum"),
        "EndlessSweeps": machine.metric_timed_out(period=minute, statistic="Sum"),
    }
    for name, metric in ends.items():
        yield AlarmSpec(
            name=name,
            metric=metric,
            threshold=1,
            evaluation_periods=5,
            datapoints_to_alarm=3,
            description="The reconciler fails again and again: unknown jobs stay unknown.",
            runbook_section="the-reconciler-fails",
        )


def history_alarms(writer: lambda_.Function, *, gaps: sqs.Queue) -> Iterator[AlarmSpec]:
    """What the stream and its consumer say about the history."""
    yield AlarmSpec(
        name="HistoryGap",
        metric=gaps.metric_number_of_messages_sent(period=PERIOD, statistic="Sum"),
        threshold=1,
        description=(
            "Changes of jobs are missing from the history; the rows have them. "
            "No job is affected, but a restore is refused until the gap is closed."
        ),
        runbook_section="the-history-has-a-gap",
        first_command="archive gaps",
    )
    yield AlarmSpec(
        name="HistoryBehind",
        metric=writer.metric("IteratorAge", period=PERIOD, statistic="Maximum"),
        threshold=Duration.hours(12).to_milliseconds(),
        description=(
            "The history is 12 hours behind; no job is affected. "
            "In 10 hours its oldest changes are given up and leave a gap."
        ),
        runbook_section="the-history-is-behind",
    )


def _duplicate_share(metrics: JobMetrics) -> cloudwatch.MathExpression:
    """Of some hundred messages; of three, two repetitions mean nothing."""
    return cloudwatch.MathExpression(
        expression=(
            "IF(FILL(again, 0) + FILL(done, 0) + FILL(refused, 0) >= 100, "
            "FILL(again, 0) / (FILL(again, 0) + FILL(done, 0) + FILL(refused, 0)), 0)"
        ),
        using_metrics={
            "again": metrics(signals.DEDUPLICATED),
            "done": metrics(signals.FINISHED),
            "refused": metrics(signals.FAILED),
        },
        period=PERIOD,
        label="share of repetitions",
    )
