"""A missing or forbidden table: the error says what to do, and its note the table's name."""

from collections.abc import Callable

import pytest

from oncely.core.errors import NotConfiguredError
from oncely.core.lifecycle import Event
from oncely.core.outcomes import NeedsReview
from oncely.core.store import BusinessWriteConflict, JobStore, Swapped
from tests.conformance.samples import (
    KEY,
    ORDER_KEY,
    UNPAID_ORDER,
    apply_event,
    claim_job,
    finish_job,
    make_claim,
    make_ready_job,
    paid_order_write,
)
from tests.support.dynamo import DynamoFixture
from tests.support.fault_injecting_client import FaultInjector, ServiceError
from tests.support.in_memory_stack import InMemoryStack, charge_message

A_JOB = apply_event(make_ready_job(), Event.RESEND)

Use = Callable[[JobStore], object]
USES: dict[str, Use] = {
    "get": lambda store: store.get(KEY),
    "create": lambda store: store.create(make_ready_job()),
    "claim": lambda store: store.claim(make_claim()),
    "claim after": lambda store: store.claim(make_claim(requires_failed=KEY)),
    "swap": lambda store: store.swap(make_ready_job(), A_JOB),
}


@pytest.fixture(params=USES)
def use(request: pytest.FixtureRequest) -> Use:
    return USES[request.param]


def test_missing_job_table_error_says_what_to_check(dynamo: DynamoFixture, use: Use) -> None:
    dynamo.admin.delete_table(TableName=dynamo.jobs_table)

    with pytest.raises(NotConfiguredError) as raised:
        use(dynamo.store())
    assert dynamo.jobs_table in raised.value.__notes__[0]
    assert "check that the job table" in str(raised.value)
    assert "ResourceNotFoundException" in str(raised.value)


def test_forbidden_call_is_not_retried(dynamo: DynamoFixture) -> None:
    pauses: list[float] = []
    FaultInjector(dynamo.client).inject("UpdateItem", ServiceError("AccessDeniedException"))
    with pytest.raises(NotConfiguredError):
        dynamo.store(sleep=pauses.append).claim(make_claim())
    assert (dynamo.calls.attempts, pauses) == (["UpdateItem"], [])


def test_missing_orders_table_error_names_table(dynamo: DynamoFixture) -> None:
    dynamo.admin.delete_table(TableName=dynamo.tables["orders"])
    with pytest.raises(NotConfiguredError, match=r"the table 'orders'.*check its name") as raised:
        dynamo.rows().get("orders", ORDER_KEY)
    assert raised.value.__notes__ == [f"the table 'orders': {dynamo.tables['orders']}"]


def test_no_job_is_claimed_when_orders_cannot_be_read(dynamo: DynamoFixture) -> None:
    world = InMemoryStack(store=dynamo.store(), rows=dynamo.rows())
    dynamo.admin.delete_table(TableName=dynamo.tables["orders"])
    with pytest.raises(NotConfiguredError):
        world.run(charge_message())
    assert (dynamo.calls.by_operation(), world.payments.calls) == ({"GetItem": 1}, [])


def test_forbidden_order_write_conflicts_and_job_can_escalate(dynamo: DynamoFixture) -> None:
    dynamo.rows().put("orders", ORDER_KEY, UNPAID_ORDER)
    before = claim_job(dynamo.store())
    FaultInjector(dynamo.client).inject("TransactWriteItems", ServiceError("AccessDeniedException"))

    writes = [paid_order_write()]
    refused = dynamo.store().swap(before, finish_job(before), business_writes=writes)
    review = apply_event(before, Event.ESCALATE)

    assert isinstance(refused, BusinessWriteConflict)
    assert "check that the job table and the business tables exist" in refused.reason
    assert dynamo.store().swap(before, review) == Swapped(review)


def test_charge_needs_review_when_order_cannot_be_written(dynamo: DynamoFixture) -> None:
    world = InMemoryStack(store=dynamo.store(), rows=dynamo.rows())
    world.add_order()
    FaultInjector(dynamo.client).inject("TransactWriteItems", ServiceError("AccessDeniedException"))

    outcome = world.run(charge_message())
    assert isinstance(outcome, NeedsReview)
    assert "check that the job table and the business tables exist" in outcome.reason
    assert (len(world.payments.charges), len(world.alerts.sent)) == (1, 1)
