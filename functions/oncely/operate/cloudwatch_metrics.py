"""Reads our own metrics from CloudWatch, all of them in one request."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from oncely.aws import signals
from oncely.core.aws_errors import translated
from oncely.core.errors import UnavailableError
from oncely.operate.overview import HOUR, Series

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_cloudwatch.type_defs import MetricDataQueryTypeDef

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
