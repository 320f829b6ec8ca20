"""Jobs that a crash or a lost answer left behind, put into a deployed stack as they would be."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from oncely.core.effect_outcomes import Prepared
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey, idempotency_key, job_key
from oncely.core.lifecycle import Status
from oncely.core.money import Money
from oncely.core.store import Created, JobStore
from oncely.providers.interfaces import Payment
from oncely.providers.stripe.payments import StripePayments
from tests.e2e.deployed_stack import StackClient
from tests.e2e.scenarios import PAID, deployment_identity, put_order

AMOUNT: Final = 4900
SWEEP_TIMEOUT_SECONDS: Final = 300.0
API_KEY: Final = "sk_test_oncely"


@dataclass(frozen=True)
class UnresolvedJob:
    key: JobKey
    order_id: str
    ref: str


def create_unresolved_job(
    stack: StackClient,
    order_id: str,
    *,
    status: Status = Status.UNKNOWN,
    confirmed: bool = True,
    method: str = PAID,
    age: timedelta = timedelta(minutes=10),
    due: bool = False,
    saved: bool = True,
    unreachable: int = 0,
    amount: int = AMOUNT,
) -> UnresolvedJob:
    """An order, its payment at Stripe, and the row that its worker left.

    One that is not `due` is left alone by the schedule, so that a test has it to itself.
    One whose reference was not `saved` died between making the payment and that write.
    """
    put_order(stack, order_id, payment_method=method, amount=amount)
    key = job_key("payment.charge", order_id, prefix="order_")
    ref = create_payment(
        stack, order_id, number=1, confirmed=confirmed, method=method, amount=amount
    )
    now = datetime.now(UTC)
    job = JobRow(
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
        key_scope=_stripe_payments(stack).key_scope(),
        deployment=deployment_identity(stack),
        lease_until=now - age + timedelta(minutes=2),
        due_at=now - age + timedelta(minutes=2) if due else None,
        since=now - age,
        subject=order_id,
        customer_id=f"customer_{order_id}",
        amount=amount,
        currency="eur",
        provider_ref=ref if saved else None,
        unreachable=unreachable,
    )
    assert isinstance(job_store(stack).create(job), Created)
    return UnresolvedJob(key, order_id, ref)


def create_payment(
    stack: StackClient,
    order_id: str,
    *,
    number: int,
    confirmed: bool = True,
    method: str = PAID,
    amount: int = AMOUNT,
) -> str:
    key = job_key("payment.charge", order_id, prefix="order_")
    payment = Payment(
        money=Money(amount, "eur"),
        customer=f"cus_{order_id}",
        method=method,
        job_key=key,
        order_id=order_id,
        deployment=deployment_identity(stack),
    )
    stripe = _stripe_payments(stack)
    create, confirm = (
        idempotency_key(key, step, number, deployment=deployment_identity(stack))
        for step in ("create", "confirm")
    )
    prepared = stripe.prepare(payment, idempotency_key=create)
    assert isinstance(prepared, Prepared)
    if confirmed:
        stripe.execute(prepared.ref, payment, idempotency_key=confirm, verified=True)
    return prepared.ref


def change_amount_at_stripe(stack: StackClient, ref: str, *, amount: int) -> None:
    ledger = stack.sandbox.stripe.ledger
    intent = ledger.intent(ref)
    assert intent is not None
    ledger.save(replace(intent, amount=amount))


def _stripe_payments(stack: StackClient) -> StripePayments:
    return StripePayments.from_api_key(API_KEY, api_base=stack.sandbox.url)


def job_store(stack: StackClient) -> JobStore:
    return JobStore(
        client=stack.client("dynamodb"),
        table=stack.outputs["JobsTableName"],
        tables={"orders": stack.outputs["OrdersTableName"]},
    )


def get_job(stack: StackClient, key: str) -> JobRow:
    found = job_store(stack).get(JobKey(key))
    assert found is not None, f"there is no row of {key}"
    return found


def run_sweep(stack: StackClient, **given: object) -> dict[str, Any]:
    """One execution with many items, because each new function is slow on a small machine."""
    return stack.reconcile(timeout_seconds=SWEEP_TIMEOUT_SECONDS, **given)
