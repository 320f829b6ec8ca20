"""Jobs that a crash or a lost answer left behind, put into a deployed stack as they would be."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from oncely.adapters.dynamodb_jobs import DynamoJobStore
from oncely.adapters.stripe_payments import StripePayments
from oncely.domain.answers import Prepared
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey, ProviderKey, job_key
from oncely.domain.lifecycle import Status
from oncely.domain.money import Money
from oncely.ports import Created, Payment
from tests.e2e.deployment import Deployment, eventually
from tests.e2e.scenarios import PAID, order

AMOUNT: Final = 4900
LONG: Final = 300.0
API_KEY: Final = "sk_test_left_behind"


@dataclass(frozen=True)
class LeftBehind:
    """One such job, and its payment at the provider."""

    key: JobKey
    order_id: str
    ref: str


def leave_behind(
    stack: Deployment,
    order_id: str,
    *,
    status: Status = Status.UNKNOWN,
    confirmed: bool = True,
    method: str = PAID,
    age: timedelta = timedelta(minutes=10),
    due: bool = False,
) -> LeftBehind:
    """An order, its payment at Stripe, and the row that its worker left.

    One that is not `due` is left alone by the schedule, so that a test has it to itself.
    """
    order(stack, order_id, payment_method=method)
    key = job_key("payment.charge", order_id, prefix="order_")
    payment = Payment(
        money=Money(AMOUNT, "eur"),
        customer=f"cus_{order_id}",
        method=method,
        job_key=key,
        order_id=order_id,
    )
    stripe = StripePayments.with_key(API_KEY, api_base=stack.sandbox.url)
    prepared = stripe.prepare(payment, key=ProviderKey(f"{key}:create:1"))
    assert isinstance(prepared, Prepared)
    if confirmed:
        stripe.execute(prepared.ref, payment, key=ProviderKey(f"{key}:confirm:1"))
    now = datetime.now(UTC)
    job = Job(
        job_key=key,
        job_type="payment.charge",
        status=status,
        message={"job": "payment.charge", "v": 1, "order_id": order_id},
        owner="a-worker-that-died",
        fence=1,
        version=2,
        attempts=1,
        created_at=now - age,
        updated_at=now - age,
        claimed_at=now - age,
        first_sent_at=now - age,
        key_scope="",
        lease_until=now - age + timedelta(minutes=2),
        due_at=now - age + timedelta(minutes=2) if due else None,
        customer_id=f"customer_{order_id}",
        provider_ref=prepared.ref,
    )
    assert isinstance(store(stack).create(job), Created)
    return LeftBehind(key, order_id, prepared.ref)


def store(stack: Deployment) -> DynamoJobStore:
    """The job table, as the account's owner sees it."""
    return DynamoJobStore(
        client=stack.client("dynamodb"),
        table=stack.outputs["JobsTableName"],
        tables={"orders": stack.outputs["OrdersTableName"]},
    )


def job(stack: Deployment, key: str) -> Job:
    """A job as it stands now."""
    found = store(stack).get(JobKey(key))
    assert found is not None, f"there is no row of {key}"
    return found


def sweep(stack: Deployment, **given: object) -> dict[str, Any]:
    """One execution with many items: on a small machine each new function takes its time."""
    states = stack.client("stepfunctions")
    started = states.start_execution(
        stateMachineArn=stack.outputs["ReconcilerArn"], input=json.dumps(given)
    )

    def ended() -> dict[str, Any] | None:
        found: dict[str, Any] = states.describe_execution(executionArn=started["executionArn"])
        return None if found["status"] == "RUNNING" else found

    seen = eventually(ended, "the sweep has ended", patience=LONG)
    assert seen["status"] == "SUCCEEDED", seen
    done: dict[str, Any] = json.loads(seen["output"])
    return done
