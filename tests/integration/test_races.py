"""Many workers at once, on an engine whose conditional writes are real: one of them wins."""

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

from infra.local.sandbox import StripeSandbox
from oncely.adapters.aws import DYNAMODB
from oncely.adapters.stripe_payments import StripePayments
from oncely.adapters.system import SystemClock, new_token, spread
from oncely.contracts import CONTRACTS
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Status
from oncely.ports import Claimed, ClaimRefused, Created, Window, WindowHeld
from oncely.registry import Registry
from oncely.services.deadline import Deadline
from oncely.services.enqueue import Enqueuer
from oncely.services.outcomes import Broken, Duplicate, Finished, HeldElsewhere, Outcome
from oncely.services.run_job import JobRunner
from oncely.services.tell import Teller, Telling
from tests.contract.samples import a_claim, a_ready_job, at
from tests.integration.ping import ping, pinging_into
from tests.support.dynamo import Dynamo
from tests.support.fakes import FakeAlerts, FakeOutbox
from tests.support.mass import sized
from tests.support.world import World, charge

WORKERS = sized(8, full=16)
ENQUEUERS = 8
ORDERS = sized(12, full=200)
ROUNDS = sized(10, full=50)
# A race is about who wins, not about how long a loaded machine takes to say so.
PATIENT = DYNAMODB.merge(Config(connect_timeout=10, read_timeout=20))

T = TypeVar("T")


def at_once(racers: Sequence[Callable[[], T]]) -> list[T]:
    """Let all of them go at the same moment."""
    gate = threading.Barrier(len(racers))

    def go(racer: Callable[[], T]) -> T:
        gate.wait()
        return racer()

    with ThreadPoolExecutor(len(racers)) as pool:
        return list(pool.map(go, racers))


@pytest.fixture
def stripe() -> Iterator[StripeSandbox]:
    """A provider that charges twice when it is asked twice."""
    with StripeSandbox(honours_keys=False) as sandbox:
        yield sandbox


class Worker:
    """A process of its own: its clients, its tokens, the machine's clock."""

    def __init__(self, dynamo: Dynamo, **ports: Any) -> None:  # noqa: ANN401  # fields of a world
        client = dynamo.another_client(config=PATIENT)
        self.world = World(store=dynamo.store(client), rows=dynamo.rows(client), **ports)
        self._clock = SystemClock()
        self._runner: JobRunner = replace(
            self.world.runner(), clock=self._clock, new_token=new_token
        )

    def deliver(self, message: Mapping[str, object]) -> Outcome:
        deadline = Deadline(self._clock.now() + timedelta(minutes=5), self._clock)
        try:
            return self._runner.run(json.dumps(message), deadline=deadline)
        except Exception as error:  # noqa: BLE001  # an outcome like any other, as in a batch
            return Broken(error)


def all_at_once(
    workers: Sequence[Worker], messages: Sequence[Mapping[str, object]]
) -> list[Outcome]:
    """Deliver each message to every worker, at the same moment, and then once more."""
    gate = threading.Barrier(len(workers))

    def deliver_all(worker: Worker) -> list[Outcome]:
        outcomes = []
        for message in messages:
            gate.wait()
            outcomes.append(worker.deliver(message))
        return outcomes

    with ThreadPoolExecutor(len(workers)) as pool:
        outcomes = [outcome for told in pool.map(deliver_all, workers) for outcome in told]
    return outcomes + [workers[0].deliver(message) for message in messages]


def assert_one_run_each(outcomes: Sequence[Outcome], *, jobs: int) -> None:
    counts = Counter(type(outcome) for outcome in outcomes)
    assert counts.keys() <= {Finished, Duplicate, HeldElsewhere}
    assert counts[Finished] == jobs
    # At least the one delivery after all the others is a plain duplicate.
    assert counts[Duplicate] >= jobs


@pytest.mark.mass
def test_concurrent_workers_charge_each_order_once(dynamo: Dynamo, stripe: StripeSandbox) -> None:
    orders = [str(number) for number in range(ORDERS)]
    payments = [StripePayments.with_key("sk_test_1", api_base=stripe.url) for _ in range(WORKERS)]
    workers = [Worker(dynamo, payments=provider) for provider in payments]
    world = workers[0].world
    for order_id in orders:
        world.add_order(order_id)

    outcomes = all_at_once(workers, [charge(order_id) for order_id in orders])

    charges = Counter(charge.metadata["order_id"] for charge in stripe.ledger.charges)
    assert charges == dict.fromkeys(orders, 1)
    assert_one_run_each(outcomes, jobs=len(orders))
    for order_id in orders:
        job, order = world.job(f"payment.charge:order_{order_id}"), world.order(order_id)
        assert (job.status, job.fence, job.attempts) == (Status.FINISHED, 1, 1)
        assert (order["status"], order["charge_id"]) == ("paid", (job.result or {})["charge_id"])


