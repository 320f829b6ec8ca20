"""The functions' log lines, and the counts of their events."""

import json
from datetime import UTC, datetime
from pathlib import Path

from oncely_local.logs import LogCounts, LogLine, count_timeouts, function_name, parse_event

AT = datetime(2026, 11, 16, 3, 0, tzinfo=UTC)


def make_line(event: str, **fields: object) -> LogLine:
    event_fields = {
        "message": event,
        "level": "INFO",
        "job_key": "payment.charge:order_1",
        **fields,
    }
    found = parse_event(json.dumps(event_fields), function="PaymentsWorker", at=AT)
    assert found is not None
    return found


def test_line_shows_time_job_function_message_and_reason() -> None:
    line = make_line("job unknown", reason="HTTP 500", timestamp="2026-11-16 03:04:05,678+0000")

    assert str(line).split() == [
        *("03:04:05", "payment.charge:order_1", "PaymentsWorker"),
        *("job", "unknown", "reason=HTTP", "500"),
    ]


def test_lambda_platform_lines_and_metrics_are_left_out() -> None:
    for other in ("START RequestId: 1", "not JSON {", '{"_aws": {}, "Finished": [1.0]}', '"text"'):
        assert parse_event(other, function="PaymentsWorker", at=AT) is None


def test_history_batches_are_left_out() -> None:
    line = json.dumps({"message": "history", "changes": 3, "objects": 1})
    assert parse_event(line, function="HistoryWrite", at=AT) is None


def test_line_without_own_time_has_time_of_stream() -> None:
    assert make_line("job finished").at == AT


def test_log_group_names_its_function() -> None:
    group = "/aws/cloudformation/Oncely-local/PaymentsWorkerLogsFAC145E5"
    assert function_name(group) == "PaymentsWorker"


def test_deliveries_are_counted_by_result() -> None:
    tally = LogCounts()
    tally.add(
        [
            make_line("job finished", receives=1, reply="Ack"),
            make_line("message deduplicated", receives=2, reply="Ack", deduplication="finished"),
            make_line("message deduplicated", receives=1, reply="Reject", deduplication="conflict"),
            make_line("message rejected", receives=1, reply="Reject"),
            make_line("message action failed", receives=1, reply="Ack"),
            make_line("message not processed", receives=1, reply="Leave"),
            make_line("job resolved", old="unknown", new="finished"),
            make_line("job resolved", old="unknown", new="unknown"),
            make_line("dead letter", fate="deferred"),
        ]
    )

    assert (tally.deliveries, tally.redelivered, tally.duplicates.total()) == (5, 1, 2)
    assert (tally.rejected, tally.resolved) == (2, 1)


def test_engine_log_counts_functions_that_timed_out(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("Lambda A timed out after 60s — killing worker\nLambda A spawned\n")
    assert count_timeouts(log) == 1
