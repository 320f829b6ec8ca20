"""What the reconciler counts: undelivered alerts, and jobs that failed to resolve."""

import json
from collections.abc import Callable

import pytest

from oncely.alerts.budget import AlertDelivery
from oncely.aws import signals
from oncely.core.errors import UnavailableError
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.handlers.telemetry import Telemetry
from oncely.reconcile.reconciler import Resolution

KEY = JobKey("payment.charge:order_18452")
MetricValues = Callable[[str], list[float]]


@pytest.fixture
def telemetry() -> Telemetry:
    created = Telemetry.create()
    created.metrics.clear_metrics()  # another test of this process may have counted something
    return created


@pytest.fixture
def metric_values(telemetry: Telemetry, capsys: pytest.CaptureFixture[str]) -> MetricValues:
    def values(metric: str) -> list[float]:
        telemetry.metrics.flush_metrics(raise_on_empty_metrics=False)
        lines = capsys.readouterr().out.splitlines()
        blobs = [json.loads(line) for line in lines if "_aws" in line]
        return [value for blob in blobs for value in blob.get(metric, [])]

    return values


@pytest.mark.filterwarnings("ignore:No application metrics to publish")  # that is asserted here
@pytest.mark.parametrize("delivery", AlertDelivery)
def test_only_undelivered_alert_is_counted(
    delivery: AlertDelivery, telemetry: Telemetry, metric_values: MetricValues
) -> None:
    telemetry.alert_attempted(KEY, delivery)
    assert metric_values(signals.ALERT_FAILED) == (
        [1.0] if delivery is AlertDelivery.FAILED else []
    )


def test_reconciler_logs_mask_email(telemetry: Telemetry, caplog: pytest.LogCaptureFixture) -> None:
    reason = "not verified: ada@example.com"
    telemetry.job_resolved(Resolution(key=KEY, outcome="needs_review", reason=reason), dry_run=True)
    telemetry.publish_failed(KEY, UnavailableError(reason))
    telemetry.missing_job_scan_failed(reason)

    logged = str([vars(record) for record in caplog.records])
    assert logged.count("not verified: a***@example.com") == 3
    assert "ada@" not in logged


@pytest.mark.parametrize(
    ("change", "metric"),
    [
        ((Status.UNKNOWN, Status.FINISHED), signals.FINISHED),
        ((Status.STARTED, Status.FAILED), signals.FAILED),
        ((Status.UNKNOWN, Status.NEEDS_REVIEW), signals.NEEDS_REVIEW),
    ],
)
@pytest.mark.parametrize("dry_run", [False, True])
def test_resolved_job_counts_as_its_outcome(
    change: tuple[Status, Status],
    metric: str,
    telemetry: Telemetry,
    metric_values: MetricValues,
    *,
    dry_run: bool,
) -> None:
    before, after = change
    for status in (before, after):  # the second one is at its end already
        resolution = Resolution(key=KEY, outcome="", from_status=status, to_status=after)
        telemetry.job_resolved(resolution, dry_run=dry_run)
    assert metric_values(metric) == ([] if dry_run else [1.0])


def test_sweep_counts_unresolved_jobs(telemetry: Telemetry, metric_values: MetricValues) -> None:
    telemetry.resolve_failures_counted(failed_count=3)
    assert metric_values(signals.RESOLVE_FAILED) == [3.0]
