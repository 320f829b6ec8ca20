"""Updates one item under a condition. Returns the item in either case."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from oncely.core.aws_errors import AWS_ERRORS, is_condition_failure
from oncely.core.row_items import deserialize_row, serialize_field

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_NAME: Final = re.compile(r"#(\w+)")


def update_item(
    client: "DynamoDBClient",
    table: str,
    key: Mapping[str, str],
    *,
    update: str,
    condition: str = "",
    values: Mapping[str, Any],
) -> tuple[bool, Mapping[str, object]]:
    """Update an item. Returns whether the condition held, and the item as it is then.

    In the expressions, `#due_at` is the field `due_at`, and `:until` the value `until`.
    """
    expected: Any = {"ConditionExpression": condition} if condition else {}
    names = _NAME.findall(f"{update} {condition}")
    try:
        written = client.update_item(
            TableName=table,
            Key={name: {"S": value} for name, value in key.items()},
            UpdateExpression=update,
            ExpressionAttributeNames={f"#{name}": name for name in names},
            ExpressionAttributeValues={
                f":{name}": serialize_field(name, value) for name, value in values.items()
            },
            ReturnValues="ALL_NEW",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
            **expected,
        )
    except AWS_ERRORS as error:
        if not is_condition_failure(error):
            raise
        refused: Any = error
        return False, deserialize_row(refused.response.get("Item", {}))
    return True, deserialize_row(written["Attributes"])
