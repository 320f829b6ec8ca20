"""The stream's consumer: failures are reported, and the rest of the batch is published."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from oncely.handlers.publish_ended_jobs import handler
from tests.support.in_memory_stack import InMemoryStack, charge_message

unwrapped_handler: Any = vars(handler)["__wrapped__"]


def publish_batch(world: InMemoryStack, monkeypatch: pytest.MonkeyPatch, orders: str) -> object:
    monkeypatch.setattr("oncely.handlers.publish_ended_jobs.get_publisher", world.publisher)
    records = [
        {"dynamodb": {"Keys": {"job_key": {"S": key(order)}}, "SequenceNumber": f"10{order}"}}
        for order in orders
    ]
    return unwrapped_handler({"Records": records}, None)


def key(order: str) -> str:
    return f"payment.charge:order_{order}"


def test_batch_reports_only_failed_job_and_publishes_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    world = InMemoryStack()
    for order in "123":
        world.add_order(order)
        world.run(charge_message(order))
    send = world.outbox.send

    def breaks_on_the_second(bodies: Sequence[str], *, groups: Sequence[str | None]) -> list[bool]:
        if json.loads(bodies[0])["order_id"] == "2":
            raise ValueError("poisoned")
        return send(bodies, groups=groups)

    monkeypatch.setattr(world.outbox, "send", breaks_on_the_second)

    answer = publish_batch(world, monkeypatch, "123")

    assert answer == {"batchItemFailures": [{"itemIdentifier": "102"}]}
    assert [world.job(key(order)).expires_at is not None for order in "123"] == [True, False, True]


def test_unreadable_job_stays_due_without_blocking_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    world = InMemoryStack()
    world.add_order("1")
    world.run(charge_message("1"))
    row = world.job(key("1"))
    world.store.jobs[row.job_key] = replace(row, message={"job": "payment.charge", "v": 2})

    assert publish_batch(world, monkeypatch, "1") == {"batchItemFailures": []}
    assert world.job(key("1")).due_at == row.due_at
