"""Many workers import the same contacts while these change, on a real engine."""

import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from oncely.core.effect_outcomes import Json
from oncely.core.outcomes import Duplicate, Ended, LeasedElsewhere
from oncely.core.run_job import JobRunner
from oncely.core.text import format_time
from oncely.providers.interfaces import CrmRecord
from tests.support.dynamo import DynamoFixture
from tests.support.in_memory_stack import InMemoryStack
from tests.support.load_size import choose_size
from tests.support.outcomes import is_retried

VERSIONS = 4
CONTACTS = choose_size(15, full=100)
WORKERS = choose_size(8, full=16)
START = datetime(2026, 11, 16, tzinfo=UTC)


@dataclass
class ChangingCrm:
    """Each contact changes after each of its first reads."""

    reads: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def get_contact(self, record_id: str) -> CrmRecord:
        with self.lock:
            version = min(self.reads[record_id], VERSIONS - 1)
            self.reads[record_id] += 1
        at = START + timedelta(hours=version)
        properties: dict[str, Json] = {"version": str(version)}
        times = {"updatedAt": format_time(at)}
        body: dict[str, Json] = {"id": record_id, "properties": properties, **times}
        return CrmRecord(record_id=record_id, updated_at=at, archived=False, body=body)


def message(contact: int, event: int) -> dict[str, Any]:
    source = {"source": "hubspot", "source_id": str(contact), "event_id": str(event)}
    return {"job": "sync.contact", "v": 1, **source}


def work_until_done(world: InMemoryStack, runner: JobRunner, messages: list[dict[str, Any]]) -> int:
    again = 0
    for one in messages:
        while not isinstance(outcome := world.run(one, runner=runner), Ended | Duplicate):
            assert is_retried(outcome) or isinstance(outcome, LeasedElsewhere), outcome
            again += 1
    return again


@pytest.mark.mass
def test_each_contact_ends_at_its_newest_version(dynamo: DynamoFixture) -> None:
    world = InMemoryStack(store=dynamo.store(), rows=dynamo.rows())
    every = product(range(CONTACTS), range(VERSIONS))
    messages = [message(contact, event) for contact, event in every]
    shuffle = random.Random(16)  # noqa: S311  # a schedule, not a secret
    shares = [shuffle.sample(messages, len(messages)) for _ in range(WORKERS)]
    crm = ChangingCrm()

    def worker(share: list[dict[str, Any]]) -> int:
        client = dynamo.separate_client()
        store = dynamo.store(client)
        own = InMemoryStack(store=store, rows=dynamo.rows(client), tokens=world.tokens)
        own.crm = crm
        return work_until_done(own, own.runner(), share)

    with ThreadPoolExecutor(max_workers=WORKERS) as pool:
        again = sum(pool.map(worker, shares))

    deliveries = len(messages) * WORKERS
    print(f"{CONTACTS} contacts, {deliveries} deliveries, {again} looked again")  # noqa: T201  # figures
    for contact in range(CONTACTS):
        row: Any = world.rows.get("records", {"record_id": f"hubspot#{contact}"})
        assert row is not None
        assert row["record"]["properties"] == {"version": str(VERSIONS - 1)}
