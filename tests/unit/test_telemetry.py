"""Logs and metrics: each delivery is told once, and a repetition is neither success nor failure."""

import io
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, get_args

import pytest

from oncely import signals, telemetry
from oncely.services.outcomes import Broken, Conflict, NothingSent, Outcome, Same
from oncely.services.replies import Ack
from oncely.services.work_batch import Delivery, Worked
from oncely.signals import told
from oncely.telemetry import Telemetry
from tests.unit.samples import KEY, OUTCOMES

BY_NAME = {type(outcome).__name__: outcome for outcome in OUTCOMES}
DELIVERY = Delivery(message_id="m-1", body="{}", receipt="r-1", receives=2)


@dataclass(frozen=True)
class Told:
    logs: list[dict[str, Any]]
    metrics: list[dict[str, Any]]

    def counted(self, metric: str) -> list[str | None]:
        """The reason of each count of a metric; None for the plain one."""
        return [blob.get("reason") for blob in self.metrics if metric in blob]


Tell = Callable[..., Told]


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Tell:
    """Record one delivery, and read what Powertools printed."""
    made = Telemetry.create()
    (handler,) = made.logger.handlers
    assert isinstance(handler, logging.StreamHandler)

    def recorded(outcome: Outcome, **more: Exception) -> Told:
        # A logger of this name is made once per process, with the stream of that time.
        handler.stream = lines = io.StringIO()
        worked = Worked(delivery=DELIVERY, outcome=outcome, reply=Ack(), acked=True, **more)
        made.record([worked])
        made.metrics.flush_metrics()
        return Told(logs=_json(lines.getvalue()), metrics=_json(capsys.readouterr().out))

    return recorded


def _json(lines: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines.splitlines()]


def test_every_outcome_has_event_and_metric() -> None:
    assert {type(outcome) for outcome in OUTCOMES} == set(get_args(Outcome))
    assert all(told(outcome).event and told(outcome).metric for outcome in OUTCOMES)


def test_only_duplicate_outcomes_share_metric() -> None:
    repeated = {"Duplicate", "HeldElsewhere", "Parked", "Conflict"}

    metrics = [told(outcome).metric for name, outcome in BY_NAME.items() if name not in repeated]

    assert {told(BY_NAME[name]).metric for name in repeated} == {signals.DEDUPLICATED}
    assert len({*metrics, signals.DEDUPLICATED}) == len(metrics) + 1


@pytest.mark.parametrize("name", BY_NAME)
def test_each_delivery_is_one_log_line_that_can_be_searched(name: str, tell: Tell) -> None:
    outcome = BY_NAME[name]

    (line,) = tell(outcome).logs

    assert line["message"] == told(outcome).event
    assert line["level"] == told(outcome).level.upper()
    assert (line["message_id"], line["receives"], line["reply"]) == ("m-1", 2, "Ack")
    assert line.get("job_key") == (KEY if hasattr(outcome, "job_key") else None)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Duplicate", Same.FINISHED),
        ("HeldElsewhere", Same.IN_PROGRESS),
        ("Parked", Same.IN_PROGRESS),
        ("Conflict", Same.CONFLICT),
    ],
)
def test_duplicate_has_own_event_and_metric_with_reason(
    name: str, reason: Same, tell: Tell
) -> None:
    said = tell(BY_NAME[name])

    assert [line["message"] for line in said.logs] == ["message deduplicated"]
    assert [line["deduplication"] for line in said.logs] == [reason]
    assert sorted(said.counted(signals.DEDUPLICATED), key=str) == [None, reason]
    assert not said.counted(signals.FINISHED) + said.counted(signals.FAILED)


def test_non_duplicate_is_counted_once(tell: Tell) -> None:
    said = tell(BY_NAME["Finished"])

    assert said.counted(signals.FINISHED) == [None]
    assert not said.counted(signals.DEDUPLICATED)
    assert "deduplication" not in said.logs[0]


def test_conflict_is_counted_as_rejected_too(tell: Tell) -> None:
    said = tell(Conflict(job_key=KEY, job_type="payment.charge", reason="other amount"))

    assert said.counted(signals.REJECTED) == [None]
    assert said.logs[0]["reason"] == "other amount"


def test_rejected_api_key_is_counted_apart_as_error(tell: Tell) -> None:
    plain = BY_NAME["NothingSent"]
    assert isinstance(plain, NothingSent)

    said = tell(replace(plain, alarm=True))

    assert said.logs[0]["level"] == "ERROR"
    assert said.counted(signals.PROVIDER_REFUSES_US) == [None]
    assert not said.counted(signals.NOTHING_SENT)


def test_processing_error_is_logged_with_exception(tell: Tell) -> None:
    said = tell(Broken(RuntimeError("no table")))

    assert said.logs[0]["error"] == "RuntimeError: no table"
    assert said.logs[0]["exception_name"] == "RuntimeError"


def test_failed_reply_is_logged_beside_outcome(tell: Tell) -> None:
    said = tell(BY_NAME["Finished"], error=RuntimeError("no queue"))

    assert [line["message"] for line in said.logs] == ["job finished", "reply failed"]
    assert said.counted(signals.REPLY_FAILED) == [None]


def test_metrics_carry_service_and_namespace(tell: Tell) -> None:
    for blob in tell(BY_NAME["Duplicate"]).metrics:
        assert blob["service"] == telemetry.SERVICE
        assert blob["_aws"]["CloudWatchMetrics"][0]["Namespace"] == signals.NAMESPACE


def test_logs_mask_email_addresses(tell: Tell) -> None:
    plain = BY_NAME["NothingSent"]
    assert isinstance(plain, NothingSent)

    said = tell(replace(plain, reason="not verified: ada@example.com"))

    assert said.logs[0]["reason"] == "not verified: a***@example.com"
    assert "ada@" not in tell(Broken(RuntimeError("to ada@example.com"))).logs[0]["error"]
