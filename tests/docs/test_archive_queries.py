"""The queries of docs/archive.md: DuckDB runs them, and the tables have the fields of a line."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from oncely.core.job_row import operator_actor
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status
from oncely.history.lines import LINE_FIELDS, UNKNOWN_JOB_TYPE
from oncely.history.sources import batch_name, lines_of_records
from oncely.jobs.shipped import SHIPPED_JOBS
from tests.support.duckdb_queries import ENDED_QUERY, OPERATOR_QUERY, ORDER_QUERY, query, sql_blocks
from tests.support.stream import FakeS3, finish_job, stream_record
from tests.unit.samples import make_job

MAY = datetime(2026, 5, 17, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A paid order and its receipt, a review that Ada closed, another month, a deleted row."""
    charge = make_job(subject="18452", amount=4900, currency="eur", created_at=MAY, updated_at=MAY)
    paid = finish_job(charge, MAY + MINUTE)
    mail = make_job(
        job_key=JobKey("receipt.send:order_18452"),
        job_type="receipt.send",
        message={"job": "receipt.send", "v": 1, "order_id": "18452"},
        created_at=MAY,
        updated_at=MAY + 2 * MINUTE,
    )
    sent = finish_job(mail, MAY + 3 * MINUTE)
    review = make_job(
        job_key=JobKey("payment.charge:order_7"),
        message={"order_id": "7"},
        status=Status.NEEDS_REVIEW,
        created_at=MAY,
        updated_at=MAY,
    )
    closed = review.apply(
        Event.RESOLVE_FAILED,
        now=MAY + MINUTE,
        actor=operator_actor("ada@example.com"),
        reason="seen at Stripe",
    )
    noted = closed.apply(
        Event.NOTE,
        now=MAY + timedelta(days=30),
        actor=operator_actor("ada@example.com"),
        reason="told the customer",
    )
    gone = make_job(
        job_key=JobKey("sync.push:1"), job_type="sync.push", message={}, status=Status.FINISHED
    )
    changes = [
        (None, charge),
        (charge, paid),
        (None, mail),
        (mail, sent),
        (None, review),
        (review, closed),
        (closed, noted),
        (gone, None),
    ]
    records = [stream_record(old, new, number=place) for place, (old, new) in enumerate(changes)]
    s3 = FakeS3()
    writer = s3.writer()
    # At least once: a bisected batch, and one that was retried.
    for batch in (records, records[:3], records[3:], records):
        name = batch_name(batch, generation="table-1")
        writer.write(lines_of_records(batch, generation="table-1"), batch=name)
    for key, body in s3.objects.items():
        path = tmp_path / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    return tmp_path


def test_order_query_finds_each_change_once(folder: Path) -> None:
    found = query(folder, index=ORDER_QUERY)

    assert [(one["job_key"], one["status"]) for one in found] == [
        ("payment.charge:order_18452", "started"),
        ("payment.charge:order_18452", "finished"),
        ("receipt.send:order_18452", "started"),
        ("receipt.send:order_18452", "finished"),
    ]
    assert (found[1]["amount"], found[1]["currency"], found[1]["event"]) == (4900, "eur", "confirm")
    assert found[1]["at"] == (MAY + MINUTE).replace(tzinfo=None)


def test_operator_query_finds_repairs_of_month(folder: Path) -> None:
    (only,) = query(folder, index=OPERATOR_QUERY)

    assert (only["job_key"], only["event"]) == ("payment.charge:order_7", "resolve_failed")
    assert (only["old_status"], only["status"]) == ("needs_review", "failed")


def test_ended_jobs_are_found_exactly_once(folder: Path) -> None:
    found = query(folder, index=ENDED_QUERY)

    assert sorted((one["job_key"], one["status"]) for one in found) == [
        ("payment.charge:order_18452", "finished"),
        ("payment.charge:order_7", "failed"),
        ("receipt.send:order_18452", "finished"),
    ]


def test_tables_have_history_fields_and_shipped_job_types() -> None:
    names = set(LINE_FIELDS)
    view = sql_blocks("Query with DuckDB")[0]
    table, *_ = sql_blocks("Query with Athena")
    columns = table.partition("\nROW FORMAT")[0]

    assert set(re.findall(r"(\w+)\"?: '", view.partition("columns =")[2])) == names
    assert set(re.findall(r"`(\w+)`", columns)) == names | {"day"}
    types = {kind.job_type for kind in SHIPPED_JOBS} | {UNKNOWN_JOB_TYPE}
    assert f"'{','.join(sorted(types - {UNKNOWN_JOB_TYPE}))},{UNKNOWN_JOB_TYPE}'" in table
