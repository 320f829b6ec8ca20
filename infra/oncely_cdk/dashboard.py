"""The dashboard: outcomes, duplicates, latency and queue depth on one page."""

from collections.abc import Mapping, Sequence

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from oncely.aws import signals
from oncely.aws.signals import DuplicateReason
from oncely_cdk.alarms import PERIOD, JobMetrics

HALF_WIDTH = 12
WIDGET_HEIGHT = 7
_OUTCOMES = (
    *(signals.FINISHED, signals.FAILED, signals.UNKNOWN),
    *(signals.NEEDS_REVIEW, signals.NOTHING_SENT, signals.REJECTED),
)
_PROBLEMS = (
    *(signals.NEEDS_REVIEW, signals.PROVIDER_UNREACHABLE, signals.CREDENTIALS_REJECTED),
    *(signals.DEAD_LETTERS, signals.PUBLISH_FAILED, signals.PROCESSING_ERROR),
)


class Dashboard(Construct):
    """An overview of the stack for operators."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        metrics: JobMetrics,
        workers: Mapping[str, lambda_.Function],
        queues: Mapping[str, sqs.Queue],
        machine: sfn.StateMachine,
    ) -> None:
        super().__init__(scope, id_)
        board = cloudwatch.Dashboard(self, "Dashboard")
        board.add_widgets(
            _graph("Outcomes", [metrics(name) for name in _OUTCOMES], stacked=True),
            _graph(
                "Duplicates by reason",
                [metrics(signals.DEDUPLICATED, reason=str(reason)) for reason in DuplicateReason],
                stacked=True,
            ),
        )
        board.add_widgets(
            _graph("Batch duration (ms)", _duration_metrics(workers)),
            _graph(
                "Age of the oldest unresolved job (s)",
                [metrics(signals.OLDEST_UNRESOLVED_AGE, statistic="Maximum")],
            ),
        )
        board.add_widgets(
            _graph("Messages waiting", _depth_metrics(queues), stacked=True),
            _graph("Age of the oldest message (s)", _age_metrics(queues)),
        )
        board.add_widgets(
            _graph("Problems", [metrics(name) for name in _PROBLEMS]),
            _graph("Reconciler", _sweep_metrics(metrics, machine)),
        )


def _graph(
    title: str, metrics: Sequence[cloudwatch.IMetric], *, stacked: bool = False
) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(
        title=title,
        left=list(metrics),
        stacked=stacked,
        width=HALF_WIDTH,
        height=WIDGET_HEIGHT,
        period=PERIOD,
    )


def _duration_metrics(workers: Mapping[str, lambda_.Function]) -> list[cloudwatch.IMetric]:
    return [
        worker.metric_duration(period=PERIOD, statistic=statistic, label=f"{name} {statistic}")
        for name, worker in workers.items()
        for statistic in ("p50", "p99")
    ]


def _depth_metrics(queues: Mapping[str, sqs.Queue]) -> list[cloudwatch.IMetric]:
    return [
        queue.metric_approximate_number_of_messages_visible(
            period=PERIOD, statistic="Maximum", label=name
        )
        for name, queue in queues.items()
    ]


def _age_metrics(queues: Mapping[str, sqs.Queue]) -> list[cloudwatch.IMetric]:
    return [
        queue.metric_approximate_age_of_oldest_message(
            period=PERIOD, statistic="Maximum", label=name
        )
        for name, queue in queues.items()
    ]


def _sweep_metrics(metrics: JobMetrics, machine: sfn.StateMachine) -> list[cloudwatch.IMetric]:
    return [
        machine.metric_succeeded(period=PERIOD, statistic="Sum", label="sweeps"),
        machine.metric_failed(period=PERIOD, statistic="Sum", label="failed sweeps"),
        metrics(signals.RESOLVED),
    ]
