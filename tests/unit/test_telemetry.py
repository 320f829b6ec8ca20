"""Logs and metrics: each delivery is recorded once; a duplicate is no success or failure."""

import io
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, get_args

import pytest

from oncely.aws import signals
from oncely.aws.signals import DuplicateReason
from oncely.core.lifecycle import WaitKind
from oncely.core.outcomes import NotRun, NotRunCause, Parked, RunOutcome
from oncely.handlers import telemetry
from oncely.handlers.telemetry import Telemetry, signal_for
from oncely.run.process_batch import Ack, Delivery, ProcessedDelivery
from tests.unit.samples import OUTCOMES

DELIVERY = Delivery(message_id="m-1", body="{}", receipt="r-1", receive_count=2)


@dataclass(frozen=True)
class EmittedSignals:
    logs: list[dict[str, Any]]
    metrics: list[dict[str, Any]]

    def metric_reasons(self, metric: str) -> list[str | None]:
        return [blob.get("reason") for blob in self.metrics if metric in blob]


EmitSignals = Callable[..., EmittedSignals]


@pytest.fixture
def emit(capsys: pytest.CaptureFixture[str]) -> EmitSignals:
    made = Telemetry.create()
    (handler,) = made.logger.handlers
    assert isinstance(handler, logging.StreamHandler)

    def recorded(outcome: RunOutcome, **more: Exception) -> EmittedSignals:
        # A logger of this name is made once per process, with the stream of that time.
        handler.stream = lines = io.StringIO()
        given: Any = {"delivery": DELIVERY, "outcome": outcome, "action": Ack(), **more}
        made.record_deliveries([ProcessedDelivery(acked=True, **given)])
        made.metrics.flush_metrics()
        return EmittedSignals(logs=_json(lines.getvalue()), metrics=_json(capsys.readouterr().out))

    return recorded


def _json(lines: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines.splitlines()]


def test_every_outcome_has_event_and_metric() -> None:
    assert {type(outcome) for outcome in OUTCOMES.values()} == set(get_args(RunOutcome))
    sent = [signal_for(outcome) for outcome in OUTCOMES.values()]
    assert all(signal.event and signal.metric for signal in sent)


def test_only_duplicate_outcomes_share_metric() -> None:
    repeated = {"duplicate", "leased", "awaits resolution", "conflict"}
    metrics = [signal_for(one).metric for name, one in OUTCOMES.items() if name not in repeated]
    assert {signal_for(OUTCOMES[name]).metric for name in repeated} == {signals.DEDUPLICATED}
    assert len({*metrics, signals.DEDUPLICATED}) == len(metrics) + 1


@pytest.mark.parametrize("name", OUTCOMES)
def test_each_delivery_is_one_log_line_that_can_be_searched(name: str, emit: EmitSignals) -> None:
    outcome = OUTCOMES[name]

    (line,) = emit(outcome).logs

    assert line["message"] == signal_for(outcome).event
    assert line["level"] == signal_for(outcome).level.upper()
    assert (line["message_id"], line["receives"], line["reply"]) == ("m-1", 2, "Ack")
    assert line.get("job_key") == getattr(outcome, "job_key", None)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("duplicate", DuplicateReason.FINISHED),
        ("leased", DuplicateReason.IN_PROGRESS),
        ("awaits resolution", DuplicateReason.IN_PROGRESS),
        ("conflict", DuplicateReason.CONFLICT),
    ],
)
def test_duplicate_has_own_event_and_metric_with_reason(
    name: str, reason: DuplicateReason, emit: EmitSignals
) -> None:
    seen = emit(OUTCOMES[name])

    assert [line["message"] for line in seen.logs] == ["message deduplicated"]
    assert [line["deduplication"] for line in seen.logs] == [reason]
    assert sorted(seen.metric_reasons(signals.DEDUPLICATED), key=str) == [None, reason]
    assert not seen.metric_reasons(signals.FINISHED) + seen.metric_reasons(signals.FAILED)


def test_non_duplicate_is_counted_once(emit: EmitSignals) -> None:
    seen = emit(OUTCOMES["finished"])
    assert seen.metric_reasons(signals.FINISHED) == [None]
    assert not seen.metric_reasons(signals.DEDUPLICATED)
    assert "deduplication" not in seen.logs[0]


def test_conflict_is_counted_as_rejected_too(emit: EmitSignals) -> None:
    seen = emit(OUTCOMES["conflict"])
    assert seen.metric_reasons(signals.REJECTED) == [None]
    assert seen.logs[0]["reason"] == "rejected: conflict"


def test_rejected_api_key_is_counted_apart_as_error(emit: EmitSignals) -> None:
    seen = emit(OUTCOMES[WaitKind.SECRET])

    assert seen.logs[0]["level"] == "ERROR"
    assert seen.metric_reasons(signals.CREDENTIALS_REJECTED) == [None]
    assert not seen.metric_reasons(signals.NOTHING_SENT)


def test_processing_error_is_logged_with_exception(emit: EmitSignals) -> None:
    seen = emit(OUTCOMES["error"])
    assert seen.logs[0]["error"] == "RuntimeError: no table"
    assert seen.logs[0]["exception_name"] == "RuntimeError"


def test_failed_reply_is_logged_beside_outcome(emit: EmitSignals) -> None:
    seen = emit(OUTCOMES["finished"], error=RuntimeError("no queue"))
    assert [line["message"] for line in seen.logs] == ["job finished", "message action failed"]
    assert seen.metric_reasons(signals.ACK_FAILED) == [None]


def test_metrics_carry_service_and_namespace(emit: EmitSignals) -> None:
    for blob in emit(OUTCOMES["duplicate"]).metrics:
        assert blob["service"] == telemetry.SERVICE
        assert blob["_aws"]["CloudWatchMetrics"][0]["Namespace"] == signals.NAMESPACE


def test_logs_mask_email_addresses(emit: EmitSignals) -> None:
    plain = OUTCOMES[WaitKind.RETRY]
    assert isinstance(plain, Parked)

    seen = emit(replace(plain, reason="not verified: ada@example.com"))

    assert seen.logs[0]["reason"] == "not verified: a***@example.com"
    assert (
        "ada@"
        not in emit(NotRun(cause=NotRunCause.ERROR, error=RuntimeError("to ada@example.com"))).logs[
            0
        ]["error"]
    )
