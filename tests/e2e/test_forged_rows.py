"""The permissions of a producer or of another worker neither charge nor erase a proof."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from oncely.core.job_row import new_job
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.core.row_items import serialize_job
from oncely_cdk.job_items import new_row_attributes
from tests.e2e import scenarios
from tests.e2e.deployed_stack import StackClient, wait_for


def test_payment_message_in_row_of_other_type_is_not_sent(deployment: StackClient) -> None:
    """A compromised sync worker can write any rows of its own job types."""
    scenarios.put_order(deployment, "forged")
    now = datetime.now(tz=UTC)
    forged = new_job(
        JobKey("sync.contact:hubspot:forged:1"),
        "sync.contact",
        {"job": "payment.charge", "v": 1, "order_id": "forged"},
        now=now - timedelta(hours=1),
        due_at=now - timedelta(minutes=1),
        actor="producer",
        reason="enqueued",
    )
    deployment.client("dynamodb").put_item(
        TableName=deployment.outputs["JobsTableName"], Item=serialize_job(forged)
    )

    deployment.reconcile(key=forged.job_key)

    review = deployment.wait_for_job(forged.job_key, "needs_review")
    assert "holds the message of payment.charge:order_forged" in review["last_error"]
    assert deployment.job("payment.charge:order_forged") is None
    assert deployment.order("forged")["status"] == "payment_pending"
    assert scenarios.count_charges(deployment, "forged") == 0


def producer_client(deployment: StackClient) -> Any:  # noqa: ANN401  # boto3's own
    environment = deployment.once(scenarios.enqueue_as_producer)
    return boto3.client(
        "dynamodb",
        endpoint_url=deployment.engine.url,
        region_name=environment["AWS_DEFAULT_REGION"],
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
    )


def test_end_that_producer_inserts_is_reviewed_and_not_published(deployment: StackClient) -> None:
    scenarios.put_order(deployment, "inserted")
    now = datetime.now(tz=UTC)
    invented = replace(
        new_job(
            JobKey("payment.charge:order_inserted"),
            "payment.charge",
            {"job": "payment.charge", "v": 1, "order_id": "inserted"},
            now=now - timedelta(hours=1),
            due_at=now - timedelta(minutes=1),
            actor="producer",
            reason="enqueued",
        ),
        status=Status.FINISHED,
    )
    row = serialize_job(invented)
    assert row.keys() <= set(new_row_attributes())
    names = ", ".join(f"'{name}': ?" for name in row)
    producer_client(deployment).execute_statement(
        Statement=f'INSERT INTO "{deployment.outputs["JobsTableName"]}" VALUE {{{names}}}',
        Parameters=[*row.values()],
    )

    deployment.reconcile(key=invented.job_key)

    review = deployment.wait_for_job(invented.job_key, "needs_review")
    assert "inserted as finished" in review["last_error"]
    # Its follow-up would be a receipt for a payment that was never made.
    assert deployment.job("receipt.send:order_inserted") is None
    assert deployment.order("inserted")["status"] == "payment_pending"


def test_dishonest_producer_cannot_replace_finished_row(deployment: StackClient) -> None:
    producer = producer_client(deployment)
    key, table = "payment.charge:order_produced", deployment.outputs["JobsTableName"]
    # Once its end is published, nothing else writes the row.
    proof = wait_for(
        lambda: "expires_at" in (row := deployment.job(key) or {}) and row, "its receipt is sent"
    )
    item = {"job_key": {"S": key}, "status": {"S": "ready"}}
    values = "{'job_key': ?, 'status': ?}"
    insert = {"Statement": f'INSERT INTO "{table}" VALUE {values}', "Parameters": [*item.values()]}
    attempts: dict[str, list[Callable[[], object]]] = {
        "AccessDenied": [
            lambda: producer.put_item(TableName=table, Item=item),
            lambda: producer.delete_item(TableName=table, Key={"job_key": item["job_key"]}),
            lambda: producer.update_item(
                TableName=table,
                Key={"job_key": item["job_key"]},
                UpdateExpression="REMOVE provider_ref",
            ),
        ],
        "DuplicateItemException": [lambda: producer.execute_statement(**insert)],
    }

    for expected, calls in attempts.items():
        for call in calls:
            with pytest.raises(ClientError) as refused:
                call()
            assert refused.value.response["Error"]["Code"].startswith(expected)
    assert deployment.job(key) == proof
    deployment.send("PaymentsQueueUrl", scenarios.charge_message("produced"))
    assert scenarios.count_charges(deployment, "produced") == 1
