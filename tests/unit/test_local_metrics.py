"""The local runner forwards what the functions emit, so that local charts are real."""

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from oncely.aws import signals
from oncely.handlers.telemetry import Telemetry
from oncely_local.metrics import EMBEDDED, MetricForwarder, parse_metrics


def embedded(values: object) -> str:
    directive = {
        "Namespace": "Oncely",
        "Dimensions": [["service"]],
        "Metrics": [{"Name": "Finished", "Unit": "Count"}],
    }
    aws = {"Timestamp": 1_700_000_000_000, "CloudWatchMetrics": [directive]}
    return json.dumps({"_aws": aws, "service": "Oncely-local", "Finished": values})


def test_line_of_the_functions_is_forwarded(capsys: pytest.CaptureFixture[str]) -> None:
    telemetry = Telemetry.create()
    telemetry.metrics.clear_metrics()
    telemetry.resolve_failures_counted(failed_count=2)
    telemetry.resolve_failures_counted(failed_count=3)
    telemetry.metrics.flush_metrics()
    (line,) = capsys.readouterr().out.splitlines()

    assert EMBEDDED in line
    ((namespace, datum),) = parse_metrics(line)
    assert (namespace, datum["MetricName"]) == (signals.NAMESPACE, signals.RESOLVE_FAILED)
    assert (datum["Values"], datum["Unit"]) == ([2.0, 3.0], "Count")
    assert datum["Dimensions"] == [{"Name": "service", "Value": telemetry.metrics.service}]
    assert abs((datum["Timestamp"] - datetime.now(UTC)).total_seconds()) < 60


@pytest.mark.parametrize(("values", "sizes"), [(1.0, [1]), ([1.0] * 151, [150, 1])])
def test_datum_has_no_more_values_than_cloudwatch_takes(values: object, sizes: list[int]) -> None:
    assert [len(datum["Values"]) for _, datum in parse_metrics(embedded(values))] == sizes


def test_each_metric_is_sent_once() -> None:
    calls: list[Any] = []
    client = SimpleNamespace(put_metric_data=lambda **call: calls.append(call))
    account: Any = SimpleNamespace(client=lambda _: client)
    forwarder = MetricForwarder(account)

    forwarder.add(embedded([1.0]))
    forwarder.flush()
    forwarder.flush()

    ((namespace, data),) = [(one["Namespace"], one["MetricData"]) for one in calls]
    assert (namespace, data[0]["Timestamp"]) == (
        "Oncely",
        datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
    )
