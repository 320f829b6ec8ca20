"""What the worker tells: a repetition is an event and a metric of its own, with its reason."""

import json
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from oncely import signals, telemetry
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.worker import KEY, WorkerHarness, invoke_handler, lease_to_other_worker


@pytest.fixture
def world(harness: WorkerHarness) -> InMemoryStack:
    world = harness.world()
    world.add_order()
    return world


@dataclass
class PrintedLines:
    """What a function printed: one JSON document in each line."""

    capsys: pytest.CaptureFixture[str]

    def read(self) -> tuple[list[dict[str, Any]], Counter[tuple[str, str | None]]]:
        """The log lines, and how often each metric was counted, with the reason it carries."""
        lines = [json.loads(line) for line in self.capsys.readouterr().out.splitlines()]
        counted: Counter[tuple[str, str | None]] = Counter()
        for line in lines:
            for metric in _metrics(line):
                counted[metric, line.get("reason")] += int(sum(line[metric]))
        return [line for line in lines if "_aws" not in line], counted


def _metrics(line: dict[str, Any]) -> list[str]:
    if "_aws" not in line:
        return []
    [directive] = line["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == signals.NAMESPACE
    reasons = ["reason"] if "reason" in line else []
    assert directive["Dimensions"] == [["service", *reasons]]
    assert line["service"] == telemetry.SERVICE
    return [metric["Name"] for metric in directive["Metrics"]]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> PrintedLines:
    # Another test of this process may have counted something without a handler around it.
    telemetry.telemetry().metrics.clear_metrics()
    return PrintedLines(capsys)


def test_first_run_counts_only_as_finished(
    harness: WorkerHarness, world: InMemoryStack, printed: PrintedLines
) -> None:
    event = harness.deliver(json.dumps(charge_message()))
    message_id = event["Records"][0]["messageId"]

    invoke_handler(event)

    [line], counted = printed.read()
    assert counted == {(signals.FINISHED, None): 1}
    assert line["message"] == "job finished"
    assert (line["job_key"], line["message_id"]) == (KEY, message_id)
    assert line["function_request_id"]


@pytest.mark.parametrize("declined", [False, True])
def test_duplicate_counts_as_neither_success_nor_failure(
    harness: WorkerHarness, world: InMemoryStack, printed: PrintedLines, *, declined: bool
) -> None:
    if declined:
        world.add_order(payment_method="pm_card_chargeDeclined")
    event = harness.deliver(json.dumps(charge_message()))
    invoke_handler(event)
    [first], _ = printed.read()

    invoke_handler(event)

    [line], counted = printed.read()
    assert counted == {(signals.DEDUPLICATED, None): 1, (signals.DEDUPLICATED, "finished"): 1}
    assert (line["message"], line["deduplication"]) == ("message deduplicated", "finished")
    assert line["status"] == ("failed" if declined else "finished")
    assert line["result"] == first["result"]


def test_leased_message_counts_as_duplicate_in_progress(
    harness: WorkerHarness, world: InMemoryStack, printed: PrintedLines
) -> None:
    lease_to_other_worker(world, lease=timedelta(minutes=5))

    invoke_handler(harness.deliver(json.dumps(charge_message())))

    [line], counted = printed.read()
    assert counted == {
        (signals.DEDUPLICATED, None): 1,
        (signals.DEDUPLICATED, "in_progress"): 1,
    }
    assert (line["deduplication"], line["reply"]) == ("in_progress", "Nack")


def test_conflict_counts_as_duplicate_and_reject(
    harness: WorkerHarness, world: InMemoryStack, printed: PrintedLines
) -> None:
    invoke_handler(harness.deliver(json.dumps(charge_message(amount=9900))))

    [line], counted = printed.read()
    assert counted == {
        (signals.DEDUPLICATED, None): 1,
        (signals.DEDUPLICATED, "conflict"): 1,
        (signals.REJECTED, None): 1,
    }
    assert (line["level"], line["deduplication"]) == ("ERROR", "conflict")


def test_each_outcome_of_mixed_batch_is_counted_separately(
    harness: WorkerHarness, world: InMemoryStack, printed: PrintedLines
) -> None:
    for order_id in ("1", "2"):
        world.add_order(order_id)
    world.add_order("declined", payment_method="pm_card_chargeDeclined")
    bodies = [json.dumps(charge_message(order_id)) for order_id in ("1", "2", "declined")]

    invoke_handler(harness.deliver(*bodies, "not JSON"))

    lines, counted = printed.read()
    assert counted == {
        (signals.FINISHED, None): 2,
        (signals.FAILED, None): 1,
        (signals.REJECTED, None): 1,
    }
    assert Counter(line["message"] for line in lines) == {
        "job finished": 2,
        "job failed": 1,
        "message rejected": 1,
    }


def test_internal_error_is_logged_with_trace(
    harness: WorkerHarness,
    world: InMemoryStack,
    printed: PrintedLines,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("oncely.jobs.payment_charge._order", None)

    answer = invoke_handler(harness.deliver(json.dumps(charge_message())))

    [line], counted = printed.read()
    assert len(answer["batchItemFailures"]) == 1
    assert counted == {(signals.PROCESSING_ERROR, None): 1}
    assert line["message"] == "message not processed"
    assert "payment_charge.py" in line["exception"]


def test_log_never_contains_api_key(
    harness: WorkerHarness, world: InMemoryStack, capsys: pytest.CaptureFixture[str]
) -> None:
    harness.stripe.faults.add("unauthorized")

    invoke_handler(harness.deliver(json.dumps(charge_message())))

    assert "sk_test_oncely" not in capsys.readouterr().out
