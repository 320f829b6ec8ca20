"""Writes rows of the application's own into the deployed tables, as its code would."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from oncely_local.stack import LocalStack
from oncely_local.workload import SeedRow

_BATCH_SIZE: Final = 25  # rows in one call; so many does DynamoDB take


def put_rows(stack: LocalStack, table: str, rows: Iterable[SeedRow]) -> None:
    """Write rows to the table that an output names."""
    requests = [{"PutRequest": {"Item": serialize_row(row)}} for row in rows]
    dynamodb = stack.account.client("dynamodb")
    for first in range(0, len(requests), _BATCH_SIZE):
        batch = requests[first : first + _BATCH_SIZE]
        dynamodb.batch_write_item(RequestItems={stack.outputs[table]: batch})


def serialize_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as DynamoDB takes it."""
    return {
        name: {"N": str(value)} if isinstance(value, int) else {"S": value}
        for name, value in row.items()
    }
