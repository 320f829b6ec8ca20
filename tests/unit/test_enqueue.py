"""Enqueue: the row first, then the message. A duplicate returns the first job."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, cast

import pytest

from oncely.aws.sqs import MessageSender
from oncely.core.decide import MESSAGE_GRACE
from oncely.core.due import SweepStep, sweep_step
from oncely.core.errors import InvalidKeyError, InvalidMessageError, NotConfiguredError
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.enqueue.enqueuer import Enqueuer, EnqueueResult
from oncely.jobs.payment_charge import PaymentCharge
from oncely.jobs.receipt_send import ReceiptSend
from tests.support.crash_points import CrashingPort, CrashPlan, SimulatedCrashError
from tests.support.fakes import FakeClock, FakeMessageSender
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.stored_rows import InspectableStore
from tests.unit.report_job import ReportBuild, report_message
from tests.unit.samples import KEY, make_claim


@dataclass
class Producer:
    store: InspectableStore = field(default_factory=InspectableStore)
    outbox: FakeMessageSender = field(default_factory=FakeMessageSender)
    clock: FakeClock = field(default_factory=FakeClock)
    queues: list[str] = field(default_factory=list)
    unknown: frozenset[str] = frozenset()

    def enqueuer(self, outbox: MessageSender | None = None) -> Enqueuer:
        def queue(name: str) -> MessageSender:
            if name in self.unknown:
                raise NotConfiguredError(f"no address is given for queue {name!r}")
            self.queues.append(name)
            return outbox or cast("Any", self.outbox)

        world = InMemoryStack(
            contracts=(PaymentCharge, ReportBuild), store=self.store, clock=self.clock
        )
        return replace(world.enqueuer(), sender_for_queue=queue)

    @property
    def sent(self) -> list[dict[str, object]]:
        return [json.loads(body) for body in self.outbox.sent]


@pytest.fixture
def producer() -> Producer:
    return Producer()


def test_new_job_has_ready_row_and_message(producer: Producer) -> None:
    result = producer.enqueuer().enqueue(charge_message(amount=1250))

    row = producer.store.jobs[KEY]
    assert result == EnqueueResult(job_key=KEY, status=Status.READY, created=True, sent=True)
    assert (row.status, row.due_at) == (Status.READY, producer.clock.now() + MESSAGE_GRACE)
    assert producer.sent == [row.message] == [charge_message(amount=1250)]
    assert producer.queues == ["payments"]


def test_job_is_enqueued_as_its_message(producer: Producer) -> None:
    job, message = PaymentCharge(order_id="18452", amount=1250), charge_message(amount=1250)
    other = ReportBuild(list_id="7", token="a")
    enqueuer = producer.enqueuer()
    enqueuer.check([job, message])

    enqueuer.enqueue(job)
    enqueuer.enqueue_many([other])

    assert producer.sent == [message, report_message("a")]
    assert producer.store.jobs[KEY].message == message
    assert enqueuer.compare(job) == enqueuer.compare(message) == enqueuer.enqueue(message)


def test_job_is_scheduled_by_argument_or_by_its_field(producer: Producer) -> None:
    later = producer.clock.now() + timedelta(days=1)
    enqueuer = producer.enqueuer()
    for result in (
        enqueuer.enqueue(ReportBuild(list_id="7", token="a"), run_at=later),
        enqueuer.enqueue(ReportBuild(list_id="7", token="b", run_at=later)),
    ):
        assert (result.created, result.sent, result.run_at) == (True, False, later)


def test_unknown_job_is_the_same_error_as_its_message(producer: Producer) -> None:
    jobs = (ReceiptSend(order_id="18452"), {"job": "receipt.send", "v": 1, "order_id": "18452"})
    errors = []
    for job in jobs:
        with pytest.raises(InvalidMessageError) as caught:
            producer.enqueuer().enqueue(job)
        errors.append(str(caught.value))
    assert set(errors) == {
        "unknown job type 'receipt.send'; known job types: payment.charge, report.build"
    }


def test_row_is_due_for_resend_when_producer_dies_before_send(producer: Producer) -> None:
    dying: Any = CrashingPort(producer.outbox, CrashPlan(crash_at=1, crash_after=False))

    with pytest.raises(SimulatedCrashError):
        producer.enqueuer(dying).enqueue(charge_message())

    row = producer.store.jobs[KEY]
    assert producer.sent == []
    assert sweep_step(row, producer.clock.now()) is SweepStep.NONE
    assert sweep_step(row, producer.clock.now() + MESSAGE_GRACE) is SweepStep.RESEND


def test_duplicate_returns_first_job_and_sends_nothing(producer: Producer) -> None:
    producer.enqueuer().enqueue(charge_message())
    producer.store.claim(make_claim(now=producer.clock.now()))

    again = producer.enqueuer().enqueue(charge_message())

    assert again == EnqueueResult(job_key=KEY, status=Status.STARTED, created=False, sent=False)
    assert len(producer.sent) == 1


def test_conflicting_amount_is_named_and_not_sent(producer: Producer) -> None:
    producer.enqueuer().enqueue(charge_message(amount=1250))
    producer.store.claim(make_claim(now=producer.clock.now(), message=charge_message(amount=1250)))

    again = producer.enqueuer().enqueue(charge_message(amount=9900, currency="eur"))

    assert again.conflict == "amount is 1250 in the existing job, 9900 here"
    assert (again.created, again.sent, len(producer.sent)) == (False, False, 1)
    assert producer.store.jobs[KEY].message["amount"] == 1250


@pytest.mark.parametrize("more_first", [True, False])
def test_only_message_with_more_fields_is_resent(producer: Producer, *, more_first: bool) -> None:
    messages = [charge_message(), charge_message(amount=1250)]
    first, second = reversed(messages) if more_first else messages
    producer.enqueuer().enqueue(first)
    producer.store.claim(make_claim(now=producer.clock.now(), message=first))

    again = producer.enqueuer().enqueue(second)

    assert (again.created, again.sent, again.conflict) == (False, not more_first, None)
    assert producer.sent[-1]["amount"] == 1250, "the worker checks it"


@pytest.mark.parametrize("right", [charge_message(), charge_message(amount=1250)])
def test_other_message_for_unclaimed_job_is_sent(
    producer: Producer, right: dict[str, object]
) -> None:
    producer.enqueuer().enqueue(charge_message(amount=1))

    again = producer.enqueuer().enqueue(right)

    assert (again.created, again.sent, again.conflict) == (False, True, None)
    assert producer.sent[-1] == right, "the worker checks it"


@pytest.mark.parametrize(
    "value", [{"amount": 9900}, {"currency": "usd"}, {"customer_id": "customer_8"}]
)
def test_value_that_differs_from_claim_conflicts(
    producer: Producer, value: dict[str, object]
) -> None:
    producer.enqueuer().enqueue(charge_message())
    producer.store.claim(make_claim(now=producer.clock.now(), amount=1250, currency="eur"))

    again = producer.enqueuer().enqueue({**charge_message(), **value})

    assert again.conflict
    assert len(producer.sent) == 1


def test_results_keep_order_of_messages(producer: Producer) -> None:
    orders = [str(number) for number in range(30)]

    results = producer.enqueuer().enqueue_many(charge_message(order) for order in orders)

    keys = [f"payment.charge:order_{order}" for order in orders]
    assert [result.job_key for result in results] == keys
    assert [message["order_id"] for message in producer.sent] == orders
    assert all(result.created and result.sent for result in results)


def test_messages_go_to_their_own_queues_in_one_call(producer: Producer) -> None:
    messages = [charge_message("1"), report_message("a"), charge_message("2")]
    results = producer.enqueuer().enqueue_many(messages)
    assert producer.queues == ["payments", "reports"]
    assert [result.sent for result in results] == [True, True, True]


def test_two_equal_messages_in_one_call_are_sent_once(producer: Producer) -> None:
    results = producer.enqueuer().enqueue_many([charge_message(), charge_message()])
    assert sorted(result.created for result in results) == [False, True]
    assert len(producer.sent) == 1


def test_unsent_message_leaves_ready_row_that_is_due(producer: Producer) -> None:
    producer.outbox.fails_at = frozenset({1})

    results = producer.enqueuer().enqueue_many(map(charge_message, "123"))

    assert [result.created for result in results] == [True, True, True]
    assert [result.sent for result in results] == [True, False, True]
    row = producer.store.jobs[JobKey("payment.charge:order_2")]
    assert sweep_step(row, producer.clock.now() + timedelta(minutes=15)) is SweepStep.RESEND


@pytest.mark.parametrize(
    ("bad", "error"),
    [(charge_message(amount=-1), InvalidMessageError), (charge_message(" "), InvalidKeyError)],
)
def test_one_invalid_message_stops_all_before_any_write(
    bad: dict[str, object], error: type[Exception], producer: Producer
) -> None:
    with pytest.raises(error):
        producer.enqueuer().enqueue_many([charge_message("1"), bad])
    assert ([*producer.store.jobs], producer.sent) == ([], [])


def test_unconfigured_queue_stops_all_before_any_write(producer: Producer) -> None:
    producer.unknown = frozenset({"reports"})

    with pytest.raises(NotConfiguredError):
        producer.enqueuer().enqueue_many([charge_message("1"), report_message("a")])
    with pytest.raises(NotConfiguredError):
        producer.enqueuer().enqueue(report_message("a"))

    assert ([*producer.store.jobs], producer.sent) == ([], [])


class ForbiddenSender:
    """A queue that is gone, or that this role may not send to."""

    def send(self, bodies: Sequence[str], *, groups: Sequence[str | None] = ()) -> list[bool]:
        raise NotConfiguredError("queue payments takes no messages (AccessDenied)")


def test_forbidden_queue_error_says_that_job_is_stored(producer: Producer) -> None:
    with pytest.raises(NotConfiguredError, match=r"AccessDenied.*the row of the job exists"):
        producer.enqueuer(cast("Any", ForbiddenSender())).enqueue(charge_message())
    row = producer.store.jobs[KEY]
    assert sweep_step(row, producer.clock.now() + MESSAGE_GRACE) is SweepStep.RESEND
