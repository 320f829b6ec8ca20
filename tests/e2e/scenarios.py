"""The scenarios of the deployed stack. Each runs once, and tests check the results."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import boto3
import pytest

from oncely import create_producer
from oncely.core.claims import Claim
from oncely.core.keys import JobKey
from oncely.core.store import JobStore
from oncely.core.table_guard import DynamoTableIdentity, TableIdentity
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.jobs.tables import charge_shard
from oncely.testing.sandbox import FaultKind
from tests.e2e.deployed_stack import StackClient, wait_for

PAID: Final = "pm_card_visa"
DECLINED: Final = "pm_card_chargeDeclined"
QUEUES: Final = ("PaymentsQueueUrl", "SyncQueueUrl", "MailQueueUrl")
CONTACTS: Final = 4


def put_order(stack: StackClient, order_id: str, **more: Any) -> None:  # noqa: ANN401  # a row's values
    stack.put(
        "OrdersTableName",
        {
            "order_id": order_id,
            "customer_id": f"customer_{order_id}",
            "amount": 4900,
            "currency": "eur",
            "payment_customer": f"cus_{order_id}",
            "payment_method": PAID,
            "receipt_email": f"{order_id}@example.com",
            "status": "payment_pending",
            "charge_shard": charge_shard(order_id),
            **more,
        },
    )


def charge_message(order_id: str, **more: object) -> dict[str, object]:
    return {"job": "payment.charge", "v": 1, "order_id": order_id, **more}


def receipt_message(order_id: str) -> dict[str, object]:
    return {"job": "receipt.send", "v": 1, "order_id": order_id}


def count_charges(stack: StackClient, order_id: str) -> int:
    ledger = stack.sandbox.stripe.ledger
    intents = {one.intent_id for one in ledger.intents if one.customer == f"cus_{order_id}"}
    return sum(one.intent_id in intents and one.status == "succeeded" for one in ledger.charges)


def ambiguous_charge(stack: StackClient) -> str:
    return create_unknown_charge(stack, "unknown")


def create_unknown_charge(stack: StackClient, order_id: str) -> str:
    """Stripe charges, and its response is lost. The job is unknown until it is looked up."""
    key = f"payment.charge:order_{order_id}"
    put_order(stack, order_id)
    faults = stack.sandbox.faults
    faults.add(FaultKind.ACCEPT_THEN_DROP, path="/v1/payment_intents/*/confirm", key_contains=key)
    # The worker reads the payment back after an error, and that fails as well.
    faults.add(FaultKind.OUTAGE, method="GET", path="/v1/payment_intents/*")
    stack.send("PaymentsQueueUrl", charge_message(order_id))
    stack.wait_for_job(key, "unknown", "finished")
    return key


def successful_payment(stack: StackClient) -> dict[str, Any]:
    put_order(stack, "18452")
    stack.send("PaymentsQueueUrl", charge_message("18452"))
    stack.wait_for_job("payment.charge:order_18452", "finished")
    stack.wait_for_job("receipt.send:order_18452", "finished")
    return stack.wait_for_job("payment.charge:order_18452", "finished")


def refunded_payment(stack: StackClient) -> dict[str, Any]:
    put_order(stack, "returned")
    stack.send("PaymentsQueueUrl", charge_message("returned"))
    named = {"order_id": "returned", "refund_id": "rma_1"}
    stack.put(
        "RefundRequestsTableName",
        {
            **named,
            "amount": 4900,
            "currency": "eur",
            "requested_by": "agent_3",
            "requested_at": "2026-01-05T09:00:00Z",
        },
    )
    stack.send("PaymentsQueueUrl", {"job": "payment.refund", "v": 1, **named})
    return stack.wait_for_job("payment.refund:order_returned:rma_1", "finished")


def braintree_payment(stack: StackClient) -> dict[str, Any]:
    """An order at Braintree whose response is lost. The reconciler finds the payment."""
    key = "payment.charge:order_bt"
    put_order(stack, "bt", payment_provider="braintree", payment_method="bt_visa")
    faults, path = stack.sandbox.faults, "/merchants/*/transactions/*"
    faults.add(FaultKind.ACCEPT_THEN_DROP, method="PUT", path=f"{path}/submit_for_settlement")
    # The worker reads the transaction before it submits it, and after an error.
    faults.add(FaultKind.OUTAGE, method="GET", path=path)
    stack.send("PaymentsQueueUrl", charge_message("bt"))
    stack.wait_for_job(key, "unknown", "finished")
    stack.reconcile(key=key)
    return stack.wait_for_job(key, "finished")


def duplicate_message(stack: StackClient) -> dict[str, Any]:
    before = stack.once(successful_payment)
    stack.send("PaymentsQueueUrl", charge_message("18452"))
    wait_for(lambda: stack.queue_depth("PaymentsQueueUrl") == 0, "it was worked")
    return before


def invalid_messages(stack: StackClient) -> int:
    """The number of its messages that are archived. Other tests send invalid ones as well."""
    for queue in QUEUES:
        stack.send(queue, {"job": "no.such", "v": 1})
    stack.send("DeadLetterQueueUrl", "not even JSON")

    def archived() -> int:
        bodies = map(stack.archived_text, stack.archived_keys("rejects/"))
        return sum("no.such" in body or "not even JSON" in body for body in bodies)

    wait_for(lambda: archived() > len(QUEUES), "the rejects are archived")
    return archived()


def job_needs_review(stack: StackClient) -> list[str]:
    put_order(stack, "nobody", status="cancelled")
    stack.send("PaymentsQueueUrl", charge_message("nobody"))
    stack.send("MailQueueUrl", receipt_message("nobody"))
    keys = ["payment.charge:order_nobody", "receipt.send:order_nobody"]
    # Its record never comes.
    stack.send("SyncQueueUrl", push_message("0"))
    stack.wait_for_job(push_key("0"), "ready")
    stack.backdate(push_key("0"), "since")
    stack.send("SyncQueueUrl", push_message("0"))
    for key in (*keys, push_key("0")):
        stack.wait_for_job(key, "needs_review")
    return wait_for(
        lambda: len(told := stack.alerts()) > len(keys) and told, "people are told", stack.alerts
    )


def early_messages(stack: StackClient) -> dict[str, Any]:
    """Early messages wait on their rows, and run once the order exists."""
    stack.send("PaymentsQueueUrl", charge_message("early"))
    stack.send("MailQueueUrl", receipt_message("early"))
    keys = ["payment.charge:order_early", "receipt.send:order_early"]
    for key in keys:
        wait_for(partial(_waits_for_order, stack, key), f"{key} waits for its order")
    put_order(stack, "early")
    for key in keys:
        stack.wait_for_job(key, "finished")
    return stack.order("early")


def _waits_for_order(stack: StackClient, key: str) -> bool:
    return "waits for order" in str((stack.job(key) or {}).get("last_error"))


def resubmission_after_decline(stack: StackClient) -> dict[str, Any]:
    put_order(stack, "declined", payment_method=DECLINED)
    stack.send("PaymentsQueueUrl", charge_message("declined"))
    stack.wait_for_job("payment.charge:order_declined", "failed")
    put_order(stack, "declined", status="payment_failed")
    stack.send("PaymentsQueueUrl", charge_message("declined", attempt=2))
    return stack.wait_for_job("payment.charge:order_declined:2", "finished")


def job_leased_elsewhere(stack: StackClient) -> None:
    """Another worker holds the lease, on every queue. The message is redelivered later."""
    put_order(stack, "held", status="paid")
    held = {
        "PaymentsQueueUrl": charge_message("held"),
        "MailQueueUrl": receipt_message("held"),
        "SyncQueueUrl": contact_message("held", "1"),
    }
    keys = ("payment.charge:order_held", "receipt.send:order_held", "sync.contact:hubspot:held:1")
    for key, (queue, message) in zip(keys, held.items(), strict=True):
        claim_as_other_worker(stack, key, message, lease=timedelta(hours=1))
        stack.send(queue, message)
        wait_for(
            lambda queue=queue: stack.queue_depth(queue) == 0,  # type: ignore[misc]  # bound now
            f"the message on {queue} was received",
        )


def deployment_identity(stack: StackClient) -> str:
    return table_identity(stack).deployment


def table_identity(stack: StackClient) -> TableIdentity:
    return stack.once(_read_identity)


def _read_identity(stack: StackClient) -> TableIdentity:
    found = DynamoTableIdentity(stack.client("dynamodb"), stack.outputs["JobsTableName"]).identity()
    assert found is not None
    return found


def claim_as_other_worker(
    stack: StackClient, key: str, message: Mapping[str, object], *, lease: timedelta
) -> None:
    now = datetime.now(tz=UTC)
    store = JobStore(
        client=stack.client("dynamodb"), table=stack.outputs["JobsTableName"], tables={}
    )
    store.claim(
        Claim(
            job_key=JobKey(key),
            job_type=key.partition(":")[0],
            owner="another",
            now=now,
            lease_until=now + lease,
            schedule_limit=timedelta(0),
            message=json.loads(json.dumps(message)),
            deployment=deployment_identity(stack),
        )
    )


def enqueue_as_producer(stack: StackClient) -> dict[str, str]:
    """A service with the producer policy enqueues. Returns its environment."""
    environment = stack.user("producer", "PaymentsProducerPolicyArn")
    put_order(stack, "produced")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        jobs = create_producer(
            SHIPPED_JOBS,
            jobs_table=stack.outputs["JobsTableName"],
            queue_urls={"payments": stack.outputs["PaymentsQueueUrl"]},
            session=boto3.Session(),
        )
        message = charge_message("produced")
        first = jobs.enqueue(message, unique_for=timedelta(minutes=1))
        again = jobs.enqueue(message)
    assert (first.created, first.sent, again.created) == (True, True, False)
    stack.wait_for_job(first.job_key, "finished")
    return environment


def dead_letter(stack: StackClient) -> dict[str, Any]:
    put_order(stack, "dead")
    stack.send("DeadLetterQueueUrl", charge_message("dead"))
    return stack.wait_for_job("payment.charge:order_dead", "ready")


def repeated_dead_letter(stack: StackClient) -> dict[str, Any]:
    """The same dead letter, many hours later. No worker has claimed the job."""
    stack.once(dead_letter)
    stack.backdate("payment.charge:order_dead", "since")
    stack.send("DeadLetterQueueUrl", charge_message("dead"))
    return stack.wait_for_job("payment.charge:order_dead", "needs_review")


def missing_job(stack: StackClient) -> dict[str, Any]:
    long_ago = (datetime.now(tz=UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    put_order(stack, "forgotten", charge_requested_at=long_ago)
    # Only rows that were due long ago. The schedule handles the rest.
    stack.reconcile(to="2020-01-01T00:00:00Z")
    return stack.wait_for_job("payment.charge:order_forgotten", "finished")


def stream_outage(stack: StackClient) -> dict[str, Any]:
    """The stream is off for a while, and the reconciler publishes instead."""
    key = "payment.charge:order_missed"
    with stack.pause_consumers("dynamodb", function="StreamPublish"):
        put_order(stack, "missed")
        stack.send("PaymentsQueueUrl", charge_message("missed"))
        stack.wait_for_job(key, "finished")
        stack.backdate(key, "due_at")
        return stack.reconcile(key=key)


def scheduled_sweep(stack: StackClient) -> dict[str, Any]:
    # Another job: a manual sweep may have found the first, and the schedule starts only if due.
    put_order(stack, "scheduled")
    key = "payment.charge:order_scheduled"
    claim_as_other_worker(stack, key, charge_message("scheduled"), lease=-timedelta(minutes=1))
    stack.wait_for_job(key, "finished")
    return stack.wait_for_job(stack.once(ambiguous_charge), "finished")


def contact_message(contact_id: str, event_id: str) -> dict[str, object]:
    event = {"source": "hubspot", "source_id": contact_id, "event_id": event_id}
    return {"job": "sync.contact", "v": 1, **event}


def push_message(contact_id: str, version: int = 2) -> dict[str, object]:
    pushed = {"target": "hubspot", "record_id": f"hubspot#{contact_id}", "version": version}
    return {"job": "sync.push", "v": 1, **pushed}


def push_key(contact_id: str, version: int = 2) -> str:
    return f"sync.push:hubspot:hubspot#{contact_id}:{version}"


def change_record(stack: StackClient, contact_id: str) -> None:
    """Raise the version of an imported record, as the shop does with its own changes."""
    stack.client("dynamodb").update_item(
        TableName=stack.outputs["RecordsTableName"],
        Key={"record_id": {"S": f"hubspot#{contact_id}"}},
        UpdateExpression="SET version = :two",
        ExpressionAttributeValues={":two": {"N": "2"}},
    )


def contact_import(stack: StackClient) -> list[str]:
    ids = stack.sandbox.hubspot.contacts.add_contacts(CONTACTS)
    batch = {"job": "sync.import", "v": 1, "source": "hubspot", "batch_id": "nightly"}
    stack.send("SyncQueueUrl", batch)
    stack.wait_for_job("sync.import:hubspot:nightly", "finished")
    for one in ids:
        wait_for(
            lambda one=one: stack.get("RecordsTableName", record_id=f"hubspot#{one}"),  # type: ignore[misc]  # bound now
            f"contact {one} is imported",
        )
    return ids


def contact_push(stack: StackClient) -> dict[str, Any]:
    one = stack.once(contact_import)[0]
    change_record(stack, one)
    stack.send("SyncQueueUrl", push_message(one))
    return stack.wait_for_job(push_key(one), "finished")


def ambiguous_push(stack: StackClient) -> dict[str, Any]:
    one = stack.once(contact_import)[1]
    change_record(stack, one)
    stack.sandbox.faults.add(FaultKind.ACCEPT_THEN_DROP, method="P*", path="/crm/*")
    stack.send("SyncQueueUrl", push_message(one))
    stack.wait_for_job(push_key(one), "unknown", "finished")
    stack.reconcile(key=push_key(one))
    return stack.wait_for_job(push_key(one), "finished")


def superseded_push(stack: StackClient) -> dict[str, Any]:
    """The record is at its second version already: that one is pushed instead."""
    one = stack.once(contact_import)[2]
    change_record(stack, one)
    stack.send("SyncQueueUrl", push_message(one, 1))
    return stack.wait_for_job(push_key(one), "finished")


def worker_crashed(stack: StackClient) -> dict[str, Any]:
    """A worker died with a job that is safe to repeat: its message is resent, and it runs."""
    one = stack.once(contact_import)[3]
    key = f"sync.contact:hubspot:{one}:again"
    claim_as_other_worker(stack, key, contact_message(one, "again"), lease=-timedelta(minutes=1))
    stack.reconcile(key=key)
    return stack.wait_for_job(key, "finished")


def worker_crashed_without_order(stack: StackClient) -> dict[str, Any]:
    """A worker died with a payment whose order is gone: the reconciler alerts."""
    key = "payment.charge:order_gone"
    claim_as_other_worker(stack, key, charge_message("gone"), lease=-timedelta(minutes=1))
    stack.reconcile(key=key)
    return stack.wait_for_job(key, "needs_review")


def history_gap(stack: StackClient) -> None:
    """Lambda drops a part of the stream: a gap is open until a scan closes it."""
    failure = {
        "requestContext": {"condition": "MaxRecordAgeExceeded"},
        "DDBStreamBatchInfo": {
            "shardId": "shardId-00000001573689847184-864758bb",
            "startSequenceNumber": "800000000003126276362",
            "endSequenceNumber": "800000000003126276362",
            "approximateArrivalOfFirstRecord": "2026-05-14T00:13:19Z",
            "approximateArrivalOfLastRecord": "2026-05-14T00:13:19Z",
            "batchSize": 1,
            "streamArn": "arn:aws:dynamodb:us-east-1:000000000000:table/jobs/stream/2026",
        },
    }
    stack.send("GapsQueueUrl", failure)
    wait_for(lambda: stack.archived_keys("history/gaps/"), "the gap is recorded")


ALL_SCENARIOS: Final[tuple[Callable[[StackClient], object], ...]] = (
    ambiguous_charge,
    successful_payment,
    braintree_payment,
    refunded_payment,
    duplicate_message,
    invalid_messages,
    job_needs_review,
    early_messages,
    resubmission_after_decline,
    job_leased_elsewhere,
    dead_letter,
    repeated_dead_letter,
    missing_job,
    stream_outage,
    contact_import,
    contact_push,
    ambiguous_push,
    superseded_push,
    worker_crashed,
    worker_crashed_without_order,
    scheduled_sweep,
)
