"""A table that is missing or forbidden is named, with what to do about it; nothing is guessed."""

from collections.abc import Callable

import pytest

from oncely.adapters.dynamodb_jobs import DynamoJobStore
from oncely.domain.errors import NotConfiguredError
from oncely.domain.lifecycle import Event
from oncely.ports import LocalRefused, Written
from oncely.services.outcomes import NeedsReview
from tests.contract.samples import (
    AN_UNPAID_ORDER,
    KEY,
    ORDER_KEY,
    a_claim,
    a_ready_job,
    finished,
    moved,
    order_becomes_paid,
    started,
)
from tests.support.dynamo import Dynamo
from tests.support.faulty_aws import FaultyAws, Refusal
from tests.support.world import World, charge

A_JOB = moved(a_ready_job(), Event.RESEND)
FORBIDDEN = [
    "AccessDeniedException",
    "UnrecognizedClientException",
    "ExpiredTokenException",
    "ResourceNotFoundException",
]

USES: dict[str, Callable[[DynamoJobStore], object]] = {
    "get": lambda store: store.get(KEY),
    "create": lambda store: store.create(a_ready_job()),
    "claim": lambda store: store.claim(a_claim()),
    "claim after": lambda store: store.claim(a_claim(requires_failed=KEY)),
    "swap": lambda store: store.swap(a_ready_job(), A_JOB),
}


@pytest.fixture(params=USES)
def use(request: pytest.FixtureRequest) -> Callable[[DynamoJobStore], object]:
    return USES[request.param]


def test_missing_job_table_error_says_what_to_check(
    dynamo: Dynamo, use: Callable[[DynamoJobStore], object]
) -> None:
    dynamo.admin.delete_table(TableName=dynamo.jobs_table)

    with pytest.raises(NotConfiguredError) as raised:
        use(dynamo.store())
    assert dynamo.jobs_table in str(raised.value)
    assert "check that table" in str(raised.value)
    assert "ResourceNotFoundException" in str(raised.value)


@pytest.mark.parametrize("code", FORBIDDEN)
def test_forbidden_job_table_error_says_what_to_check(
    dynamo: Dynamo, use: Callable[[DynamoJobStore], object], code: str
) -> None:
    faults = FaultyAws(dynamo.client)
    for operation in ("GetItem", "PutItem", "UpdateItem", "TransactWriteItems"):
        faults.on(operation, Refusal(code))

    with pytest.raises(NotConfiguredError) as raised:
        use(dynamo.store())
    assert dynamo.jobs_table in str(raised.value)
    assert "may be used" in str(raised.value)
    assert code in str(raised.value)


def test_forbidden_call_is_not_retried(dynamo: Dynamo) -> None:
    pauses: list[float] = []
    FaultyAws(dynamo.client).on("UpdateItem", Refusal("AccessDeniedException"))

    with pytest.raises(NotConfiguredError):
        dynamo.store(sleep=pauses.append).claim(a_claim())
    assert (dynamo.calls.tries, pauses) == (["UpdateItem"], [])


def test_missing_orders_table_error_says_what_to_check(dynamo: Dynamo) -> None:
    dynamo.admin.delete_table(TableName=dynamo.tables["orders"])

    with pytest.raises(NotConfiguredError) as raised:
        dynamo.rows().get("orders", ORDER_KEY)
    assert dynamo.tables["orders"] in str(raised.value)
    assert "check its name" in str(raised.value)


@pytest.mark.parametrize("code", FORBIDDEN)
def test_forbidden_orders_table_error_names_table(dynamo: Dynamo, code: str) -> None:
    FaultyAws(dynamo.client).on("GetItem", Refusal(code))

    with pytest.raises(NotConfiguredError) as raised:
        dynamo.rows().get("orders", ORDER_KEY)
    assert dynamo.tables["orders"] in str(raised.value)
    assert code in str(raised.value)


def test_no_job_is_claimed_when_orders_cannot_be_read(dynamo: Dynamo) -> None:
    world = World(store=dynamo.store(), rows=dynamo.rows())
    dynamo.admin.delete_table(TableName=dynamo.tables["orders"])

    with pytest.raises(NotConfiguredError):
        world.run(charge())
    assert dynamo.calls.by_operation() == {"GetItem": 1}
    assert world.payments.calls == []


def test_forbidden_order_write_conflicts_and_job_can_escalate(
    dynamo: Dynamo,
) -> None:
    dynamo.rows().put("orders", ORDER_KEY, AN_UNPAID_ORDER)
    before = started(dynamo.store())
    FaultyAws(dynamo.client).on("TransactWriteItems", Refusal("AccessDeniedException"))

    refused = dynamo.store().swap(before, finished(before), local=[order_becomes_paid()])
    told = moved(before, Event.ESCALATE)

    assert isinstance(refused, LocalRefused)
    assert dynamo.tables["orders"] in refused.why
    assert dynamo.store().swap(before, told) == Written(told)


def test_charge_needs_review_when_order_cannot_be_written(dynamo: Dynamo) -> None:
    world = World(store=dynamo.store(), rows=dynamo.rows())
    world.add_order()
    FaultyAws(dynamo.client).on("TransactWriteItems", Refusal("AccessDeniedException"))

    outcome = world.run(charge())

    assert isinstance(outcome, NeedsReview)
    assert dynamo.tables["orders"] in outcome.reason
    assert len(world.payments.charges) == 1
    assert len(world.alerts.told) == 1
