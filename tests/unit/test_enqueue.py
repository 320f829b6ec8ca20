"""Unique enqueue: the row first, then the message; a second time the first job's answer."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from oncely.adapters.system import new_token
from oncely.contracts.payment_charge import PaymentCharge
from oncely.domain.due import Step, due_step
from oncely.domain.errors import InvalidKeyError, InvalidMessageError, NotConfiguredError
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Status
from oncely.domain.moves import MESSAGE_GRACE
from oncely.ports import Outbox
from oncely.registry import Registry
from oncely.services.enqueue import Enqueued, Enqueuer
from oncely.testing.memory import MemoryJobStore, MemoryWindows
from tests.support.fakes import FakeClock, FakeOutbox
from tests.support.mortal import DiedError, Fate, Mortal
from tests.support.world import charge
from tests.unit.report_contract import ReportBuild, report
from tests.unit.samples import KEY, a_claim


@dataclass
class Producer:
    store: MemoryJobStore = field(default_factory=MemoryJobStore)
    outbox: FakeOutbox = field(default_factory=FakeOutbox)
    clock: FakeClock = field(default_factory=FakeClock)
    queues: list[str] = field(default_factory=list)
    unknown: frozenset[str] = frozenset()

    def enqueuer(self, outbox: Outbox | None = None) -> Enqueuer:
        def queue(name: str) -> Outbox:
            if name in self.unknown:
                raise NotConfiguredError(f"no address is given for queue {name!r}")
            self.queues.append(name)
            return outbox or self.outbox

        return Enqueuer(
            registry=Registry([PaymentCharge, ReportBuild]),
            store=self.store,
            windows=MemoryWindows(self.store),
            outbox=queue,
            clock=self.clock,
            new_token=new_token,
        )

    @property
    def sent(self) -> list[dict[str, object]]:
        return [json.loads(body) for body in self.outbox.sent]


@pytest.fixture
def producer() -> Producer:
    return Producer()


def test_a_new_job_has_a_row_that_is_ready_and_a_message(producer: Producer) -> None:
    answer = producer.enqueuer().enqueue(charge(amount=1250))

    row = producer.store.jobs[KEY]
    assert answer == Enqueued(job_key=KEY, status=Status.READY, created=True, sent=True)
    assert (row.status, row.due_at) == (Status.READY, producer.clock.now() + MESSAGE_GRACE)
    assert producer.sent == [row.message] == [charge(amount=1250)]
    assert producer.queues == ["payments"]


def test_a_producer_that_dies_before_it_sends_leaves_a_row_that_is_sent_later(
    producer: Producer,
) -> None:
    dying: Outbox = Mortal(producer.outbox, Fate(call=1, after=False))

    with pytest.raises(DiedError):
        producer.enqueuer(dying).enqueue(charge())

    row = producer.store.jobs[KEY]
    assert producer.sent == []
    assert due_step(row, producer.clock.now()) is Step.NOTHING
    assert due_step(row, producer.clock.now() + MESSAGE_GRACE) is Step.SEND


def test_a_second_time_the_first_job_comes_back_and_nothing_is_sent(producer: Producer) -> None:
    producer.enqueuer().enqueue(charge())
    producer.store.claim(a_claim(now=producer.clock.now()))

    again = producer.enqueuer().enqueue(charge())

    assert again == Enqueued(job_key=KEY, status=Status.STARTED, created=False, sent=False)
    assert len(producer.sent) == 1


def test_another_amount_is_named_as_a_conflict_and_nothing_is_sent(producer: Producer) -> None:
    producer.enqueuer().enqueue(charge(amount=1250))

    again = producer.enqueuer().enqueue(charge(amount=9900, currency="eur"))

    assert again.conflict == "amount was 1250 in the first message, is 9900 now"
    assert (again.created, again.sent, len(producer.sent)) == (False, False, 1)
    assert producer.store.jobs[KEY].message["amount"] == 1250


def test_a_message_that_says_more_is_sent_so_that_the_worker_checks_it(producer: Producer) -> None:
    producer.enqueuer().enqueue(charge())

    again = producer.enqueuer().enqueue(charge(amount=1250))

    assert (again.created, again.sent, again.conflict) == (False, True, None)
    assert producer.sent[-1]["amount"] == 1250


def test_a_message_that_says_less_is_no_conflict_and_not_sent(producer: Producer) -> None:
    producer.enqueuer().enqueue(charge(amount=1250))

    again = producer.enqueuer().enqueue(charge())

    assert (again.sent, again.conflict) == (False, None)


def test_many_messages_are_answered_in_their_order(producer: Producer) -> None:
    orders = [str(number) for number in range(30)]

    answers = producer.enqueuer().enqueue_many([charge(order) for order in orders])

    assert [answer.job_key for answer in answers] == [
        f"payment.charge:order_{order}" for order in orders
    ]
    assert [message["order_id"] for message in producer.sent] == orders
    assert all(answer.created and answer.sent for answer in answers)


def test_messages_for_several_queues_go_each_to_its_own_in_one_go(producer: Producer) -> None:
    answers = producer.enqueuer().enqueue_many([charge("1"), report("a"), charge("2")])

    assert producer.queues == ["payments", "reports"]
    assert [answer.sent for answer in answers] == [True, True, True]


def test_messages_that_can_be_read_only_once_are_all_enqueued(producer: Producer) -> None:
    answers = producer.enqueuer().enqueue_many(charge(order) for order in ("1", "2"))

    assert [answer.sent for answer in answers] == [True, True]
    assert [message["order_id"] for message in producer.sent] == ["1", "2"]


def test_of_two_equal_messages_in_one_go_one_is_sent(producer: Producer) -> None:
    answers = producer.enqueuer().enqueue_many([charge(), charge()])

    assert sorted(answer.created for answer in answers) == [False, True]
    assert len(producer.sent) == 1


def test_a_message_that_the_queue_refuses_leaves_a_ready_row_that_falls_due(
    producer: Producer,
) -> None:
    producer.outbox.refuses = frozenset({1})

    answers = producer.enqueuer().enqueue_many([charge("1"), charge("2"), charge("3")])

    assert [(answer.created, answer.sent) for answer in answers] == [
        (True, True),
        (True, False),
        (True, True),
    ]
    row = producer.store.jobs[JobKey("payment.charge:order_2")]
    assert due_step(row, producer.clock.now() + timedelta(minutes=15)) is Step.SEND


@pytest.mark.parametrize(
    ("bad", "error"), [(charge(amount=-1), InvalidMessageError), (charge(" "), InvalidKeyError)]
)
def test_one_bad_message_stops_all_before_anything_is_written_or_sent(
    bad: dict[str, object], error: type[Exception], producer: Producer
) -> None:
    with pytest.raises(error):
        producer.enqueuer().enqueue_many([charge("1"), bad])

    assert (producer.store.jobs, producer.sent) == ({}, [])


def test_a_queue_without_an_address_stops_all_before_anything_is_written_or_sent(
    producer: Producer,
) -> None:
    producer.unknown = frozenset({"reports"})

    with pytest.raises(NotConfiguredError):
        producer.enqueuer().enqueue_many([charge("1"), report("a")])
    with pytest.raises(NotConfiguredError):
        producer.enqueuer().enqueue(report("a"))

    assert (producer.store.jobs, producer.sent) == ({}, [])


class ForbiddenOutbox:
    """A queue that is gone, or that this role may not send to."""

    def send(self, bodies: Sequence[str]) -> list[bool]:
        raise NotConfiguredError("queue payments takes no messages (AccessDenied)")


def test_a_queue_that_may_not_be_used_is_told_together_with_the_job_that_is_there(
    producer: Producer,
) -> None:
    with pytest.raises(NotConfiguredError, match=r"AccessDenied.*the job is written all the same"):
        producer.enqueuer(ForbiddenOutbox()).enqueue(charge())

    row = producer.store.jobs[KEY]
    assert due_step(row, producer.clock.now() + MESSAGE_GRACE) is Step.SEND
