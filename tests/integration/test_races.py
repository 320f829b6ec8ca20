"""Many concurrent workers on an engine with real conditional writes: one of them wins."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import pytest
from botocore.config import Config

from oncely.alerts.budget import ALERT_WINDOW, AlertCause, AlertDelivery, AlertKind, CountedAlert
from oncely.alerts.budgeted_notifier import DynamoAlertBudget
from oncely.aws.client_config import DYNAMODB
from oncely.core.inserter import UniqueWindow, WindowTaken
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.core.outcomes import Duplicate, LeasedElsewhere, NotRun, NotRunCause, RunOutcome
from oncely.core.run_job import JobRunner
from oncely.core.store import Claimed, ClaimFailed, Created
from oncely.ports import SystemClock, new_owner_token, random_jitter
from oncely.providers.stripe.payments import StripePayments
from tests.conformance.samples import make_claim, make_ready_job, time_at
from tests.integration.ping import ping_contract, ping_message
from tests.support.dynamo import DynamoFixture
from tests.support.fakes import FakeMessageSender, FakeNotifier
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.load_size import choose_size
from tests.support.outcomes import is_duplicate, is_finished
from tests.support.shipped_sandbox import ShippedSandbox

WORKERS = choose_size(8, full=16)
ENQUEUERS = 8
ORDERS = choose_size(12, full=200)
ROUNDS = choose_size(10, full=50)
# The test is about who wins the race, not about how long a loaded machine takes.
PATIENT = DYNAMODB.merge(Config(connect_timeout=10, read_timeout=20))

T = TypeVar("T")


def run_concurrently(racers: Sequence[Callable[[], T]]) -> list[T]:
    gate = threading.Barrier(len(racers))

    def go(racer: Callable[[], T]) -> T:
        gate.wait()
        return racer()

    with ThreadPoolExecutor(len(racers)) as pool:
        return list(pool.map(go, racers))


@pytest.fixture
def sandbox() -> Iterator[ShippedSandbox]:
    with ShippedSandbox(honors_idempotency_keys=False) as running:
        yield running


class RacingWorker:
    """A worker with its own clients and tokens, and the machine's clock."""

    def __init__(self, dynamo: DynamoFixture, **ports: Any) -> None:  # noqa: ANN401  # fields of a world
        client = dynamo.separate_client(config=PATIENT)
        self.world = InMemoryStack(store=dynamo.store(client), rows=dynamo.rows(client), **ports)
        self._clock = SystemClock()
        self._runner: JobRunner = replace(
            self.world.runner(), clock=self._clock, new_token=new_owner_token
        )

    def deliver(self, message: Mapping[str, object]) -> RunOutcome:
        deadline = self._clock.now() + timedelta(minutes=5)
        try:
            return self._runner.run(json.dumps(message), deadline=deadline)
        except Exception as error:  # noqa: BLE001  # an outcome like any other, as in a batch
            return NotRun(cause=NotRunCause.ERROR, error=error)


def deliver_concurrently(
    workers: Sequence[RacingWorker], messages: Sequence[Mapping[str, object]]
) -> list[RunOutcome]:
    gate = threading.Barrier(len(workers))

    def deliver_all(worker: RacingWorker) -> list[RunOutcome]:
        outcomes = []
        for message in messages:
            gate.wait()
            outcomes.append(worker.deliver(message))
        return outcomes

    with ThreadPoolExecutor(len(workers)) as pool:
        outcomes = [outcome for batch in pool.map(deliver_all, workers) for outcome in batch]
    return outcomes + [workers[0].deliver(message) for message in messages]


def assert_one_run_each(outcomes: Sequence[RunOutcome], *, jobs: int) -> None:
    assert all(is_finished(one) or isinstance(one, Duplicate | LeasedElsewhere) for one in outcomes)
    assert sum(is_finished(one) for one in outcomes) == jobs
    # At least the last delivery is an ordinary duplicate.
    assert sum(is_duplicate(one) for one in outcomes) >= jobs


@pytest.mark.mass
def test_racing_workers_charge_orders_once(dynamo: DynamoFixture, sandbox: ShippedSandbox) -> None:
    orders = [str(number) for number in range(ORDERS)]
    make = partial(StripePayments.from_api_key, "sk_test_1", api_base=sandbox.url)
    payments = [make() for _ in range(WORKERS)]
    workers = [RacingWorker(dynamo, payments=provider) for provider in payments]
    world = workers[0].world
    for order_id in orders:
        world.add_order(order_id)

    outcomes = deliver_concurrently(workers, [charge_message(order_id) for order_id in orders])

    charges = Counter(charge.metadata["order_id"] for charge in sandbox.stripe.ledger.charges)
    assert charges == dict.fromkeys(orders, 1)
    assert_one_run_each(outcomes, jobs=len(orders))
    for order_id in orders:
        job, order = world.job(f"payment.charge:order_{order_id}"), world.order(order_id)
        assert (job.status, job.fence, job.attempts) == (Status.FINISHED, 1, 1)
        assert (order["status"], order["charge_id"]) == ("paid", (job.result or {})["charge_id"])


