"""The soak's history: a real stream, read in parts, and the newest rows."""

from dataclasses import replace

import pytest

from oncely.core.job_row import JobRow
from oncely.core.lifecycle import Status
from oncely.core.row_items import serialize_job
from oncely.history.checker import Rule, check_history
from oncely.history.lines import HistoryRecordType
from oncely_local.account import LocalAccount
from tests.soak.stream_history import StreamReader
from tests.support.dynamo import DynamoFixture
from tests.unit.samples import make_job

STARTED, UNKNOWN, FOUND, FAILED = (
    replace(make_job(), version=version, status=status)
    for version, status in enumerate(
        (Status.STARTED, Status.UNKNOWN, Status.FINISHED, Status.FAILED), 1
    )
)


@pytest.fixture
def table(dynamo: DynamoFixture) -> DynamoFixture:
    dynamo.protect()
    return dynamo


@pytest.fixture
def reader(table: DynamoFixture) -> StreamReader:
    return StreamReader(LocalAccount(table.url), table.jobs_table)


def write(table: DynamoFixture, *rows: JobRow) -> None:
    for row in rows:
        table.admin.put_item(TableName=table.jobs_table, Item=serialize_job(row))


def replace_stream(table: DynamoFixture) -> None:
    """What a restart of the engine does: a new stream knows none of the earlier writes."""
    table.admin.update_table(
        TableName=table.jobs_table, StreamSpecification={"StreamEnabled": False}
    )
    table.admin.update_table(
        TableName=table.jobs_table,
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    )


def test_each_write_is_read_once(table: DynamoFixture, reader: StreamReader) -> None:
    write(table, STARTED, UNKNOWN)
    reader.read()
    reader.read()
    write(table, FOUND)

    history = reader.finish([FOUND])

    changes = [line for line in history.lines if line.record is HistoryRecordType.CHANGE]
    assert [line.version for line in changes] == [1, 2, 3]
    assert (len(history.lines), history.writes, history.lost) == (4, 3, 0)
    assert list(check_history(history.lines)) == []


def test_write_that_stream_lost_is_counted(table: DynamoFixture, reader: StreamReader) -> None:
    write(table, STARTED)
    reader.read()
    write(table, UNKNOWN)
    replace_stream(table)
    write(table, FOUND)

    history = reader.finish([FOUND])

    assert (len(history.lines), history.writes, history.lost) == (3, 2, 1)
    assert list(check_history(history.lines)) == []


def test_damage_between_two_parts_is_found(table: DynamoFixture, reader: StreamReader) -> None:
    write(table, STARTED, FOUND)
    reader.read()
    write(table, FAILED)

    (found,) = check_history(reader.finish([FAILED]).lines)

    assert (found.rule, found.line.version) == (Rule.NOT_CONTRADICTED, FAILED.version)
