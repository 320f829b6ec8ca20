"""What the worker logs and counts: a duplicate has its own log line and metric, with its reason."""

import json
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from oncely.aws import signals
from oncely.handlers import telemetry
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.worker import KEY, WorkerHarness, invoke_handler, lease_to_other_worker


def _metrics(line: dict[str, Any]) -> list[str]:
    if "_aws" not in line:
        return []
    [directive] = line["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == signals.NAMESPACE
    reasons = ["reason"] if "reason" in line else []
    assert directive["Dimensions"] == [["service", *reasons]]
    assert line["service"] == telemetry.SERVICE
    return [metric["Name"] for metric in directive["Metrics"]]


Logs = list[dict[str, Any]]
Counts = Counter[tuple[str, str | None]]  # by metric and the reason that it carries
Run = Callable[..., tuple[Logs, Counts]]
BODY = json.dumps(charge_message())


@pytest.fixture
def run(rig: WorkerHarness, world: InMemoryStack, capsys: pytest.CaptureFixture[str]) -> Run:
    # Another test of this process may have counted something without a handler around it.
    telemetry.telemetry().metrics.clear_metrics()

    def run(*bodies: str, event: dict[str, Any] | None = None) -> tuple[Logs, Counts]:
        invoke_handler(event or rig.deliver(*bodies))
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        counted: Counts = Counter()
        for line in lines:
            for metric in _metrics(line):
                counted[metric, line.get("reason")] += int(sum(line[metric]))
        return [line for line in lines if "_aws" not in line], counted

    return run


def test_first_run_counts_only_as_finished(rig: WorkerHarness, run: Run) -> None:
    event = rig.deliver(BODY)

    [line], counted = run(event=event)
    assert counted == {(signals.FINISHED, None): 1}
    assert (line["message"], line["job_key"]) == ("job finished", KEY)
    assert line["message_id"] == event["Records"][0]["messageId"]
    assert line["function_request_id"]


@pytest.mark.parametrize("declined", [False, True])
def test_duplicate_is_counted_apart(world: InMemoryStack, run: Run, *, declined: bool) -> None:
    if declined:
        world.add_order(payment_method="pm_card_chargeDeclined")
    [first], _ = run(BODY)

    [line], counted = run(BODY)
    assert counted == {(signals.DEDUPLICATED, None): 1, (signals.DEDUPLICATED, "finished"): 1}
    assert (line["message"], line["deduplication"]) == ("message deduplicated", "finished")
    assert line["status"] == ("failed" if declined else "finished")
    assert line["result"] == first["result"]


def test_leased_message_counts_as_duplicate_in_progress(world: InMemoryStack, run: Run) -> None:
    lease_to_other_worker(world, lease=timedelta(minutes=5))
    [line], counted = run(BODY)
    assert counted == {(signals.DEDUPLICATED, None): 1, (signals.DEDUPLICATED, "in_progress"): 1}
    assert (line["deduplication"], line["reply"]) == ("in_progress", "Nack")


def test_conflict_counts_as_duplicate_and_reject(run: Run) -> None:
    [line], counted = run(json.dumps(charge_message(amount=9900)))
    duplicates = {(signals.DEDUPLICATED, None): 1, (signals.DEDUPLICATED, "conflict"): 1}
    assert counted == {**duplicates, (signals.REJECTED, None): 1}
    assert (line["level"], line["deduplication"]) == ("ERROR", "conflict")


def test_each_outcome_of_batch_is_counted_separately(world: InMemoryStack, run: Run) -> None:
    for order_id in ("1", "2"):
        world.add_order(order_id)
    world.add_order("declined", payment_method="pm_card_chargeDeclined")
    bodies = [json.dumps(charge_message(order_id)) for order_id in ("1", "2", "declined")]

    lines, counted = run(*bodies, "not JSON")

    metrics = {signals.FINISHED: 2, signals.FAILED: 1, signals.REJECTED: 1}
    assert counted == {(metric, None): times for metric, times in metrics.items()}
    texts = Counter(line["message"] for line in lines)
    assert texts == {"job finished": 2, "job failed": 1, "message rejected": 1}


def test_internal_error_is_logged_with_trace(
    rig: WorkerHarness, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncely.jobs.payment_charge._order", None)
    event = rig.deliver(BODY)

    [line], counted = run(event=event)
    assert counted == {(signals.PROCESSING_ERROR, None): 1}
    assert line["message"] == "message not processed"
    assert "payment_charge.py" in line["exception"]
    assert len(invoke_handler(event)["batchItemFailures"]) == 1


def test_log_never_contains_api_key(rig: WorkerHarness, run: Run) -> None:
    rig.sandbox.faults.add("unauthorized")
    assert "sk_test_oncely" not in str(run(BODY))