@pytest.mark.mass
def test_effect_guarded_only_by_claim_happens_once(dynamo: Dynamo) -> None:
    pings: list[JobKey] = []
    contracts = (pinging_into(pings),)
    workers = [Worker(dynamo, contracts=contracts) for _ in range(WORKERS)]

    outcomes = all_at_once(workers, [ping(number) for number in range(ROUNDS)])

    assert sorted(pings) == sorted({f"test.ping:{number}" for number in range(ROUNDS)})
    assert_one_run_each(outcomes, jobs=ROUNDS)


@pytest.mark.mass
def test_exactly_one_concurrent_claim_wins(dynamo: Dynamo) -> None:
    stores = [dynamo.store(dynamo.another_client(config=PATIENT)) for _ in range(WORKERS)]
    keys = [JobKey(f"payment.charge:order_{number}") for number in range(ROUNDS)]
    for key in keys[::2]:
        stores[0].create(a_ready_job(key))

    for key in keys:
        results = at_once([partial(store.claim, a_claim(job_key=key)) for store in stores])

        (winner,) = [result.job for result in results if isinstance(result, Claimed)]
        refused = [result.row for result in results if isinstance(result, ClaimRefused)]
        assert refused == [winner] * (WORKERS - 1)
        assert stores[0].get(key) == winner
        assert (winner.fence, winner.attempts) == (1, 1)


@pytest.mark.mass
def test_exactly_one_concurrent_producer_creates_and_sends_job(dynamo: Dynamo) -> None:
    outbox = FakeOutbox()
    producers = [
        Enqueuer(
            registry=Registry(CONTRACTS),
            store=dynamo.store(client),
            windows=dynamo.windows(client),
            outbox=lambda _queue: outbox,
            clock=SystemClock(),
            new_token=new_token,
        )
        for client in [dynamo.another_client(config=PATIENT) for _ in range(ENQUEUERS)]
    ]

    for number in range(ROUNDS):
        message = charge(str(number))
        results = at_once([partial(producer.enqueue, message) for producer in producers])

        assert Counter(result.created for result in results) == {True: 1, False: ENQUEUERS - 1}
        assert {result.status for result in results} == {Status.READY}
        assert len(outbox.sent) == number + 1


@pytest.mark.mass
def test_exactly_one_concurrent_job_gets_unique_window(dynamo: Dynamo) -> None:
    all_windows = [dynamo.windows(dynamo.another_client(config=PATIENT)) for _ in range(ENQUEUERS)]

    for number in range(ROUNDS):
        window = Window(name=f"sync.import:{number}", now=at(0), until=at(600))
        jobs = [a_ready_job(JobKey(f"sync.import:{number}:{n}")) for n in range(ENQUEUERS)]
        results = at_once(
            [
                partial(windows.create, job, window)
                for windows, job in zip(all_windows, jobs, strict=True)
            ]
        )

        (created,) = [result.job for result in results if isinstance(result, Created)]
        held = [result.by for result in results if isinstance(result, WindowHeld)]
        assert held == [created.job_key] * (ENQUEUERS - 1)
        assert [dynamo.row(job.job_key) is not None for job in jobs].count(True) == 1


def test_concurrent_alerters_alert_once(dynamo: Dynamo) -> None:
    alerts = FakeAlerts()
    review = replace(a_ready_job(), status=Status.NEEDS_REVIEW, due_at=SystemClock().now())
    dynamo.store().create(review)
    racers = [
        Teller(
            store=dynamo.store(dynamo.another_client(config=PATIENT)),
            alerts=alerts,
            clock=SystemClock(),
            actor="reconciler",
            jitter=spread,
        )
        for _ in range(WORKERS)
    ]

    done = at_once([partial(racer.tell, review.job_key) for racer in racers])

    assert Counter(done) == {Telling.TOLD: 1, Telling.NOT_DUE: WORKERS - 1}
    assert len(alerts.told) == 1
