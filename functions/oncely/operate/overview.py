"""The overview of the admin page: outcomes by hour, queues, providers, and reviews by reason."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from oncely.alerts.headlines import review_cause
from oncely.aws import signals
from oncely.contracts.job import providers_of
from oncely.core.aws_errors import translated
from oncely.core.effect_outcomes import Json
from oncely.core.errors import UnavailableError
from oncely.core.lifecycle import Status
from oncely.core.profiles import EndpointGroup
from oncely.core.text import format_time
from oncely.gates.gate import (
    PROVIDER_PREFIX,
    GateSnapshot,
    gate_name,
)
from oncely.operate.job_lists import JobFilter
from oncely.operate.job_queries import MAX_PAGE_SIZE
from oncely.operate.job_view import JobView
from oncely.operate.pauses import entry_to_json, gates_to_json
from oncely.plugins.provider import AnyProvider

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_cloudwatch.type_defs import MetricDataQueryTypeDef
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.literals import QueueAttributeNameType

    from oncely.app import App


HOUR: Final = timedelta(hours=1)
# Both windows come from one request: CloudWatch bills metrics, not their values.
WINDOWS_HOURS: Final = (24, 168)
# The reviews that are read and grouped, the newest first.
MAX_REVIEWS: Final = MAX_PAGE_SIZE
# Each shows a job, and each shown job is a line of the access log.
MAX_REVIEW_GROUPS: Final = 8


class Series(StrEnum):
    """What is charted by hour. A page asks CloudWatch for one metric of each."""

    FINISHED = "finished"
    FAILED = "failed"
    UNKNOWN = "unknown"
    NEEDS_REVIEW = "needs_review"
    DUPLICATES = "duplicates"
    REJECTED = "rejected"
    DEAD_LETTERS = "dead_letters"
    OLDEST_AGE = "oldest_unresolved_seconds"  # the highest of the hour; the others are sums


@dataclass(frozen=True, kw_only=True)
class QueuedMessages:
    """The messages of a queue, as SQS estimates them."""

    queue: str
    waiting: int
    in_flight: int  # received and not yet acknowledged
    delayed: int


@dataclass(frozen=True, kw_only=True)
class MetricsView:
    """The charts: a value for each hour, the latest hour last, which is not over yet."""

    at: datetime
    hours: tuple[datetime, ...]
    values: Mapping[Series, tuple[float, ...]]

    def to_json(self) -> dict[str, Json]:
        return {
            "at": format_time(self.at),
            "hours": [format_time(one) for one in self.hours],
            "series": {name: list(self.values[name]) for name in Series},
            "windows": {f"{hours}h": self._summary(hours) for hours in WINDOWS_HOURS},
        }

    def _summary(self, hours: int) -> dict[str, Json]:
        shown = {name: self.values[name][-hours:] for name in Series}
        totals = {name: sum(values) for name, values in shown.items()}
        totals[Series.OLDEST_AGE] = max(shown[Series.OLDEST_AGE])
        ended = totals[Series.FINISHED] + totals[Series.FAILED]
        messages = ended + totals[Series.DUPLICATES]
        passed = (self.at - self.hours[-hours]) / HOUR
        return {
            "totals": {str(name): total for name, total in totals.items()},
            "ended_per_hour": ended / passed if passed else 0.0,
            # The same share as the alarm's. None without messages, because 0 would be misleading.
            "duplicate_share": totals[Series.DUPLICATES] / messages if messages else None,
        }


@dataclass(frozen=True, kw_only=True)
class ReviewGroup:
    """Jobs in review with the same cause. `newest` is the one to open first."""

    cause: str
    job_type: str
    count: int
    newest: JobView

    def to_json(self) -> dict[str, Json]:
        return {
            "cause": self.cause,
            "job_type": self.job_type,
            "count": self.count,
            "newest": self.newest.job.job_key,
            "since": format_time(self.newest.job.status_since),
        }


@dataclass(frozen=True, kw_only=True)
class OverviewState:
    """The current state. `is_partial` if more jobs in review, or more causes, exist than shown."""

    queues: tuple[QueuedMessages, ...]
    providers: tuple[dict[str, Json], ...]
    gates: GateSnapshot
    reviews: tuple[ReviewGroup, ...]
    reviews_read: int
    is_partial: bool

    def to_json(self) -> dict[str, Json]:
        held = gates_to_json(self.gates)
        return {
            "queues": [dict(vars(one)) for one in self.queues],
            "providers": list(self.providers),
            "paused": held["paused"],
            "open": held["open"],
            "reviews": [one.to_json() for one in self.reviews],
            "reviews_read": self.reviews_read,
            "reviews_partial": self.is_partial,
        }


@dataclass(frozen=True)
class Overview:
    """Reads a bounded number of metrics and items, however many jobs there are."""

    app: "App"

    def metrics(self) -> MetricsView:
        """Read the charts, in one request."""
        now = self.app.ports.clock.now().astimezone(UTC)
        last = now.replace(minute=0, second=0, microsecond=0)
        count = max(WINDOWS_HOURS)
        hours = tuple(last - HOUR * back for back in range(count - 1, -1, -1))
        found = self.app.ports.hourly_metrics.by_hour(since=hours[0], until=now)
        values = {
            name: tuple(found.get(name, {}).get(hour, 0.0) for hour in hours) for name in Series
        }
        return MetricsView(at=now, hours=hours, values=values)

    def state(self) -> OverviewState:
        """Read queues, providers and reviews."""
        snapshot = self.app.ports.gate_table.read()
        in_review = JobFilter(status=Status.NEEDS_REVIEW)
        page = self.app.job_queries.list_page(in_review, limit=MAX_REVIEWS)
        groups = _group_reviews(page.jobs)
        return OverviewState(
            queues=tuple(self.app.ports.queue_depths.depths()),
            providers=tuple(self._providers(snapshot)),
            gates=snapshot,
            reviews=groups[:MAX_REVIEW_GROUPS],
            reviews_read=len(page.jobs),
            is_partial=page.cursor is not None or len(groups) > MAX_REVIEW_GROUPS,
        )

    def _providers(self, snapshot: GateSnapshot) -> Iterator[dict[str, Json]]:
        for plugin in filter(self.app.ports.is_configured, providers_of(self.app.registry)):
            pause = snapshot.pauses.get(f"{PROVIDER_PREFIX}{plugin.name}")
            current = None if pause is None else pause.current
            yield {
                "name": plugin.profile.name,
                "paused": None if current is None else entry_to_json(current, plugin.name),
                "gates": [self._gate(plugin, group, snapshot) for group in EndpointGroup],
            }

    def _gate(self, plugin: AnyProvider, group: EndpointGroup, snapshot: GateSnapshot) -> Json:
        state = snapshot.state(gate_name(plugin.name, group))
        return {
            "group": group,
            "circuit": state.circuit(self.app.ports.clock.now()).name.lower(),
            "since": None if state.opened_at is None else format_time(state.opened_at),
            "per_second": self.app.ports.gate.rate(plugin, group),
        }


def _group_reviews(jobs: Sequence[JobView]) -> tuple[ReviewGroup, ...]:
    """Group jobs, the newest first, by type and cause. The largest group comes first."""
    by_cause: dict[tuple[str, str], list[JobView]] = {}
    for view in jobs:
        by_cause.setdefault((view.job.job_type, review_cause(view.job)), []).append(view)
    groups = (
        ReviewGroup(cause=cause, job_type=job_type, count=len(views), newest=views[0])
        for (job_type, cause), views in by_cause.items()
    )
    return tuple(sorted(groups, key=lambda one: -one.count))


_METRICS: Final[Mapping[Series, tuple[str, str]]] = {
    Series.FINISHED: (signals.FINISHED, "Sum"),
    Series.FAILED: (signals.FAILED, "Sum"),
    Series.UNKNOWN: (signals.UNKNOWN, "Sum"),
    Series.NEEDS_REVIEW: (signals.NEEDS_REVIEW, "Sum"),
    Series.DUPLICATES: (signals.DEDUPLICATED, "Sum"),
    Series.REJECTED: (signals.REJECTED, "Sum"),
    Series.DEAD_LETTERS: (signals.DEAD_LETTERS, "Sum"),
    Series.OLDEST_AGE: (signals.OLDEST_UNRESOLVED_AGE, "Maximum"),
}
_COMPLETE: Final = "Complete"


@dataclass(frozen=True)
class CloudWatchHourlyMetrics:
    """The metrics of one stack: the dimension `service` is its name."""

    client: "CloudWatchClient"
    service: str

    def by_hour(self, *, since: datetime, until: datetime) -> dict[Series, dict[datetime, float]]:
        """Return the values by the hour that they begin in. Hours without any are left out."""
        check = "that this role may call cloudwatch:GetMetricData"
        with translated("CloudWatch", name=self.service, check=check):
            answer = self.client.get_metric_data(
                MetricDataQueries=[self._query(one) for one in Series],
                StartTime=since,
                EndTime=until,
            )
        results = answer["MetricDataResults"]
        # A metric that was never emitted counts as complete.
        if any(one["StatusCode"] != _COMPLETE for one in results):
            raise UnavailableError("CloudWatch returned only some of the metrics")
        return {
            Series(one["Id"]): {
                at.astimezone(UTC): value
                for at, value in zip(one["Timestamps"], one["Values"], strict=True)
            }
            for one in results
        }

    def _query(self, series: Series) -> "MetricDataQueryTypeDef":
        name, statistic = _METRICS[series]
        return {
            "Id": series.value,
            "MetricStat": {
                "Metric": {
                    "Namespace": signals.NAMESPACE,
                    "MetricName": name,
                    "Dimensions": [{"Name": "service", "Value": self.service}],
                },
                "Period": int(HOUR.total_seconds()),
                "Stat": statistic,
            },
        }


_WAITING: Final = "ApproximateNumberOfMessages"
_IN_FLIGHT: Final = "ApproximateNumberOfMessagesNotVisible"
_DELAYED: Final = "ApproximateNumberOfMessagesDelayed"
_NAMES: "Final[tuple[QueueAttributeNameType, ...]]" = (_WAITING, _IN_FLIGHT, _DELAYED)


@dataclass(frozen=True)
class SqsQueueDepths:
    """Asks SQS, one request per queue: cheaper than CloudWatch, and without its delay."""

    client: "SQSClient"
    queue_urls: Mapping[str, str]  # by short name

    def depths(self) -> list[QueuedMessages]:
        """Return the depth of each queue of the jobs, of the dead letters and of the rejects."""
        return [self._depth(name, url) for name, url in self.queue_urls.items()]

    def _depth(self, name: str, url: str) -> QueuedMessages:
        check = "that this role may call sqs:GetQueueAttributes"
        with translated(f"the queue {name}", name=url, check=check):
            found = self.client.get_queue_attributes(QueueUrl=url, AttributeNames=_NAMES)
        numbers = found["Attributes"]
        return QueuedMessages(
            queue=name,
            waiting=int(numbers[_WAITING]),
            in_flight=int(numbers[_IN_FLIGHT]),
            delayed=int(numbers[_DELAYED]),
        )
