"""A team's own tables: other column names, another key, and no index."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import pytest

from oncely.aws.business_tables import BusinessTable
from oncely.aws.clients import AwsClients
from oncely.contracts.settings import Settings
from oncely.core.effect_outcomes import BusinessWrite, Precondition
from oncely.core.errors import NotConfiguredError
from oncely.core.row_items import deserialize_row, serialize
from oncely.jobs.payment_charge import PaymentCharge
from oncely.jobs.payment_refund import PaymentRefund
from oncely.jobs.tables import REQUESTED_INDEX
from oncely.ports import Ports
from oncely.reconcile.find_due_work import SweepRequest
from tests.support.dynamo import DynamoFixture
from tests.support.in_memory_stack import InMemoryStack, charge_message, refund_message
from tests.support.orders import order_row, refund_request
from tests.support.outcomes import is_finished, waits_for_rows

COLUMNS: Final = {
    "order_id": "id",
    "amount": "total_cents",
    "customer_id": "buyer",
    "status": "payment_status",
    "charge_requested_at": "asked_at",
    "charge_shard": "shard",
}
REQUEST_COLUMNS: Final = {
    "order_id": "order",
    "refund_id": "return_number",
    "amount": "cents",
    "requested_by": "approved_by",
    "requested_at": "approved_at",
}
KEY: Final = {"id": "18452"}


@dataclass(frozen=True)
class MappedRows:
    """The business rows of a stack through the ports that AWS functions have."""

    ports: Ports

    def put(self, table: str, key: Mapping[str, str], row: Mapping[str, object]) -> None:
        raise NotImplementedError

    def delete_partition(
        self, table: str, partition: Mapping[str, str], *, sort: str, dry_run: bool
    ) -> int:
        return self.ports.table(table).delete_partition(partition, sort=sort, dry_run=dry_run)

    def get(self, table: str, key: Mapping[str, str]) -> Mapping[str, object] | None:
        return self.ports.table(table).get(key)

    def update(self, write: BusinessWrite) -> bool:
        return self.ports.table(write.table).update(write)

    def query_index(
        self,
        table: str,
        index: str,
        *,
        partitions: tuple[str, Sequence[str]],
        max_sort_key: tuple[str, str],
    ) -> Iterable[Mapping[str, object]]:
        return self.ports.table(table).query_index(
            index, partitions=partitions, max_sort_key=max_sort_key
        )


def ports_for(dynamo: DynamoFixture, table: str, **variables: str) -> Ports:
    environ = {
        "JOBS_TABLE": dynamo.jobs_table,
        "ORDERS_TABLE": table,
        "REFUND_REQUESTS_TABLE": f"their-{dynamo.tables['refund_requests']}",
        "REFUNDS_TABLE": dynamo.tables["refunds"],
        **variables,
    }
    clients = AwsClients()
    clients.dynamodb = dynamo.client
    return Ports(Settings.from_env(environ, [PaymentCharge, PaymentRefund]), clients)


def create_orders(dynamo: DynamoFixture, *, with_index: bool = False) -> str:
    table = f"their-{dynamo.tables['orders']}"
    names = ("id", "shard", "asked_at") if with_index else ("id",)
    index = {
        "IndexName": REQUESTED_INDEX,
        "KeySchema": [
            {"AttributeName": "shard", "KeyType": "HASH"},
            {"AttributeName": "asked_at", "KeyType": "RANGE"},
        ],
        "Projection": {"ProjectionType": "ALL"},
    }
    dynamo.admin.create_table(
        TableName=table,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": one, "AttributeType": "S"} for one in names],
        BillingMode="PAY_PER_REQUEST",
        **({"GlobalSecondaryIndexes": [index]} if with_index else {}),  # type: ignore[arg-type]  # the SDK's own form
    )
    row = {COLUMNS.get(name, name): value for name, value in order_row().items()}
    # Columns with our names and other meanings.
    others = {"amount": "12.50 EUR", "status": "shipped", "order_id": "web-7"}
    item = {name: serialize(value) for name, value in {**KEY, **row, **others}.items()}
    dynamo.admin.put_item(TableName=table, Item=item)
    return table


def mapped_rows(dynamo: DynamoFixture, table: str, **variables: str) -> MappedRows:
    return MappedRows(ports_for(dynamo, table, ORDERS_COLUMNS=json.dumps(COLUMNS), **variables))


def read_order(dynamo: DynamoFixture, table: str) -> dict[str, object]:
    key = {name: serialize(value) for name, value in KEY.items()}
    return deserialize_row(dynamo.admin.get_item(TableName=table, Key=key)["Item"])


def test_order_is_charged_through_mapped_columns(dynamo: DynamoFixture) -> None:
    table = create_orders(dynamo)
    before = read_order(dynamo, table)
    rows = mapped_rows(dynamo, table)
    world = InMemoryStack(store=rows.ports.job_store(), rows=rows)

    assert is_finished(world.run(charge_message()))

    [charge] = world.payments.charges
    after = read_order(dynamo, table)
    assert world.job("payment.charge:order_18452").customer_id == before["buyer"]
    assert world.job("payment.charge:order_18452").amount == before["total_cents"]
    assert after.pop("charge_id")
    assert charge
    expected = {**before, "payment_status": "paid"}
    del expected["asked_at"]
    assert after == expected, "no other column changes"


def create_refund_request(dynamo: DynamoFixture, **changes: object) -> None:
    table = f"their-{dynamo.tables['refund_requests']}"
    names = ("order", "return_number")
    dynamo.admin.create_table(
        TableName=table,
        KeySchema=[
            {"AttributeName": names[0], "KeyType": "HASH"},
            {"AttributeName": names[1], "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[{"AttributeName": one, "AttributeType": "S"} for one in names],
        BillingMode="PAY_PER_REQUEST",
    )
    request = {"order_id": "18452", "refund_id": "rma_1", **refund_request(**changes)}
    row = {REQUEST_COLUMNS.get(name, name): value for name, value in request.items()}
    # Columns with our names and other meanings.
    others = {"amount": "12.50 EUR", "requested_by": "customer_7", "order_id": "web-7"}
    item = {name: serialize(value) for name, value in {**row, **others}.items()}
    dynamo.admin.put_item(TableName=table, Item=item)


def test_refund_is_authorized_through_mapped_columns(dynamo: DynamoFixture) -> None:
    create_refund_request(dynamo, amount=800, requested_by="agent_9")
    columns = json.dumps(REQUEST_COLUMNS)
    rows = mapped_rows(dynamo, create_orders(dynamo), REFUND_REQUESTS_COLUMNS=columns)
    world = InMemoryStack(store=rows.ports.job_store(), rows=rows)
    world.run(charge_message())

    assert waits_for_rows(world.run(refund_message("rma_2")))
    assert is_finished(world.run(refund_message("rma_1")))

    assert world.payments.refunded("ch_1") == 800
    evidence = world.job("payment.refund:order_18452:rma_1").evidence
    assert any("requested by agent_9" in entry.reason for entry in evidence)


@pytest.mark.parametrize(("amount", "written"), [(1250, True), (1, False)])
def test_precondition_compares_mapped_column(
    dynamo: DynamoFixture, amount: int, *, written: bool
) -> None:
    table = create_orders(dynamo)
    write = BusinessWrite(
        table="orders",
        key={"order_id": "18452"},
        set={"status": "paid"},
        preconditions=(Precondition("amount", (amount,)),),
    )

    rows = mapped_rows(dynamo, table)

    assert rows.update(write) is written
    assert read_order(dynamo, table)["payment_status"] == ("paid" if written else "payment_pending")


def test_missing_index_of_existing_table_is_no_error(dynamo: DynamoFixture) -> None:
    table = create_orders(dynamo)
    world = InMemoryStack(rows=mapped_rows(dynamo, table, EXISTING_TABLES="customers,orders"))

    found = world.finder().find(SweepRequest())

    assert (found.items, found.error) == ((), None)


def test_missing_index_of_own_table_is_reported(dynamo: DynamoFixture) -> None:
    table = create_orders(dynamo)
    world = InMemoryStack(rows=mapped_rows(dynamo, table))

    found = world.finder().find(SweepRequest())

    assert found.error is not None
    assert "the table 'orders' cannot be used (ValidationException)" in found.error


def test_other_error_of_existing_table_is_reported(dynamo: DynamoFixture) -> None:
    table = create_orders(dynamo, with_index=True)
    ports = ports_for(dynamo, table, EXISTING_TABLES="orders")  # without the mapping
    world = InMemoryStack(rows=MappedRows(ports))

    assert world.finder().find(SweepRequest()).error is not None


def test_order_without_job_is_found_through_mapped_index(dynamo: DynamoFixture) -> None:
    table = create_orders(dynamo, with_index=True)
    world = InMemoryStack(rows=mapped_rows(dynamo, table, EXISTING_TABLES="orders"))
    world.clock.time += timedelta(hours=1)

    [item] = world.finder().find(SweepRequest()).items

    assert item.message == {"job": "payment.charge", "v": 1, "order_id": "18452"}


def test_partition_is_deleted_through_mapped_key(dynamo: DynamoFixture) -> None:
    name = f"their-{dynamo.tables['import_events']}"
    columns = {"record_id": "rid", "event_id": "eid"}
    dynamo.admin.create_table(
        TableName=name,
        KeySchema=[
            {"AttributeName": "rid", "KeyType": "HASH"},
            {"AttributeName": "eid", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": one, "AttributeType": "S"} for one in columns.values()
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    for key in (("7", "a"), ("7", "b"), ("8", "a")):
        item = dict(zip(columns.values(), map(serialize, key), strict=True))
        dynamo.admin.put_item(TableName=name, Item=item)
    table = BusinessTable(dynamo.client, name, "import_events", columns=columns)

    assert table.delete_partition({"record_id": "7"}, sort="event_id", dry_run=False) == 2
    assert dynamo.admin.scan(TableName=name)["Count"] == 1


def test_malformed_mapping_is_reported_by_variable() -> None:
    environ = {"ORDERS_TABLE": "x", "ORDERS_COLUMNS": "amount=total"}
    with pytest.raises(NotConfiguredError, match="ORDERS_COLUMNS: Invalid JSON"):
        Settings.from_env(environ, [PaymentCharge])
