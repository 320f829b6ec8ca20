"""Sample orders, contacts and users of a local stack, and how rows are written to its tables."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from oncely.contracts.settings import pascal_case
from oncely_local.stack import LocalStack
from oncely_local.workload import CRM, DECLINED, PAID, SeedRow, pending_order, refund_request

FIRST_ORDER: Final = 1001
DECLINED_ORDER: Final = 1013
_ORDERS: Final = 20
_CONTACTS: Final = 5

# By group: support reads, operator also repairs.
SAMPLE_USERS: Final = {"support": "sam@example.com", "operator": "olga@example.com"}
SAMPLE_PASSWORD: Final = "Only-on-this-machine-1"  # noqa: S105  # printed by `make local`

_BATCH_SIZE: Final = 25  # DynamoDB's limit of one call


def write_sample_data(stack: LocalStack) -> None:
    """Add the rows of the project: here, orders to pay, a refund request, and CRM contacts."""
    put_rows(stack, stack.project.fixtures.rows)
    if not stack.project.is_clone:
        return
    orders = [
        pending_order(
            number,
            number,
            amount=4900,
            currency="eur",
            outcome=DECLINED if number == DECLINED_ORDER else PAID,
        )
        for number in range(FIRST_ORDER, FIRST_ORDER + _ORDERS)
    ]
    request = refund_request(orders[0], "rma_1", amount=1000)
    put_rows(stack, {"orders": orders, "refund_requests": [request]})
    stack.sandbox.providers[CRM].add_samples(_CONTACTS)


def create_sample_users(stack: LocalStack) -> None:
    """Add one user per group to the admin page, with a permanent password."""
    cognito = stack.account.client("cognito-idp")
    for group, name in SAMPLE_USERS.items():
        user = {"UserPoolId": stack.outputs["UserPoolId"], "Username": name}
        cognito.admin_create_user(
            **user, TemporaryPassword=SAMPLE_PASSWORD, MessageAction="SUPPRESS"
        )
        cognito.admin_set_user_password(**user, Password=SAMPLE_PASSWORD, Permanent=True)
        cognito.admin_add_user_to_group(**user, GroupName=group)


def put_rows(stack: LocalStack, rows_by_table: Mapping[str, Iterable[SeedRow]]) -> None:
    """Write rows to tables, by the short names of these."""
    dynamodb = stack.account.client("dynamodb")
    for table, rows in rows_by_table.items():
        name = stack.outputs[f"{pascal_case(table)}TableName"]
        requests = [{"PutRequest": {"Item": serialize_row(row)}} for row in rows]
        for first in range(0, len(requests), _BATCH_SIZE):
            batch = requests[first : first + _BATCH_SIZE]
            dynamodb.batch_write_item(RequestItems={name: batch})


def serialize_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a row to DynamoDB's typed JSON."""
    return {
        name: {"N": str(value)} if isinstance(value, int) else {"S": value}
        for name, value in row.items()
    }
