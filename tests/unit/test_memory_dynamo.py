"""DynamoDB in memory keeps DynamoDB's limits, and refuses what it does not know."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from oncely.contracts.table_schema import IndexSchema, KeySchema, TableSchema
from oncely.testing.memory_aws.dynamodb import MemoryDynamo
from tests.unit.samples import NOW

DUE = IndexSchema(name="due", key=KeySchema(partition="due", sort="due_at"), include=("note",))
SCHEMA = TableSchema(name="jobs", key=KeySchema(partition="job_key"), indexes=(DUE,))
KB = 1024


@dataclass
class MovedClock:
    time: datetime = NOW

    def now(self) -> datetime:
        return self.time


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def dynamo(clock: MovedClock) -> MemoryDynamo:
    return MemoryDynamo({"jobs": SCHEMA}, now=clock.now)


def put(dynamo: MemoryDynamo, key: str, **values: Any) -> None:  # noqa: ANN401  # the SDK's own form
    dynamo.put_item(TableName="jobs", Item={"job_key": {"S": key}, **values})


def set_text(key: str, text: str) -> dict[str, Any]:
    return {
        "TableName": "jobs",
        "Key": {"job_key": {"S": key}},
        "UpdateExpression": "SET note = :note",
        "ExpressionAttributeValues": {":note": {"S": text}},
    }


def error_of(call: Any, **request: Any) -> Any:  # noqa: ANN401  # an operation and its request
    with pytest.raises(ClientError) as caught:
        call(**request)
    return caught.value.response


def due(number: int) -> dict[str, Any]:
    return {"due": {"S": "publish#0"}, "due_at": {"S": f"2026-11-{number:02}"}}


def page(dynamo: MemoryDynamo, **more: Any) -> Any:  # noqa: ANN401  # a response
    return dynamo.query(
        TableName="jobs",
        IndexName="due",
        KeyConditionExpression="due = :due",
        ExpressionAttributeValues={":due": {"S": "publish#0"}},
        **more,
    )


def keys(response: Any) -> list[str]:  # noqa: ANN401  # a response
    return [item["job_key"]["S"] for item in response["Items"]]


def test_item_over_400_kb_is_refused(dynamo: MemoryDynamo) -> None:
    names = len("job_key" + "a" + "note")
    put(dynamo, "a", note={"S": "x" * (400 * KB - names)})
    for call in (
        lambda: put(dynamo, "a", note={"S": "x" * (400 * KB - names + 1)}),
        lambda: dynamo.update_item(**set_text("a", "é" * (200 * KB))),
    ):
        assert error_of(call)["Error"]["Code"] == "ValidationException"
    assert dynamo.tables["jobs"]["a",].size == 400 * KB


def test_update_over_400_kb_cancels_transaction(dynamo: MemoryDynamo) -> None:
    parts = [{"Update": set_text("a", "small")}, {"Update": set_text("b", "x" * 400 * KB)}]
    failed = error_of(dynamo.transact_write_items, TransactItems=parts)
    reasons = [reason["Code"] for reason in failed["CancellationReasons"]]
    assert (failed["Error"]["Code"], reasons) == (
        "TransactionCanceledException",
        ["None", "ValidationError"],
    )
    assert dynamo.tables["jobs"] == {}


@pytest.mark.parametrize(
    "parts",
    [
        [set_text(str(number), "") for number in range(101)],
        [set_text(str(number), "x" * 399 * KB) for number in range(11)],
        [set_text("a", "one"), set_text("a", "two")],
        [],
    ],
    ids=["101 items", "over 4 MB", "same item", "none"],
)
def test_transaction_out_of_limits_is_refused(
    dynamo: MemoryDynamo, parts: list[dict[str, Any]]
) -> None:
    items = [{"Update": part} for part in parts]
    failed = error_of(dynamo.transact_write_items, TransactItems=items)
    assert failed["Error"]["Code"] == "ValidationException"
    assert dynamo.tables["jobs"] == {}


def test_token_is_remembered_for_10_minutes(dynamo: MemoryDynamo, clock: MovedClock) -> None:
    first = {"TransactItems": [{"Update": set_text("a", "one")}], "ClientRequestToken": "t"}
    other = {"TransactItems": [{"Update": set_text("a", "two")}], "ClientRequestToken": "t"}
    dynamo.transact_write_items(**first)
    dynamo.delete_item(TableName="jobs", Key={"job_key": {"S": "a"}})

    clock.time += timedelta(minutes=10) - timedelta(microseconds=1)
    dynamo.transact_write_items(**first)
    assert dynamo.tables["jobs"] == {}, "it was not applied again"
    failed = error_of(dynamo.transact_write_items, **other)
    assert failed["Error"]["Code"] == "IdempotentParameterMismatchException"

    clock.time += timedelta(microseconds=1)
    dynamo.transact_write_items(**other)
    assert dynamo.tables["jobs"]["a",]["note"] == {"S": "two"}


def test_cancelled_transaction_does_not_use_up_its_token(dynamo: MemoryDynamo) -> None:
    condition = {"ConditionExpression": "attribute_exists(job_key)"}
    parts = [{"Update": {**set_text("a", "one"), **condition}}]
    request = {"TransactItems": parts, "ClientRequestToken": "t"}
    error_of(dynamo.transact_write_items, **request)
    put(dynamo, "a")
    dynamo.transact_write_items(**request)
    assert dynamo.tables["jobs"]["a",]["note"] == {"S": "one"}


def test_page_continues_behind_row_that_left_index(dynamo: MemoryDynamo) -> None:
    for number in range(1, 5):
        put(dynamo, f"job {number}", **due(number))
    first = page(dynamo, Limit=2)
    put(dynamo, "job 2")

    rest = page(dynamo, ExclusiveStartKey=first["LastEvaluatedKey"])

    assert (keys(first), keys(rest)) == (["job 1", "job 2"], ["job 3", "job 4"])


def test_pages_are_read_backward(dynamo: MemoryDynamo) -> None:
    for number in range(1, 6):
        put(dynamo, f"job {number}", **due(number))
    first = page(dynamo, Limit=2, ScanIndexForward=False)
    start = first["LastEvaluatedKey"]
    rest = page(dynamo, ScanIndexForward=False, ExclusiveStartKey=start)
    assert (keys(first), keys(rest)) == (["job 5", "job 4"], ["job 3", "job 2", "job 1"])


def test_page_of_exactly_limit_rows_may_have_more(dynamo: MemoryDynamo) -> None:
    put(dynamo, "job 1", **due(1))
    first = page(dynamo, Limit=1)
    last = page(dynamo, Limit=1, ExclusiveStartKey=first["LastEvaluatedKey"])
    assert (keys(last), "LastEvaluatedKey" in last) == ([], False)


def test_index_shows_only_projected_attributes(dynamo: MemoryDynamo) -> None:
    put(dynamo, "job 1", **due(1), note={"S": "shown"}, message={"S": "not shown"})
    put(dynamo, "job 2", due={"S": "publish#0"})  # without the sort key: not in it
    [item] = page(dynamo)["Items"]
    assert item == {"job_key": {"S": "job 1"}, **due(1), "note": {"S": "shown"}}


def test_stale_read_of_index_misses_latest_write_only(dynamo: MemoryDynamo) -> None:
    for number in (1, 2, 3):
        put(dynamo, f"job {number}", **due(number))
    put(dynamo, "job 2")
    key = {"job_key": {"S": "job 2"}}

    with dynamo.stale():
        seen = page(dynamo)
        read = dynamo.get_item(TableName="jobs", Key=key, ConsistentRead=True)

    assert keys(seen) == ["job 1", "job 2", "job 3"]
    assert read["Item"] == key, "a consistent read is not stale"
    assert keys(page(dynamo)) == ["job 1", "job 3"]


def test_stored_item_is_replaced_and_not_changed(dynamo: MemoryDynamo) -> None:
    put(dynamo, "a", note={"S": "old"})
    before = dynamo.tables["jobs"]["a",]
    answer = dynamo.get_item(TableName="jobs", Key={"job_key": {"S": "a"}})
    answer["Item"]["note"] = {"S": "changed by its reader"}
    dynamo.update_item(**set_text("a", "new"))
    assert before["note"] == {"S": "old"}
    assert dynamo.tables["jobs"]["a",]["note"] == {"S": "new"}


@pytest.mark.parametrize(
    "changes",
    [
        {"UpdateExpression": "SET note.depth = :note"},
        {"UpdateExpression": "SET note[0] = :note"},
        {"UpdateExpression": "SET note = list_append(note, :note)"},
        {"UpdateExpression": "SET note = :note SET other = :note"},
        {"UpdateExpression": "SET note = note - :note"},
        {"UpdateExpression": "DELETE note :note"},
        {"UpdateExpression": "SET note = :note,"},
        {"UpdateExpression": ""},
        {"ConditionExpression": "begins_with(note, :note)"},
        {"ConditionExpression": "size(note) > :note"},
        {"ConditionExpression": "note = :note AND"},
        {"ConditionExpression": "note = :note)"},
        {"ConditionExpression": "note == :note"},
        {"ConditionExpression": "note <> :note"},
        {"ConditionExpression": "note = other OR note = :note"},
        {"ReturnValues": "UPDATED_OLD"},
        {"Expected": {}},
    ],
    ids=str,
)
def test_unknown_syntax_or_parameter_is_not_ignored(
    dynamo: MemoryDynamo, changes: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match="support"):
        dynamo.update_item(**{**set_text("a", "text"), **changes})
    assert dynamo.tables["jobs"] == {}


@pytest.mark.parametrize(
    "statement",
    ['DELETE FROM "jobs"', 'SELECT * FROM "jobs"', "INSERT INTO \"jobs\" VALUE {'job_key': 'a'}"],
)
def test_unknown_statement_is_not_ignored(dynamo: MemoryDynamo, statement: str) -> None:
    with pytest.raises(ValueError, match="support"):
        dynamo.execute_statement(Statement=statement)
