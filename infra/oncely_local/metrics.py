"""Forwards the functions' embedded metrics to the local CloudWatch, which does not read logs."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from oncely_local.account import LocalAccount

# In the first field of such a line.
EMBEDDED: Final = '"_aws"'
_MAX_DATA: Final = 500  # PutMetricData takes 1,000 metrics
_MAX_VALUES: Final = 150  # and so many values of each


@dataclass
class MetricForwarder:
    """Collects embedded metrics, and sends them on request."""

    account: LocalAccount
    _waiting: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # by namespace

    def add(self, message: str) -> None:
        for namespace, datum in parse_metrics(message):
            self._waiting.setdefault(namespace, []).append(datum)

    def flush(self) -> None:
        cloudwatch = self.account.client("cloudwatch")
        for namespace, data in self._waiting.items():
            for first in range(0, len(data), _MAX_DATA):
                batch = data[first : first + _MAX_DATA]
                cloudwatch.put_metric_data(Namespace=namespace, MetricData=batch)
        self._waiting.clear()


def parse_metrics(message: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The namespace and data of a log line in CloudWatch's embedded metric format."""
    line = json.loads(message)
    at = datetime.fromtimestamp(line["_aws"]["Timestamp"] / 1000, tz=UTC)
    for directive in line["_aws"]["CloudWatchMetrics"]:
        for names in directive["Dimensions"]:
            dimensions = [{"Name": name, "Value": str(line[name])} for name in names]
            for metric in directive["Metrics"]:
                found = line[metric["Name"]]
                values = found if isinstance(found, list) else [found]
                for first in range(0, len(values), _MAX_VALUES):
                    yield (
                        directive["Namespace"],
                        {
                            "MetricName": metric["Name"],
                            "Dimensions": dimensions,
                            "Timestamp": at,
                            "Unit": metric.get("Unit", "None"),
                            "Values": values[first : first + _MAX_VALUES],
                        },
                    )
