"""Many workers import overlapping versions of the same contacts, on a real engine."""

import json
import random
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from oncely.domain.text import format_time
from oncely.run.outcomes import Duplicate, Finished, LeasedElsewhere, NotAttempted
from oncely.run.run_job import JobRunner
from tests.support.dynamo import DynamoFixture
from tests.support.in_memory_stack import InMemoryStack
from tests.support.load_size import choose_size

VERSIONS = 4
CONTACTS = choose_size(15, full=100)
WORKERS = choose_size(8, full=16)
START = datetime(2026, 11, 16, tzinfo=UTC)


def message(contact: int, version: int) -> str:
    at = format_time(START + timedelta(hours=version))
    record = {"id": str(contact), "properties": {"version": str(version)}, "updatedAt": at}
    source = {"source": "hubspot", "source_id": str(contact), "event_id": at}
    archived = {"archived": False}
    return json.dumps({"job": "sync.contact", "v": 1, **source, "record": {**record, **archived}})


def work_until_done(world: InMemoryStack, runner: JobRunner, bodies: list[str]) -> int:
    again = 0
    for body in bodies:
        while not isinstance(outcome := world.run(body, runner=runner), Finished | Duplicate):
            assert isinstance(outcome, NotAttempted | LeasedElsewhere), outcome
            again += 1
    return again


@pytest.mark.mass
def test_each_contact_ends_at_its_newest_version(dynamo: DynamoFixture) -> None:
    world = InMemoryStack(store=dynamo.store(), rows=dynamo.rows())
    every = product(range(CONTACTS), range(VERSIONS))
    bodies = [message(contact, version) for contact, version in every]
    shuffle = random.Random(16)  # noqa: S311  # a schedule, not a secret
    shares = [shuffle.sample(bodies, len(bodies)) for _ in range(WORKERS)]

    def worker(share: list[str]) -> int:
        client = dynamo.separate_client()
        store = dynamo.store(client)
        own = InMemoryStack(store=store, rows=dynamo.rows(client), tokens=world.tokens)
        return work_until_done(own, own.runner(), share)

    with ThreadPoolExecutor(max_workers=WORKERS) as pool:
        again = sum(pool.map(worker, shares))

    deliveries = len(bodies) * WORKERS
    print(f"{CONTACTS} contacts, {deliveries} deliveries, {again} looked again")  # noqa: T201  # figures
    for contact in range(CONTACTS):
        row = world.dependencies.rows.get("records", {"record_id": f"hubspot#{contact}"})
        assert row is not None
        assert row["record"] == json.loads(message(contact, VERSIONS - 1))["record"]
