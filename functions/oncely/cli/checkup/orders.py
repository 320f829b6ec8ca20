"""Whether orders that asked for their payment can be found by the reconciler."""

from collections.abc import Iterator
from typing import Final

from oncely.cli.checkup.deployed import DeployedStack
from oncely.cli.checkup.findings import Finding, passed, warned
from oncely.jobs.payment_charge import CHARGE_SHARD

# A sample of the table, not all of it: a shop may have millions of orders.
MAX_ORDERS: Final = 5_000
_PAGE_SIZE: Final = 1_000
_MAX_SHOWN: Final = 3


def check_orders(deployed: DeployedStack) -> Iterator[Finding]:
    """Orders that ask for their payment and have no shard, in a sample of the table."""
    table = deployed.connection.outputs.get("OrdersTableName")
    if table is None:
        return
    read, found = 0, []
    pages = (
        deployed.connection.client("dynamodb")
        .get_paginator("scan")
        .paginate(
            TableName=table,
            FilterExpression="attribute_exists(#requested) AND attribute_not_exists(#shard)",
            ProjectionExpression="order_id",
            ExpressionAttributeNames={"#requested": "charge_requested_at", "#shard": CHARGE_SHARD},
            PaginationConfig={"PageSize": _PAGE_SIZE},
        )
    )
    for page in pages:
        read += page["ScannedCount"]
        found += [row["order_id"]["S"] for row in page["Items"]]
        if read >= MAX_ORDERS:
            break
    check = "orders that ask for their payment"
    if found:
        yield warned(
            check,
            f"{len(found)} of {read} orders read have charge_requested_at without {CHARGE_SHARD} "
            f"({', '.join(found[:_MAX_SHOWN])}): if their message is lost, nobody notices",
            f"let their producer set {CHARGE_SHARD} too, see docs/send-a-job.md",
        )
    else:
        yield passed(check, f"each of {read} orders read that asks has its {CHARGE_SHARD}")
