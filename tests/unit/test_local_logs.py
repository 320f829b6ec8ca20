"""The functions' logs as a person reads them, and what is counted from them."""

import json
from datetime import UTC, datetime
from pathlib import Path

from infra.local.logs import LogLine, function_of, read
from infra.local.tally import Tally, timeouts_in

AT = datetime(2026, 11, 16, 3, 0, tzinfo=UTC)


def line(event: str, **fields: object) -> LogLine:
    said = {"message": event, "level": "INFO", "job_key": "payment.charge:order_1", **fields}
    found = read(json.dumps(said), function="PaymentsWorker", at=AT)
    assert found is not None
    return found


def test_a_line_says_when_which_job_who_what_and_why() -> None:
    told = str(line("job unknown", reason="HTTP 500", timestamp="2026-11-16 03:04:05,678+0000"))

    assert told.split() == [
        *("03:04:05", "payment.charge:order_1", "PaymentsWorker"),
        *("job", "unknown", "reason=HTTP", "500"),
    ]


def test_lambdas_own_lines_and_metrics_are_left_out() -> None:
    for other in ("START RequestId: 1", "not JSON {", '{"_aws": {}, "Finished": [1.0]}', '"text"'):
        assert read(other, function="PaymentsWorker", at=AT) is None


def test_batches_of_the_history_are_left_out() -> None:
    said = json.dumps({"message": "history", "changes": 3, "objects": 1})

    assert read(said, function="HistoryWrite", at=AT) is None


def test_a_line_without_a_time_of_its_own_has_the_streams() -> None:
    assert line("job finished").at == AT


def test_a_log_group_names_its_function() -> None:
    group = "/aws/cloudformation/Oncely-local/PaymentsWorkerLogsFAC145E5"

    assert function_of(group) == "PaymentsWorker"


def test_deliveries_are_counted_by_what_came_of_them() -> None:
    tally = Tally()
    tally.add(
        [
            line("job finished", receives=1, reply="Ack"),
            line("message deduplicated", receives=2, reply="Ack", deduplication="finished"),
            line("message deduplicated", receives=1, reply="Reject", deduplication="conflict"),
            line("message rejected", receives=1, reply="Reject"),
            line("reply failed", receives=1, reply="Ack"),
            line("message not worked", receives=1, reply="Leave"),
            line("job resolved", old="unknown", new="finished"),
            line("job resolved", old="unknown", new="unknown"),
            line("dead letter", fate="deferred"),
        ]
    )

    assert (tally.deliveries, tally.delivered_again, tally.duplicates) == (5, 1, 2)
    assert (tally.rejected, tally.broken) == (2, 1)
    assert (tally.resolved, tally.dead_letters) == (1, 1)


def test_the_engines_log_tells_how_many_functions_ran_out_of_time(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("Lambda A timed out after 60s — killing worker\nLambda A spawned\n")

    assert timeouts_in(log) == 1
