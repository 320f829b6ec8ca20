"""A team's own orders table and archive: a job uses them, even after the stack is recreated."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from oncely_cdk.stages import OncelySettings
from oncely_local.account import LocalAccount
from oncely_local.deploy import bootstrap, deploy, run_cdk
from oncely_local.engine import Engine, aws_environment, start_engine
from oncely_local.project import local_project
from oncely_local.sample_data import serialize_row
from tests.e2e import scenarios
from tests.e2e.deployed_stack import ENGINE_SETTINGS, StackClient, synthesize, wait_for
from tests.e2e.test_cli import run_cli_json
from tests.support.orders import order_row
from tests.support.shipped_sandbox import ShippedSandbox

TABLE: Final = "shop-orders"
COLUMNS: Final = {"order_id": "id", "amount": "total_cents", "status": "payment_status"}
WITH_OWN_ORDERS: Final = local_project().settings.model_copy(
    update={"existing_tables": {"orders": TABLE}, "table_columns": {"orders": COLUMNS}}
)


@pytest.fixture
def account(sandbox: ShippedSandbox, tmp_path: Path) -> Iterator[Engine]:
    with start_engine(tmp_path / "engine.log", settings=ENGINE_SETTINGS) as engine:
        yield engine


def create_orders(account: LocalAccount) -> None:
    account.client("dynamodb").create_table(
        TableName=TABLE,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )


def put_order(account: LocalAccount, order_id: str) -> None:
    order = order_row(payment_customer=f"cus_{order_id}")
    row = {COLUMNS.get(name, name): value for name, value in order.items()}
    others = {"id": order_id, "amount": "12.50 EUR", "status": "new"}
    account.client("dynamodb").put_item(TableName=TABLE, Item=serialize_row({**row, **others}))


def read_order(account: LocalAccount, order_id: str) -> dict[str, Any]:
    key = serialize_row({"id": order_id})
    found = account.client("dynamodb").get_item(TableName=TABLE, Key=key)["Item"]
    return {name: next(iter(value.values())) for name, value in found.items()}


def reason_on_job(account: LocalAccount, key: str) -> str | None:
    table = account.outputs()["JobsTableName"]
    found = account.client("dynamodb").get_item(
        TableName=table, Key=serialize_row({"job_key": key})
    )
    reason: str | None = found.get("Item", {}).get("last_error", {}).get("S")
    return reason


def deploy_with(
    settings: OncelySettings, engine: Engine, sandbox: ShippedSandbox, folder: Path
) -> Path:
    synthesize(settings, folder)
    bootstrap(engine.url, folder)
    deploy(engine.url, folder, providers=sandbox.url)
    return folder


@pytest.mark.slow
def test_jobs_run_on_own_table_and_archive_survives_recreation(
    account: Engine, sandbox: ShippedSandbox, tmp_path: Path
) -> None:
    local = LocalAccount(account.url)
    create_orders(local)
    assembly = deploy_with(WITH_OWN_ORDERS, account, sandbox, tmp_path / "first")
    put_order(local, "own_1")

    # No API key is stored yet: the job says so.
    outputs, message = local.outputs(), json.dumps(scenarios.charge_message("own_1"))
    local.client("sqs").send_message(QueueUrl=outputs["PaymentsQueueUrl"], MessageBody=message)
    held = wait_for(lambda: reason_on_job(local, "payment.charge:order_own_1"), "the job is held")
    assert "the secret 'stripe'" in held

    stack = StackClient(account, sandbox, assembly)  # stores the API keys
    stack.wait_for_job("payment.charge:order_own_1", "finished")
    after = read_order(local, "own_1")
    assert scenarios.count_charges(stack, "own_1") == 1
    theirs = (after["payment_status"], after["status"], after["amount"])
    assert theirs == ("paid", "new", "12.50 EUR")
    assert "charge_requested_at" not in after
    assert stack.reconcile()  # the table has no index to query
    found = run_cli_json(stack, "doctor")
    (orders,) = (one for one in found if one["check"] == "table orders")
    assert orders["message"].startswith("index charge_requested is missing: the reconciler")

    archive = stack.outputs["ArchiveBucketName"]
    wait_for(lambda: stack.archived_keys("history/"), "the history of the first job")
    before = set(stack.archived_keys("history/"))
    run_cdk(aws_environment(account.url), "destroy", "--app", str(assembly), "--force")
    again = WITH_OWN_ORDERS.model_copy(update={"existing_archive_bucket": archive})
    assembly = deploy_with(again, account, sandbox, tmp_path / "again")
    stack = StackClient(account, sandbox, assembly)
    put_order(local, "own_2")
    stack.send("PaymentsQueueUrl", scenarios.charge_message("own_2"))
    stack.wait_for_job("payment.charge:order_own_2", "finished")

    assert stack.outputs["ArchiveBucketName"] == archive
    wait_for(lambda: set(stack.archived_keys("history/")) > before, "more history")
