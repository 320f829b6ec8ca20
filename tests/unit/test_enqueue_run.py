"""`run` returns how a job ended. After anything else but an invalid message, it may be running."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from oncely.core.errors import InvalidInputError, NotConfiguredError
from oncely.core.lifecycle import Status
from oncely.enqueue.enqueuer import Enqueuer, JobPending, JobState
from oncely.jobs.payment_charge import PaymentCharge
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.testing.memory_aws.calls import AwsCall, client_error, no_response
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.unit.samples import KEY

T = TypeVar("T")

CHARGE = PaymentCharge(order_id="18452")
TIMEOUT = timedelta(seconds=5)


@dataclass
class Shop:
    """A producer, and a worker that runs the message while the producer waits."""

    world: InMemoryStack = field(default_factory=InMemoryStack)
    worker_runs: dict[str, object] | None = field(default_factory=charge_message)

    def __post_init__(self) -> None:
        self.world.add_order()

    def producer(self, **changes: Any) -> Enqueuer:  # noqa: ANN401  # parts of it by name
        return replace(self.world.enqueuer(), sleep=self._sleep, **changes)

    def _sleep(self, seconds: float) -> None:
        self.world.clock.advance(seconds=seconds)
        if self.worker_runs is not None:
            self.world.run(self.worker_runs)
            self.worker_runs = None


@pytest.fixture
def shop() -> Shop:
    return Shop()


def pending(producer: Enqueuer, job: PaymentCharge = CHARGE) -> JobPending:
    with pytest.raises(JobPending) as caught:
        producer.run(job, TIMEOUT)
    assert caught.value.job_key == KEY
    return caught.value


@pytest.mark.parametrize("job", [CHARGE, charge_message()], ids=["job", "message"])
def test_run_returns_first_result_of_ended_job(shop: Shop, job: Any) -> None:  # noqa: ANN401  # both forms
    done = shop.producer().run(job, TIMEOUT)

    assert (done.status, done.result) == (Status.FINISHED, shop.world.job(KEY).result)
    assert shop.producer().run(job, TIMEOUT) == done
    assert len(shop.world.outbox.sent) == 1


def test_run_returns_job_that_needs_review(shop: Shop) -> None:
    shop.world.add_order(status="cancelled")
    assert shop.producer().run(CHARGE, TIMEOUT).status is Status.NEEDS_REVIEW


@pytest.mark.parametrize(
    "invalid",
    [
        charge_message(amount=-1),
        PaymentCharge(order_id=" "),
        {"job": "no.such", "v": 1},
    ],
    ids=["field", "key", "job type"],
)
def test_invalid_message_starts_nothing(shop: Shop, invalid: Any) -> None:  # noqa: ANN401  # both forms
    with pytest.raises(InvalidInputError):
        shop.producer().run(invalid, TIMEOUT)
    assert ([*shop.world.store.jobs], shop.world.outbox.sent) == ([], [])


def test_timeout_leaves_job_pending_with_its_state(shop: Shop) -> None:
    shop.worker_runs = None
    found = pending(shop.producer())
    assert found.state == JobState(job_key=KEY, status=Status.READY)
    assert str(found).startswith(f"{KEY} is ready after 5 seconds. Read its status later.")


Fault = Callable[[AwsCall, Callable[[], object]], object]


def fail_with(code: str) -> Fault:
    def fail(call: AwsCall, perform: Callable[[], object]) -> object:
        raise client_error(code, call.operation)

    return fail


def lose_request(call: AwsCall, perform: Callable[[], object]) -> object:
    raise no_response(call)


def lose_response(call: AwsCall, perform: Callable[[], object]) -> object:
    perform()
    raise no_response(call)


def inject(world: InMemoryStack, **faults: Fault) -> None:
    """Inject a fault into every call of these operations, until the first wait of the producer."""

    def intercept(call: AwsCall, perform: Callable[[], T]) -> T:
        fault: Any = faults.get(call.operation, lambda _, perform: perform())
        result: T = fault(call, perform)
        return result

    world.aws.intercept = intercept


def test_lost_response_of_insert_is_read_from_row(shop: Shop) -> None:
    inject(shop.world, execute_statement=lose_response)
    assert shop.producer().run(CHARGE, TIMEOUT).status is Status.FINISHED


@pytest.mark.parametrize(
    ("faults", "is_written"),
    [
        ({"execute_statement": lose_response, "get_item": lose_request}, True),
        # The same class of error says that the row cannot be read, and that it was not written.
        ({"execute_statement": lose_response, "get_item": fail_with("AccessDenied")}, True),
        ({"execute_statement": fail_with("AccessDenied")}, False),
        ({"execute_statement": lose_request}, False),
        ({"execute_statement": fail_with("ThrottlingException")}, False),
    ],
    ids=["response lost", "row not readable", "access denied", "request lost", "throttled"],
)
def test_failed_insert_leaves_job_pending_until_it_is_enqueued_again(
    shop: Shop, faults: dict[str, Fault], *, is_written: bool
) -> None:
    inject(shop.world, **faults)
    assert pending(shop.producer()).state is None

    inject(shop.world)
    assert (KEY in shop.world.store.jobs) is is_written
    assert shop.producer().run(CHARGE, TIMEOUT).status is Status.FINISHED
    assert len(shop.world.payments.charges) == 1


def test_unreadable_status_leaves_job_pending_with_last_state(shop: Shop) -> None:
    inject(shop.world, get_item=fail_with("ThrottlingException"))
    found = pending(shop.producer())
    assert found.state is not None
    assert found.state.status is Status.READY


@dataclass(frozen=True)
class BrokenSender:
    """A queue that accepts nothing, or that fails in a way that nobody foresaw."""

    error: Exception | None = None

    def send(self, bodies: list[str], **_: object) -> list[bool]:
        if self.error:
            raise self.error
        return [False] * len(bodies)


@pytest.mark.parametrize(
    "error", [None, NotConfiguredError("the queue is gone"), KeyError("a bug")], ids=repr
)
def test_job_without_message_is_pending(shop: Shop, error: Exception | None) -> None:
    shop.worker_runs = None
    pending(shop.producer(sender_for_queue=lambda _: BrokenSender(error)))
    assert shop.world.job(KEY).status is Status.READY


def test_missing_queue_address_is_no_proof_that_job_does_not_run(shop: Shop) -> None:
    """An earlier version of the producer, which had the address, may have enqueued it."""

    def missing(queue: str) -> Any:  # noqa: ANN401  # none
        raise NotConfiguredError(f"no address is given for queue {queue!r}")

    assert "no address is given" in str(pending(shop.producer(sender_for_queue=missing)))


def test_job_that_ended_with_other_values_is_no_result(shop: Shop) -> None:
    shop.producer().run(CHARGE, TIMEOUT)
    found = pending(shop.producer(), PaymentCharge(order_id="18452", amount=1))
    assert found.conflict == "amount is 1250 in the existing job, 1 here"


def test_job_that_ran_another_message_is_no_result(shop: Shop) -> None:
    shop.producer().enqueue(CHARGE)
    found = pending(shop.producer(), PaymentCharge(order_id="18452", amount=1))
    assert found.conflict
    assert shop.world.job(KEY).status is Status.FINISHED


def test_conflict_with_row_that_expires_meanwhile_is_no_result(shop: Shop) -> None:
    shop.producer().run(CHARGE, TIMEOUT)

    def expire_once_read(call: AwsCall, perform: Callable[[], object]) -> object:
        found = perform()
        if KEY in shop.world.store.jobs:
            shop.world.store.expire(KEY)
        return found

    inject(shop.world, get_item=expire_once_read)
    assert pending(shop.producer(), PaymentCharge(order_id="18452", amount=1)).conflict


def test_status_and_wait_take_job_message_or_key() -> None:
    world = InMemoryStack(contracts=SHIPPED_JOBS)
    producer = world.enqueuer()
    producer.enqueue(CHARGE)
    state = JobState(job_key=KEY, status=Status.READY)
    for one in (CHARGE, charge_message(), KEY):
        assert producer.status(one) == producer.wait(one, timedelta(0)) == state
