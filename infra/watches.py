"""What people are woken for: each alarm's metric, its limit, what it means, where to read on."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn

from infra.metrics import PERIOD, Emitted
from oncely import signals
from oncely.settings import camel


@dataclass(frozen=True, kw_only=True)
class Watch:
    """One alarm; `section` is the heading of the runbook that says what to do.

    `begin` is the `oncely` command of that section which shows what is wrong.
    """

    name: str
    metric: cloudwatch.IMetric
    at_least: float
    meaning: str
    section: str
    begin: str = "doctor"
    periods: int = 1
    of_which: int | None = None
    silence_is_bad: bool = field(default=False)  # no data at all is as bad as too much


def about_jobs(emitted: Emitted) -> Iterator[Watch]:
    """What the functions say about jobs."""
    yield Watch(
        name="OldestUnresolved",
        metric=emitted(signals.OLDEST_UNRESOLVED_AGE, statistic="Maximum"),
        at_least=Duration.minutes(30).to_seconds(),
        periods=2,
        meaning="A job has been without an outcome for half an hour.",
        section="a-job-has-no-outcome",
        begin="list --status in_progress",
    )
    yield Watch(
        name="NeedsReview",
        metric=emitted(signals.NEEDS_REVIEW),
        at_least=1,
        meaning="No rule may decide about a job: a person must.",
        section="a-job-needs-review",
        begin="list --status needs_review",
    )
    yield Watch(
        name="Deduplications",
        metric=_share_of_repetitions(emitted),
        at_least=0.5,
        periods=3,
        of_which=2,
        meaning=(
            "Every second message is a repetition: a producer sends again and again. "
            "No job runs twice by this; it costs, and something is wrong over there."
        ),
        section="many-repetitions",
    )
    for name in (signals.PROVIDER_UNREACHABLE, signals.NOTHING_SENT):
        yield Watch(
            name=name,
            metric=emitted(name),
            at_least=10,
            periods=3,
            of_which=2,
            meaning="A provider does not answer. Jobs wait for it; nothing is lost.",
            section="a-provider-is-unreachable",
            begin="list --status in_progress",
        )
    yield Watch(
        name="ProviderRefusesUs",
        metric=emitted(signals.PROVIDER_REFUSES_US),
        at_least=1,
        meaning=(
            "A provider turns our requests away: it rejects our API key or our account's settings, "
            "or a daily limit is used up. Nothing was sent, and its jobs wait."
        ),
        section="a-provider-refuses-our-key",
    )
    yield Watch(
        name=signals.TABLE_REFUSED,
        metric=emitted(signals.TABLE_REFUSED),
        at_least=1,
        meaning=(
            "No job runs: the job table may not hold the proofs of what has run. It was restored, "
            "copied or emptied, a setting names another table, or its stream, TTL or "
            "point-in-time recovery is off. Nothing was sent, and messages wait."
        ),
        section="the-job-table-is-refused",
    )
    for name in (signals.BROKEN, signals.REPLY_FAILED, signals.NOT_PUBLISHED):
        yield Watch(
            name=name,
            metric=emitted(name),
            at_least=1,
            periods=2,
            meaning="Something happened that the code does not foresee; the logs hold its trace.",
            section="something-unforeseen",
        )

    yield Watch(
        name=signals.SWEEP_DONE,
        metric=emitted(signals.SWEEP_DONE, statistic="Maximum"),
        at_least=Duration.minutes(15).to_seconds(),
        periods=2,
        silence_is_bad=True,
        meaning=(
            "No sweep of the reconciler has come to its end for ten minutes, or one took a quarter "
            "of an hour: unknown jobs stay unknown."
        ),
        section="the-reconciler-fails",
    )
    yield Watch(
        name=signals.NOT_LOOKED_AT,
        metric=emitted(signals.NOT_LOOKED_AT),
        at_least=1,
        periods=3,
        of_which=2,
        meaning="Again and again the reconciler cannot look at some job.",
        section="the-reconciler-cannot-look-at-a-job",
        begin="reconcile --dry-run",
    )
    yield Watch(
        name=signals.NOT_TOLD,
        metric=emitted(signals.NOT_TOLD),
        at_least=1,
        periods=2,
        meaning="An alert could not be delivered. Its job stays due until somebody was told.",
        section="an-alert-is-not-delivered",
    )


def about_queues(
    *,
    jobs: Mapping[str, sqs.Queue],
    dead_letters: sqs.Queue,
    rejects: sqs.Queue,
    missed: sqs.Queue,
) -> Iterator[Watch]:
    """What the queues say."""
    yield Watch(
        name="DeadLetters",
        metric=dead_letters.metric_number_of_messages_received(period=PERIOD, statistic="Sum"),
        at_least=1,
        meaning="A message was delivered too often without an end; its row carries the job on.",
        section="dead-letters",
        begin="redrive --dry-run",
    )
    yield Watch(
        name="Rejects",
        metric=rejects.metric_number_of_messages_sent(period=PERIOD, statistic="Sum"),
        at_least=1,
        meaning="A message is not valid, or contradicts a job that ran; it is in the archive.",
        section="rejects",
    )
    yield Watch(
        name="MissedByTheStream",
        metric=missed.metric_approximate_number_of_messages_visible(
            period=PERIOD, statistic="Maximum"
        ),
        at_least=1,
        meaning="The stream gave up on ended jobs; the reconciler publishes them instead.",
        section="missed-by-the-stream",
    )
    for name, queue in {**jobs, "dead_letters": dead_letters, "rejects": rejects}.items():
        yield Watch(
            name=f"OldestMessage{camel(name)}",
            metric=queue.metric_approximate_age_of_oldest_message(
                period=PERIOD, statistic="Maximum"
            ),
            at_least=Duration.minutes(30).to_seconds(),
            meaning=f"A message has been in the queue {name!r} for half an hour.",
            section="messages-wait",
        )


def about_the_reconciler(machine: sfn.StateMachine) -> Iterator[Watch]:
    """What the state machine says."""
    minute = Duration.minutes(1)
    ends = {
        "FailedSweeps": machine.metric_failed(period=minute, statistic="Sum"),
        "EndlessSweeps": machine.metric_timed_out(period=minute, statistic="Sum"),
    }
    for name, metric in ends.items():
        yield Watch(
            name=name,
            metric=metric,
            at_least=1,
            periods=5,
            of_which=3,
            meaning="The reconciler fails again and again: unknown jobs stay unknown.",
            section="the-reconciler-fails",
        )


def about_the_history(writer: lambda_.Function, *, gaps: sqs.Queue) -> Iterator[Watch]:
    """What the stream and its consumer say about the history."""
    yield Watch(
        name="HistoryGap",
        metric=gaps.metric_number_of_messages_sent(period=PERIOD, statistic="Sum"),
        at_least=1,
        meaning=(
            "Changes of jobs are missing from the history; the rows have them. "
            "No job is affected, but a restore is refused until the gap is closed."
        ),
        section="the-history-has-a-gap",
        begin="archive gaps",
    )
    yield Watch(
        name="HistoryBehind",
        metric=writer.metric("IteratorAge", period=PERIOD, statistic="Maximum"),
        at_least=Duration.hours(12).to_milliseconds(),
        meaning=(
            "The history is 12 hours behind; no job is affected. "
            "In 10 hours its oldest changes are given up and leave a gap."
        ),
        section="the-history-is-behind",
    )


def _share_of_repetitions(emitted: Emitted) -> cloudwatch.MathExpression:
    """Of some hundred messages; of three, two repetitions mean nothing."""
    return cloudwatch.MathExpression(
        expression=(
            "IF(FILL(again, 0) + FILL(done, 0) + FILL(refused, 0) >= 100, "
            "FILL(again, 0) / (FILL(again, 0) + FILL(done, 0) + FILL(refused, 0)), 0)"
        ),
        using_metrics={
            "again": emitted(signals.DEDUPLICATED),
            "done": emitted(signals.FINISHED),
            "refused": emitted(signals.FAILED),
        },
        period=PERIOD,
        label="share of repetitions",
    )
