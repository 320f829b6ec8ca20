"""What the reconciler's steps count: alerts that were not delivered, jobs nobody could look at."""

import json
from collections.abc import Callable

import pytest

from oncely import signals
from oncely.domain.errors import UnavailableError
from oncely.domain.keys import JobKey
from oncely.services.reconcile import Resolution
from oncely.services.tell import Telling
from oncely.telemetry import Telemetry

KEY = JobKey("payment.charge:order_18452")
Counted = Callable[[str], list[float]]


@pytest.fixture
def made() -> Telemetry:
    return Telemetry.create()


@pytest.fixture
def counted(made: Telemetry, capsys: pytest.CaptureFixture[str]) -> Counted:
    """The values that were given to a metric."""

    def values(metric: str) -> list[float]:
        made.metrics.flush_metrics(raise_on_empty_metrics=False)
        lines = capsys.readouterr().out.splitlines()
        blobs = [json.loads(line) for line in lines if metric in line]
        return [value for blob in blobs for value in blob[metric]]

    return values


@pytest.mark.filterwarnings("ignore:No application metrics to publish")  # that is asserted here
@pytest.mark.parametrize("telling", Telling)
def test_only_undelivered_alert_is_counted(
    telling: Telling, made: Telemetry, counted: Counted
) -> None:
    made.told_of(KEY, telling)

    assert counted(signals.NOT_TOLD) == ([1.0] if telling is Telling.LATER else [])


def test_reconciler_logs_mask_email_addresses(
    made: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    said = "not verified: ada@example.com"
    made.resolved(Resolution(key=KEY, outcome="needs_review", reason=said), dry_run=True)
    made.not_published(KEY, UnavailableError(said))
    made.could_not_look(said)

    told = str([vars(record) for record in caplog.records])
    assert told.count("not verified: a***@example.com") == 3
    assert "ada@" not in told


def test_sweep_counts_jobs_that_failed_to_resolve(made: Telemetry, counted: Counted) -> None:
    made.swept(not_looked_at=3)

    assert counted(signals.NOT_LOOKED_AT) == [3.0]
