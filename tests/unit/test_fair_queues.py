"""Fair queues: every message of a tenant carries its group, wherever it is sent from."""

import json
import re
from collections.abc import Mapping
from typing import Any

import boto3
import pytest
from moto import mock_aws

from oncely.aws.clients import AwsClients
from oncely.aws.sqs import MessageSender
from oncely.core.effect_outcomes import Json
from oncely.core.repairs import Repair
from oncely.jobs.payment_charge import PaymentCharge
from oncely.jobs.receipt_send import ReceiptSend
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.repairs import repair_job
from tests.unit.samples import KEY


class ShopCharge(PaymentCharge):
    """The tenant is a part of the order id."""

    @classmethod
    def tenant(cls, values: Mapping[str, Json]) -> str | None:
        return str(values["order_id"])[:2]


@pytest.fixture
def world() -> InMemoryStack:
    stack = InMemoryStack()
    stack.add_order()
    return stack


def test_enqueued_messages_carry_their_customer(world: InMemoryStack) -> None:
    world.enqueuer().enqueue_many(
        [charge_message("1", customer_id="customer_7"), charge_message("2")]
    )
    assert world.outbox.groups == ["customer_7", None]


def test_contract_chooses_tenant() -> None:
    world = InMemoryStack(contracts=(ShopCharge, ReceiptSend))
    world.enqueuer().enqueue(charge_message("18452"))
    assert world.outbox.groups == ["18"]


def test_resent_message_carries_customer_of_claim(world: InMemoryStack) -> None:
    """A producer's message need not have the customer; the claim does."""
    world.run(charge_message())
    row = world.job(KEY)
    assert "customer_id" not in row.message
    PaymentCharge(order_id="18452").with_tools(world.tools).send_message(row)
    assert world.outbox.groups == ["customer_7"]


def test_follow_up_carries_customer_of_its_job(world: InMemoryStack) -> None:
    world.run(charge_message())
    world.publisher().publish(KEY)
    (body,) = world.outbox.sent
    assert json.loads(body)["job"] == "receipt.send"
    assert world.outbox.groups == ["customer_7"]


def test_redrive_carries_customer(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(charge_message(customer_id="customer_7"))
    world.outbox.groups.clear()
    repair_job(world, Repair.RESEND)
    assert world.outbox.groups == ["customer_7"]


def test_resubmission_carries_customer(world: InMemoryStack) -> None:
    world.payments.declines = True
    world.run(charge_message(customer_id="customer_7"))
    repair_job(world, Repair.RESUBMIT)
    assert world.outbox.groups == ["customer_7"]


def test_import_is_one_group() -> None:
    world = InMemoryStack()
    world.crm.add_contacts(3)
    world.run({"job": "sync.import", "v": 1, "source": "hubspot", "batch_id": "b"})
    assert world.outbox.groups == ["sync.import:hubspot:b"] * 3


@mock_aws
def test_group_of_any_tenant_is_valid_in_sqs() -> None:
    session = boto3.Session("test", "test", region_name="eu-central-1")
    url = session.client("sqs").create_queue(QueueName="payments")["QueueUrl"]
    entries: list[Any] = []
    clients = AwsClients(session)
    clients.sqs.meta.events.register(
        "before-parameter-build.sqs.SendMessageBatch",
        lambda params, **_: entries.extend(params["Entries"]),
    )
    sender = MessageSender(clients=clients, queue_url=url)

    assert sender.send(["a", "b", "c"], groups=["ada@example.com", None, "ü " * 200]) == [True] * 3

    groups = [one.get("MessageGroupId") for one in entries]
    assert groups[1] is None
    assert all(re.fullmatch(r"[a-z0-9]{64}", str(groups[place])) for place in (0, 2))
    assert groups[0] != groups[2]
