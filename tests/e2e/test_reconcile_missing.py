"""Messages that were never sent, purged or lost: their orders are found and charged once."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from oncely.core.decide import MAX_BACKOFF
from oncely.core.job_row import new_job
from oncely.core.keys import JobKey, job_key
from oncely.core.lifecycle import Status
from oncely.core.store import JobStore
from oncely.core.text import format_time
from oncely.testing.sandbox import FaultKind
from tests.e2e.deployed_stack import StackClient, wait_for
from tests.e2e.scenarios import charge_message, count_charges, put_order
from tests.e2e.unresolved_jobs import (
    SWEEP_TIMEOUT_SECONDS,
    create_unresolved_job,
    get_job,
    job_store,
    run_sweep,
)
from tests.support.load_size import choose_size

LOST = choose_size(12, full=200)
DOWN = choose_size(12, full=500)
UNKNOWN = choose_size(120, full=2000)
SWEEPS = choose_size(1, full=4)
TABLES = ("JobsTableName", "OrdersTableName")
QUEUES = ("PaymentsQueueUrl", "DeadLetterQueueUrl")


def find_rows_about(deployment: StackClient, what: str, table: str) -> list[Any]:
    """Every row of a table that contains this text. Other tests use the rest."""
    client = deployment.client("dynamodb")
    pages = client.get_paginator("scan").paginate(TableName=deployment.outputs[table])
    return sorted((row for page in pages for row in page["Items"] if what in str(row)), key=str)


def wait_until_finished(deployment: StackClient, keys: list[JobKey]) -> None:
    def finished() -> bool:
        rows = (job_store(deployment).get(key) for key in keys)
        return all(row is not None and row.status is Status.FINISHED for row in rows)

    wait_for(finished, f"{len(keys)} jobs are finished", timeout_seconds=SWEEP_TIMEOUT_SECONDS)


@pytest.mark.mass
def test_purged_queues_lose_nothing(deployment: StackClient) -> None:
    now = datetime.now(UTC)
    ids = [f"purged-{number}" for number in range(LOST)]
    names = [deployment.outputs[queue].rpartition("/")[2] for queue in QUEUES]
    with deployment.pause_consumers(*names):
        for number, order_id in enumerate(ids):
            put_order(deployment, order_id, charge_requested_at=format_time(now))
            if number % 2:
                _enqueue(job_store(deployment), order_id, now)
            deployment.send(QUEUES[number % 4 == 0], charge_message(order_id))
        pending = [deployment.queue_depth(queue) for queue in QUEUES]
        for queue in QUEUES:
            deployment.client("sqs").purge_queue(QueueUrl=deployment.outputs[queue])

    assert min(pending) >= LOST // 4
    assert sum(pending) >= LOST
    # The rows become due only now: an earlier sweep would have sent messages before the purge.
    for number, order_id in enumerate(ids):
        put_order(
            deployment, order_id, charge_requested_at=format_time(now - timedelta(minutes=10))
        )
        if number % 2:
            _make_due(deployment, job_key("payment.charge", order_id, prefix="order_"))
    for _ in range(SWEEPS):
        run_sweep(deployment, job_type="payment.charge")

    wait_until_finished(
        deployment, [job_key("payment.charge", order_id, prefix="order_") for order_id in ids]
    )
    assert {count_charges(deployment, order_id) for order_id in ids} == {1}


@pytest.mark.mass
def test_unknown_jobs_resolve_after_provider_outage(deployment: StackClient) -> None:
    """Six failed lookups mean 30 minutes of waiting. The seventh of each job happens here."""
    outage = deployment.sandbox.faults.add(FaultKind.OUTAGE, method="GET", times=None)
    left = [
        create_unresolved_job(
            deployment, f"down-{number}", due=True, age=timedelta(minutes=33), unreachable=6
        )
        for number in range(DOWN)
    ]
    try:
        for _ in range(SWEEPS):
            run_sweep(deployment)
        during = [get_job(deployment, one.key) for one in left]
    finally:
        outage.rate = 0.0
    for one in left:
        _make_due(deployment, one.key)

    for _ in range(SWEEPS):
        run_sweep(deployment)

    assert {one.status for one in during} == {Status.UNKNOWN}
    assert {one.unreachable for one in during} == {7}
    # The write follows the decision by some milliseconds.
    waits = [one.due_at - one.updated_at for one in during if one.due_at]
    assert min(waits) >= MAX_BACKOFF - timedelta(seconds=1)
    assert {get_job(deployment, one.key).status for one in left} == {Status.FINISHED}
    assert {count_charges(deployment, one.order_id) for one in left} == {1}
    assert not any("order_down-" in told for told in deployment.alerts())


@pytest.mark.mass
def test_one_start_resolves_every_unknown_job(deployment: StackClient) -> None:
    """Each page starts the next one, and each charge is looked up once."""
    with ThreadPoolExecutor(8) as pool:
        left = list(
            pool.map(
                lambda number: create_unresolved_job(deployment, f"many-{number}", due=True),
                range(UNKNOWN),
            )
        )
    before = len(deployment.sandbox.ledger.requests)

    run_sweep(deployment)

    wait_until_finished(deployment, [one.key for one in left])
    asked = [one for one in deployment.sandbox.ledger.requests[before:] if one.method == "GET"]
    assert len(asked) < UNKNOWN * 1.2, "a list for each, and hardly a second look at any"
    assert {count_charges(deployment, one.order_id) for one in left} == {1}


def test_dry_run_lists_decisions_and_writes_nothing(deployment: StackClient) -> None:
    left = create_unresolved_job(deployment, "dry", status=Status.STARTED)
    doubtful = create_unresolved_job(
        deployment, "dry-doubtful", confirmed=False, age=timedelta(hours=25)
    )
    before = [find_rows_about(deployment, "dry", table) for table in TABLES]

    done = deployment.reconcile(key=left.key, dry_run=True)
    review = deployment.reconcile(key=doubtful.key, dry_run=True)

    assert (done["jobs"][0]["new"], review["jobs"][0]["new"]) == ("finished", "needs_review")
    assert [find_rows_about(deployment, "dry", table) for table in TABLES] == before
    assert deployment.alerts_about(doubtful.key) == []


def _enqueue(jobs: JobStore, order_id: str, at: datetime) -> None:
    jobs.create(
        new_job(
            job_key("payment.charge", order_id, prefix="order_"),
            "payment.charge",
            {"job": "payment.charge", "v": 1, "order_id": order_id},
            now=at,
            due_at=at + timedelta(minutes=15),
            actor="producer",
            reason="enqueued",
        )
    )


def _make_due(deployment: StackClient, key: JobKey) -> None:
    row = get_job(deployment, key)
    due = replace(row, due_at=datetime.now(UTC), version=row.version + 1)
    job_store(deployment).swap(row, due)
