"""The history writer: one object per day and type, stable on retry, nothing dropped."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from oncely.aws.objects import S3Objects
from oncely.core.errors import UnavailableError
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.handlers import archive_history
from oncely.history.archive import HistoryArchive
from oncely.history.gaps import HistoryGap, gap_from_failure
from oncely.history.lines import HistoryLine, HistoryRecordType
from oncely.history.sources import TableGenerationReader, batch_name, lines_of_records
from oncely.history.writer import HistoryWriter
from tests.support.in_memory_stack import InMemoryStack
from tests.support.stream import FakeS3, finish_job, stream_record
from tests.unit.samples import NOW, make_job

unwrapped_handler: Any = vars(archive_history.handler)["__wrapped__"]
TABLE = "0a1b2c3d-table"
MAIL = make_job(job_key=JobKey("receipt.send:order_1"), job_type="receipt.send")


@pytest.fixture
def s3() -> FakeS3:
    return FakeS3()


@pytest.fixture
def writer(s3: FakeS3) -> HistoryWriter:
    return s3.writer()


def write(writer: HistoryWriter, records: list[dict[str, Any]]) -> int:
    name = batch_name(records, generation=TABLE)
    return writer.write(lines_of_records(records, generation=TABLE), batch=name)


def test_batch_is_one_object_per_day_and_type(writer: HistoryWriter, s3: FakeS3) -> None:
    charge = make_job()
    tomorrow = NOW + timedelta(days=1)
    records = [
        stream_record(None, charge),
        stream_record(charge, finish_job(charge), number=2),
        stream_record(MAIL, finish_job(MAIL), number=3),
        stream_record(charge, finish_job(charge, tomorrow), number=4),
    ]

    assert write(writer, records) == 3
    assert {name.rpartition("/")[0] for name in s3.objects} == {
        f"history/day={NOW:%F}/job_type=payment.charge",
        f"history/day={NOW:%F}/job_type=receipt.send",
        f"history/day={tomorrow:%F}/job_type=payment.charge",
    }
    assert len(s3.lines()) == 4


def test_day_is_in_utc(writer: HistoryWriter, s3: FakeS3) -> None:
    at = datetime.fromisoformat("2026-05-18T01:30:00+02:00")
    write(writer, [stream_record(None, make_job(updated_at=at))])
    (name,) = s3.objects
    assert name.startswith("history/day=2026-05-17/job_type=payment.charge/233000-233000-0a1b2c3d-")


def test_batch_is_split_when_it_spans_two_hours(writer: HistoryWriter, s3: FakeS3) -> None:
    first = datetime(2026, 5, 17, 9, 59, 58, tzinfo=UTC)
    rows = [make_job(updated_at=first + timedelta(seconds=step)) for step in (5, 1, 0)]

    write(writer, [stream_record(None, row, number=number) for number, row in enumerate(rows)])

    times = sorted(name.rpartition("/")[2][:13] for name in s3.objects)
    assert times == ["095958-095959", "100003-100003"]


def test_retried_batch_overwrites_itself(writer: HistoryWriter, s3: FakeS3) -> None:
    records = [stream_record(None, make_job())]
    write(writer, records)
    first = dict(s3.objects)

    write(writer, records)

    assert s3.objects == first


def test_bisected_batch_gets_other_object_names(writer: HistoryWriter, s3: FakeS3) -> None:
    old = make_job()
    records = [stream_record(None, old), stream_record(old, finish_job(old), number=2)]

    for half in (records, records[:1], records[1:]):
        write(writer, half)

    assert len(s3.objects) == 3


@pytest.mark.parametrize(("by", "kept"), [("dynamodb.amazonaws.com", "expired"), ("", "deleted")])
def test_removed_row_is_recorded(writer: HistoryWriter, s3: FakeS3, by: str, kept: str) -> None:
    old = make_job(status=Status.FINISHED)
    at = NOW + timedelta(days=400)

    write(writer, [stream_record(old, None, at=at, removed_by=by)])

    (line,) = s3.lines()
    assert (line.record, line.old_status, line.at) == (kept, "finished", at)


@pytest.mark.parametrize(
    "broken",
    [
        {"status": {"S": "paused"}},  # of a newer version
        {"created_at": {"S": "yesterday"}},  # edited by hand
        {"evidence": {"L": [{"M": {}}]}},
    ],
)
def test_unreadable_row_is_recorded_and_blocks_nothing(
    writer: HistoryWriter, s3: FakeS3, broken: dict[str, Any]
) -> None:
    row = make_job(version=7)
    bad = stream_record(row, finish_job(row))
    bad["dynamodb"]["NewImage"].update(broken)
    other = make_job(job_key=JobKey("payment.charge:order_2"))

    write(writer, [bad, stream_record(None, other, number=2)])

    unreadable, readable = s3.lines()
    assert (unreadable.record, unreadable.job_key) == (HistoryRecordType.UNREADABLE, row.job_key)
    assert (unreadable.version, readable.job_key) == (8, other.job_key)


def test_unreadable_row_of_no_version_is_recorded_by_key(writer: HistoryWriter, s3: FakeS3) -> None:
    bad = stream_record(None, make_job())
    bad["dynamodb"]["NewImage"] = {
        "job_key": {"S": "payment.charge:x"},
        "version": {"S": "one"},
        "fence": {"N": "1"},
    }
    write(writer, [bad])
    assert [(line.record, line.version) for line in s3.lines()] == [("unreadable", None)]


def test_unreadable_row_without_mark_is_not_recorded(writer: HistoryWriter, s3: FakeS3) -> None:
    """A producer inserted it, and chose its version: it must not hide the job after it."""
    forged = stream_record(None, make_job())
    forged["dynamodb"]["NewImage"] = {"job_key": {"S": "payment.charge:x"}, "version": {"N": "99"}}
    write(writer, [forged])
    assert list(s3.lines()) == []


def test_new_row_is_recorded_when_old_one_is_unreadable(writer: HistoryWriter, s3: FakeS3) -> None:
    old = make_job()
    fixed = stream_record(old, finish_job(old))
    fixed["dynamodb"]["OldImage"]["status"] = {"S": "paused"}

    write(writer, [fixed])

    assert [(line.status, line.old_status) for line in s3.lines()] == [("finished", None)]


@pytest.mark.parametrize("key", ["deployment:identity", "unique:payment.charge:1", "sweep:3"])
def test_items_other_than_jobs_are_left_out(writer: HistoryWriter, s3: FakeS3, key: str) -> None:
    item = stream_record(None, make_job())
    item["dynamodb"]["Keys"] = {"job_key": {"S": key}}
    assert write(writer, [item]) == 0
    assert s3.objects == {}


def test_failed_object_fails_whole_batch(s3: FakeS3) -> None:
    class Breaks(HistoryArchive):
        def put(self, day: date, job_type: str, name: str, lines: Sequence[HistoryLine]) -> None:
            if job_type == "receipt.send":
                raise UnavailableError("S3 gave no answer")
            super().put(day, job_type, name, lines)

    store: Any = Breaks(S3Objects(s3, "archive"))  # type: ignore[arg-type]  # a fake
    failing = replace(s3.writer(), archive=store)

    with pytest.raises(UnavailableError):
        write(failing, [stream_record(None, make_job()), stream_record(None, MAIL)])


FAILURE = {
    "requestContext": {"condition": "RetryAttemptsExhausted", "approximateInvokeCount": 9},
    "DDBStreamBatchInfo": {
        "shardId": "shardId-00000001573689847184-864758bb",
        "startSequenceNumber": "800000000003126276362",
        "endSequenceNumber": "800000000003126276399",
        "approximateArrivalOfFirstRecord": "2026-05-14T00:13:19Z",
        "approximateArrivalOfLastRecord": "2026-05-14T00:14:19Z",
        "batchSize": 31,
        "streamArn": "arn:aws:dynamodb:eu-west-1:1:table/jobs/stream/2026",
    },
}


def test_gap_names_shard_reason_and_time_of_lost_changes() -> None:
    gap = gap_from_failure(json.dumps(FAILURE), recorded_at=NOW)

    assert gap.shard == "shardId-00000001573689847184-864758bb"
    assert (gap.records, gap.reason) == (31, "RetryAttemptsExhausted")
    assert gap.first_at == datetime(2026, 5, 14, 0, 13, 19, tzinfo=UTC)
    assert HistoryGap.from_dict(json.loads(json.dumps(gap.to_dict()))) == gap


@pytest.mark.parametrize("body", ["", "{}", "[]", '{"DDBStreamBatchInfo": {}}'])
def test_unreadable_failure_message_becomes_gap(body: str) -> None:
    gap = gap_from_failure(body, recorded_at=NOW)
    assert gap.first_at is None
    assert gap.name


def test_gap_name_is_stable_and_unique_per_shard() -> None:
    later = NOW + timedelta(hours=1)
    other = {**FAILURE, "DDBStreamBatchInfo": {**FAILURE["DDBStreamBatchInfo"], "shardId": "x"}}

    def name(failure: dict[str, Any], at: datetime) -> str:
        return gap_from_failure(json.dumps(failure), recorded_at=at).name

    assert name(FAILURE, NOW) == name(FAILURE, later) != name(other, NOW)


@pytest.mark.parametrize(
    ("scanned", "rows_from", "closed"),
    [
        (timedelta(0), None, True),
        (-timedelta(seconds=1), None, False),  # recorded after the scan began
        (timedelta(0), -timedelta(days=1), True),
        (timedelta(0), timedelta(days=1), False),  # older changes were left out
    ],
)
def test_gap_is_closed_only_by_scan_that_covers_it(
    *, scanned: timedelta, rows_from: timedelta | None, closed: bool
) -> None:
    gap = HistoryGap(name="gap", recorded_at=NOW, first_at=NOW - timedelta(hours=22))
    since = None if rows_from is None or gap.first_at is None else gap.first_at + rows_from

    assert gap.is_closed_by(scanned_since=NOW + scanned, rows_from=since) is closed
    unknown = replace(gap, first_at=None)
    assert unknown.is_closed_by(scanned_since=NOW, rows_from=NOW - timedelta(days=99)) is False


@dataclass
class FakeStreamTable:
    stream: str = "arn:aws:dynamodb:eu-west-1:1:table/jobs/stream/2026"
    calls: int = 0

    def describe_table(self, *, TableName: str) -> dict[str, Any]:  # noqa: N803  # DynamoDB's name
        self.calls += 1
        return {"Table": {"TableId": TABLE, "LatestStreamArn": self.stream}}


def test_generation_is_table_id_and_is_read_once() -> None:
    table: Any = FakeStreamTable()
    generation = TableGenerationReader(table, "jobs")
    assert [generation(table.stream) for _ in range(3)] == [TABLE] * 3
    assert table.calls == 1


def test_stream_of_replaced_table_has_its_own_generation() -> None:
    table: Any = FakeStreamTable()
    assert TableGenerationReader(table, "jobs")("arn:…/stream/2025") == "stream-2025"


def test_handler_writes_lines_from_stream_and_gaps_from_queue(
    writer: HistoryWriter, s3: FakeS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    table: Any = FakeStreamTable()
    reader = TableGenerationReader(table, "jobs")
    app = InMemoryStack().app(history=writer.archive, table_generation=reader)
    monkeypatch.setattr(archive_history, "get_app", lambda: app)
    failure = {"eventSource": "aws:sqs", "body": json.dumps(FAILURE)}

    for event in ({}, {"Records": [stream_record(None, make_job())]}, {"Records": [failure]}):
        assert unwrapped_handler(event, None) == {"batchItemFailures": []}

    assert [line.generation for line in s3.lines()] == [TABLE]
    (gap,) = (body for name, body in s3.objects.items() if name.startswith("history/gaps/"))
    assert HistoryGap.from_dict(json.loads(gap)).records == 31