@pytest.mark.mass
def test_effect_guarded_only_by_claim_happens_once(dynamo: DynamoFixture) -> None:
    pings: list[JobKey] = []
    workers = [RacingWorker(dynamo, contracts=(ping_contract(pings),)) for _ in range(WORKERS)]
    outcomes = deliver_concurrently(workers, [ping_message(number) for number in range(ROUNDS)])
    assert sorted(pings) == sorted({f"test.ping:{number}" for number in range(ROUNDS)})
    assert_one_run_each(outcomes, jobs=ROUNDS)


@pytest.mark.mass
def test_exactly_one_concurrent_claim_wins(dynamo: DynamoFixture) -> None:
    stores = [dynamo.store(dynamo.separate_client(config=PATIENT)) for _ in range(WORKERS)]
    keys = [JobKey(f"payment.charge:order_{number}") for number in range(ROUNDS)]
    for key in keys[::2]:
        stores[0].create(make_ready_job(key))

    for key in keys:
        claims = [partial(store.claim, make_claim(job_key=key)) for store in stores]
        results = run_concurrently(claims)

        (winner,) = [result.job for result in results if isinstance(result, Claimed)]
        refused = [result.row for result in results if isinstance(result, ClaimFailed)]
        assert (refused, stores[0].get(key)) == ([winner] * (WORKERS - 1), winner)
        assert (winner.fence, winner.attempts) == (1, 1)


@pytest.mark.mass
def test_exactly_one_concurrent_producer_creates_and_sends_job(dynamo: DynamoFixture) -> None:
    outbox: Any = FakeMessageSender()
    producers = [
        replace(dynamo.app(client).enqueuer, sender_for_queue=lambda _queue: outbox)
        for client in [dynamo.separate_client(config=PATIENT) for _ in range(ENQUEUERS)]
    ]

    for number in range(ROUNDS):
        message = charge_message(str(number))
        results = run_concurrently([partial(producer.enqueue, message) for producer in producers])

        assert Counter(result.created for result in results) == {True: 1, False: ENQUEUERS - 1}
        assert {result.status for result in results} == {Status.READY}
        assert len(outbox.sent) == number + 1


@pytest.mark.mass
def test_exactly_one_concurrent_job_gets_unique_window(dynamo: DynamoFixture) -> None:
    clients = [dynamo.separate_client(config=PATIENT) for _ in range(ENQUEUERS)]
    inserters = [dynamo.inserter(client) for client in clients]

    for number in range(ROUNDS):
        window = UniqueWindow(name=f"sync.import:{number}", now=time_at(0), until=time_at(600))
        jobs = [make_ready_job(JobKey(f"sync.import:{number}:{n}")) for n in range(ENQUEUERS)]
        results = run_concurrently(
            [
                partial(inserter.insert_unique, job, window)
                for inserter, job in zip(inserters, jobs, strict=True)
            ]
        )

        (created,) = [result.job for result in results if isinstance(result, Created)]
        held = [result.holder for result in results if isinstance(result, WindowTaken)]
        assert held == [created.job_key] * (ENQUEUERS - 1)
        assert [dynamo.row(job.job_key) is not None for job in jobs].count(True) == 1


def test_concurrent_alerters_alert_once(dynamo: DynamoFixture) -> None:
    alerts = FakeNotifier()
    review = replace(make_ready_job(), status=Status.NEEDS_REVIEW, due_at=SystemClock().now())
    dynamo.store().create(review)
    clients = [dynamo.separate_client(config=PATIENT) for _ in range(WORKERS)]
    world = InMemoryStack(alerts=alerts)
    racers = [
        replace(
            world.alerter(store=dynamo.store(client), clock=SystemClock()), jitter=random_jitter
        )
        for client in clients
    ]

    done = run_concurrently([partial(racer.alert_if_due, review.job_key) for racer in racers])

    assert Counter(done) == {AlertDelivery.DELIVERED: 1, AlertDelivery.NOT_DUE: WORKERS - 1}
    assert len(alerts.sent) == 1


def test_concurrent_alerts_are_each_counted_once(dynamo: DynamoFixture) -> None:
    kind = AlertKind(cause=AlertCause.CONFLICT, job_type="payment.charge")
    budgets = [
        DynamoAlertBudget(dynamo.separate_client(config=PATIENT), dynamo.jobs_table)
        for _ in range(WORKERS)
    ]

    def count(seconds: int) -> list[CountedAlert]:
        return run_concurrently(
            [partial(budget.count, kind, now=time_at(seconds)) for budget in budgets]
        )

    numbers = list(range(1, WORKERS + 1))
    assert sorted(one.number for one in count(0)) == numbers
    later = count(int(ALERT_WINDOW.total_seconds()))
    assert sorted(one.number for one in later) == numbers
    assert sorted(one.counted_before for one in later) == [*[0] * (WORKERS - 1), WORKERS]


def test_conflict_of_one_job_is_reserved_by_one_worker(dynamo: DynamoFixture) -> None:
    kind = AlertKind(cause=AlertCause.CONFLICT, job_type="payment.charge")
    racers = [
        partial(
            DynamoAlertBudget(dynamo.separate_client(config=PATIENT), dynamo.jobs_table).reserve,
            kind,
            "payment.charge:order_1",
            now=time_at(0),
            until=time_at(60),
        )
        for _ in range(WORKERS)
    ]

    assert Counter(run_concurrently(racers)) == {None: 1, time_at(60): WORKERS - 1}
