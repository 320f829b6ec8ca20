"""The stream's consumer: what failed is named, and everything else of its batch is done."""

import importlib
from typing import Any

import pytest

from oncely.domain.jobs import Job
from publish_ended.handler import handler
from tests.support.world import World, charge

# X-Ray opens its socket when it is imported; here that is still allowed.
importlib.import_module("aws_xray_sdk.core")


def key(order: str) -> str:
    return f"payment.charge:order_{order}"


def test_only_what_failed_is_named_and_a_batch_goes_on_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    for order in "123":
        world.add_order(order)
        world.run(charge(order))
    keep = world.archive.keep

    def breaks_on_the_second(job: Job) -> None:
        if job.job_key == key("2"):
            raise ValueError("poisoned")
        keep(job)

    monkeypatch.setattr(world.archive, "keep", breaks_on_the_second)
    monkeypatch.setattr("publish_ended.handler.publisher", world.publisher)
    shown = [
        {"dynamodb": {"Keys": {"job_key": {"S": key(order)}}, "SequenceNumber": f"10{order}"}}
        for order in "123"
    ]
    undressed: Any = vars(handler)["__wrapped__"]

    answer = undressed({"Records": shown}, None)

    assert answer == {"batchItemFailures": [{"itemIdentifier": "102"}]}
    assert [world.job(key(order)).expires_at is not None for order in "123"] == [True, False, True]
