"""The dashboard: outcomes, repetitions, latency, queue depth, on one page."""

from collections.abc import Mapping, Sequence

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.metrics import PERIOD, Emitted
from oncely import signals
from oncely.services.outcomes import Same

HALF = 12
HEIGHT = 7


class Dashboard(Construct):
    """What a person looks at first."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        emitted: Emitted,
        workers: Mapping[str, lambda_.Function],
        queues: Mapping[str, sqs.Queue],
        machine: sfn.StateMachine,
    ) -> None:
        super().__init__(scope, id_)
        board = cloudwatch.Dashboard(self, "Dashboard")
        board.add_widgets(
            _graph("Outcomes", _outcomes(emitted), stacked=True), _repetitions(emitted)
        )
        board.add_widgets(
            _graph("How long a batch of jobs takes (ms)", _durations(workers)),
            _graph("How old the oldest unresolved job is (s)", _oldest(emitted)),
        )
        board.add_widgets(
            _graph("Messages waiting", _depths(queues), stacked=True),
            _graph("How long the oldest message has waited (s)", _ages(queues)),
        )
        board.add_widgets(
            _graph("What needs someone", _troubles(emitted)),
            _graph("Reconciler", _sweeps(emitted, machine)),
        )


def _graph(
    title: str, metrics: Sequence[cloudwatch.IMetric], *, stacked: bool = False
) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(
        title=title, left=list(metrics), stacked=stacked, width=HALF, height=HEIGHT, period=PERIOD
    )


def _outcomes(emitted: Emitted) -> list[cloudwatch.IMetric]:
    names = (
        *(signals.FINISHED, signals.FAILED, signals.UNKNOWN),
        *(signals.NEEDS_REVIEW, signals.NOTHING_SENT, signals.REJECTED),
    )
    return [emitted(name) for name in names]


def _repetitions(emitted: Emitted) -> cloudwatch.GraphWidget:
    by_reason = [emitted(signals.DEDUPLICATED, reason=str(same)) for same in Same]
    return _graph("Repetitions, answered without running again", by_reason, stacked=True)


def _durations(workers: Mapping[str, lambda_.Function]) -> list[cloudwatch.IMetric]:
    return [
        worker.metric_duration(period=PERIOD, statistic=statistic, label=f"{name} {statistic}")
        for name, worker in workers.items()
        for statistic in ("p50", "p99")
    ]


def _oldest(emitted: Emitted) -> list[cloudwatch.IMetric]:
    return [emitted(signals.OLDEST_UNRESOLVED_AGE, statistic="Maximum")]


def _depths(queues: Mapping[str, sqs.Queue]) -> list[cloudwatch.IMetric]:
    return [
        queue.metric_approximate_number_of_messages_visible(
            period=PERIOD, statistic="Maximum", label=name
        )
        for name, queue in queues.items()
    ]


def _ages(queues: Mapping[str, sqs.Queue]) -> list[cloudwatch.IMetric]:
    return [
        queue.metric_approximate_age_of_oldest_message(
            period=PERIOD, statistic="Maximum", label=name
        )
        for name, queue in queues.items()
    ]


def _troubles(emitted: Emitted) -> list[cloudwatch.IMetric]:
    names = (
        *(signals.NEEDS_REVIEW, signals.PROVIDER_UNREACHABLE, signals.PROVIDER_REFUSES_US),
        *(signals.DEAD_LETTERS, signals.NOT_PUBLISHED, signals.BROKEN),
    )
    return [emitted(name) for name in names]


def _sweeps(emitted: Emitted, machine: sfn.StateMachine) -> list[cloudwatch.IMetric]:
    return [
        machine.metric_succeeded(period=PERIOD, statistic="Sum", label="sweeps"),
        machine.metric_failed(period=PERIOD, statistic="Sum", label="failed sweeps"),
        emitted(signals.RESOLVED),
    ]
