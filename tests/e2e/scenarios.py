"""What happens to a deployed stack, each once; tests look at what came of it."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from infra.local.sandbox import FaultKind
from oncely.adapters.deployment_identity import DynamoTableIdentity
from oncely.adapters.dynamodb_jobs import DynamoJobStore
from oncely.contracts.payment_charge import charge_shard
from oncely.domain.claims import Claim
from oncely.domain.keys import JobKey
from tests.e2e.deployment import Deployment, eventually

PAID: Final = "pm_card_visa"
DECLINED: Final = "pm_card_chargeDeclined"
QUEUES: Final = ("PaymentsQueueUrl", "SyncQueueUrl", "MailQueueUrl")
CONTACTS: Final = 4


def order(stack: Deployment, order_id: str, **more: Any) -> None:  # noqa: ANN401  # a row's values
    """An order of the shop, as its application writes it."""
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


def charge(order_id: str, **more: object) -> dict[str, object]:
    return {"job": "payment.charge", "v": 1, "order_id": order_id, **more}


def charges(stack: Deployment, order_id: str) -> int:
    """How often Stripe moved money for an order."""
    ledger = stack.sandbox.ledger
    intents = {one.intent_id for one in ledger.intents if one.customer == f"cus_{order_id}"}
    return sum(one.intent_id in intents and one.status == "succeeded" for one in ledger.charges)


def loses_an_answer(stack: Deployment) -> str:
    """Stripe charges, and its answer is lost: nobody knows until someone asks."""
    order(stack, "unknown")
    faults = stack.sandbox.faults
    confirm = "/v1/payment_intents/*/confirm"
    faults.add(FaultKind.ACCEPT_THEN_DROP, path=confirm, key_contains="order_unknown")
    # The worker reads the payment back after an error, and that fails as well.
    faults.add(FaultKind.OUTAGE, method="GET", path="/v1/payment_intents/*")
    stack.send("PaymentsQueueUrl", charge("unknown"))
    key = "payment.charge:order_unknown"
    stack.job_when(key, "unknown", "finished")
    return key


def pays(stack: Deployment) -> dict[str, Any]:
    """The usual course, from a message to a receipt."""
    order(stack, "18452")
    stack.send("PaymentsQueueUrl", charge("18452"))
    stack.job_when("payment.charge:order_18452", "finished")
    stack.job_when("receipt.send:order_18452", "finished")
    return stack.job_when("payment.charge:order_18452", "finished")


def is_sent_twice(stack: Deployment) -> dict[str, Any]:
    """The same message again, after the end."""
    before = stack.once(pays)
    stack.send("PaymentsQueueUrl", charge("18452"))
    eventually(lambda: True if stack.waiting("PaymentsQueueUrl") == 0 else None, "it was worked")
    return before


def is_not_valid(stack: Deployment) -> list[str]:
    """A message that no contract knows, on every queue."""
    for queue in QUEUES:
        stack.send(queue, {"job": "no.such", "v": 1})
    stack.send("DeadLetterQueueUrl", "not even JSON")
    return eventually(
        lambda: names if len(names := stack.archived("rejects/")) >= len(QUEUES) + 1 else None,
        "the rejects are archived",
    )


def needs_a_person(stack: Deployment) -> list[str]:
    """Jobs that no rule may decide, on every queue."""
    stack.send("PaymentsQueueUrl", charge("nobody"))
    stack.send("MailQueueUrl", {"job": "receipt.send", "v": 1, "order_id": "nobody"})
    stack.send("SyncQueueUrl", push("0"))
    keys = ["payment.charge:order_nobody", "receipt.send:order_nobody"]
    for key in keys:
        stack.job_when(key, "needs_review")
    return eventually(
        lambda: told if len(told := stack.alerts()) >= len(keys) + 1 else None,
        "people are told",
        stack.alerts,
    )


def is_tried_again_after_a_decline(stack: Deployment) -> dict[str, Any]:
    """A second business attempt, which must find the first one failed."""
    order(stack, "declined", payment_method=DECLINED)
    stack.send("PaymentsQueueUrl", charge("declined"))
    stack.job_when("payment.charge:order_declined", "failed")
    order(stack, "declined", status="payment_failed")
    stack.send("PaymentsQueueUrl", charge("declined", attempt=2))
    return stack.job_when("payment.charge:order_declined:2", "finished")


def is_held_by_another(stack: Deployment) -> None:
    """Another worker has the job, on every queue: the message is shown again later."""
    order(stack, "held", status="paid")
    held = {
        "PaymentsQueueUrl": charge("held"),
        "MailQueueUrl": {"job": "receipt.send", "v": 1, "order_id": "held"},
        "SyncQueueUrl": {
            "job": "sync.contact",
            "v": 1,
            "source": "hubspot",
            "source_id": "held",
            "event_id": "1",
        },
    }
    keys = ("payment.charge:order_held", "receipt.send:order_held", "sync.contact:hubspot:held:1")
    for key, (queue, message) in zip(keys, held.items(), strict=True):
        claim(stack, key, message, lease=timedelta(hours=1))
        stack.send(queue, message)
        eventually(
            lambda queue=queue: True if stack.waiting(queue) == 0 else None,  # type: ignore[misc]  # bound now
            f"the message on {queue} was received",
        )


def identity(stack: Deployment) -> str:
    """The identity of the deployed stack, as its workers read it."""
    return stack.once(_identity)


def _identity(stack: Deployment) -> str:
    table = DynamoTableIdentity(stack.client("dynamodb"), stack.outputs["JobsTableName"])
    found = table.identity()
    assert found is not None
    return found.deployment


def claim(stack: Deployment, key: str, message: Mapping[str, object], *, lease: timedelta) -> None:
    """Take a job as another worker would."""
    now = datetime.now(tz=UTC)
    store = DynamoJobStore(
        client=stack.client("dynamodb"), table=stack.outputs["JobsTableName"], tables={}
    )
    store.claim(
        Claim(
            job_key=JobKey(key),
            job_type=key.partition(":")[0],
            owner="another",
            now=now,
            lease_until=now + lease,
            message=json.loads(json.dumps(message)),
            deployment=identity(stack),
        )
    )


def is_a_dead_letter(stack: Deployment) -> dict[str, Any]:
    """A message that its worker gave up on, without any row."""
    order(stack, "dead")
    stack.send("DeadLetterQueueUrl", charge("dead"))
    return stack.job_when("payment.charge:order_dead", "ready")


def was_a_dead_letter_before(stack: Deployment) -> dict[str, Any]:
    """The same letter once more, many hours later: nobody ever took it."""
    stack.once(is_a_dead_letter)
    stack.backdate("payment.charge:order_dead", "stranded_since")
    stack.send("DeadLetterQueueUrl", charge("dead"))
    return stack.job_when("payment.charge:order_dead", "needs_review")


def was_asked_for_and_never_sent(stack: Deployment) -> dict[str, Any]:
    """The order asks for its payment, and nobody sent a message."""
    long_ago = (datetime.now(tz=UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    order(stack, "forgotten", charge_requested_at=long_ago)
    # Of rows, only those that were due in another age: the rest is the schedule's.
    stack.reconcile(to="2020-01-01T00:00:00Z")
    return stack.job_when("payment.charge:order_forgotten", "finished")


def is_missed_by_the_stream(stack: Deployment) -> dict[str, Any]:
    """The stream shows nothing for a while; the reconciler publishes instead."""
    functions = stack.client("lambda")
    mappings = functions.list_event_source_mappings()["EventSourceMappings"]
    (stream,) = (
        one
        for one in mappings
        if "dynamodb" in one["EventSourceArn"] and "StreamPublish" in one["FunctionArn"]
    )
    functions.update_event_source_mapping(UUID=stream["UUID"], Enabled=False)
    order(stack, "missed")
    stack.send("PaymentsQueueUrl", charge("missed"))
    stack.job_when("payment.charge:order_missed", "finished")
    stack.backdate("payment.charge:order_missed", "due_at")
    done = stack.reconcile(key="payment.charge:order_missed")
    functions.update_event_source_mapping(UUID=stream["UUID"], Enabled=True)
    return done


def is_found_by_the_schedule(stack: Deployment) -> dict[str, Any]:
    """The job that nobody knew about is asked about within a minute."""
    # One more: a sweep by hand may have found the other, and the schedule starts none for nothing.
    order(stack, "scheduled")
    key = "payment.charge:order_scheduled"
    claim(stack, key, charge("scheduled"), lease=-timedelta(minutes=1))
    stack.job_when(key, "finished")
    return stack.job_when(stack.once(loses_an_answer), "finished")


def push(contact_id: str, version: int = 1) -> dict[str, object]:
    record_id = f"hubspot#{contact_id}"
    pushed = {"target": "hubspot", "record_id": record_id, "version": version}
    return {"job": "sync.push", "v": 1, **pushed}


def push_key(contact_id: str, version: int = 1) -> str:
    return f"sync.push:hubspot:hubspot#{contact_id}:{version}"


def imports_contacts(stack: Deployment) -> list[str]:
    """A nightly import of the CRM's contacts."""
    ids = stack.sandbox.hubspot.add_contacts(CONTACTS)
    batch = {"job": "sync.import", "v": 1, "source": "hubspot", "batch_id": "nightly"}
    stack.send("SyncQueueUrl", batch)
    stack.job_when("sync.import:hubspot:nightly", "finished")
    for one in ids:
        eventually(
            lambda one=one: stack.get("RecordsTableName", record_id=f"hubspot#{one}"),  # type: ignore[misc]  # bound now
            f"contact {one} is imported",
        )
    return ids


def pushes_a_contact(stack: Deployment) -> dict[str, Any]:
    """One contact back to the CRM."""
    one = stack.once(imports_contacts)[0]
    stack.send("SyncQueueUrl", push(one))
    return stack.job_when(push_key(one), "finished")


def loses_the_answer_to_a_push(stack: Deployment) -> dict[str, Any]:
    """The CRM takes a contact, and its answer is lost."""
    one = stack.once(imports_contacts)[1]
    stack.sandbox.faults.add(FaultKind.ACCEPT_THEN_DROP, method="P*", path="/crm/*")
    stack.send("SyncQueueUrl", push(one))
    stack.job_when(push_key(one), "unknown", "finished")
    stack.reconcile(key=push_key(one))
    return stack.job_when(push_key(one), "finished")


def pushes_what_moved_on(stack: Deployment) -> dict[str, Any]:
    """The record is at its second version already: that one is pushed instead."""
    one = stack.once(imports_contacts)[2]
    stack.client("dynamodb").update_item(
        TableName=stack.outputs["RecordsTableName"],
        Key={"record_id": {"S": f"hubspot#{one}"}},
        UpdateExpression="SET version = :two",
        ExpressionAttributeValues={":two": {"N": "2"}},
    )
    stack.send("SyncQueueUrl", push(one))
    return stack.job_when(push_key(one, 2), "finished")


def is_left_by_its_worker(stack: Deployment) -> dict[str, Any]:
    """A worker died with a job that is safe to run again: it is sent once more, and runs."""
    one = stack.once(imports_contacts)[3]
    key = f"sync.contact:hubspot:{one}:again"
    contact = {"source": "hubspot", "source_id": one, "event_id": "again"}
    message = {"job": "sync.contact", "v": 1, **contact}
    claim(stack, key, message, lease=-timedelta(minutes=1))
    stack.reconcile(key=key)
    return stack.job_when(key, "finished")


def is_left_without_its_order(stack: Deployment) -> dict[str, Any]:
    """A worker died with a payment, and its order is gone: a person is told by the reconciler."""
    key = "payment.charge:order_gone"
    claim(stack, key, charge("gone"), lease=-timedelta(minutes=1))
    stack.reconcile(key=key)
    return stack.job_when(key, "needs_review")


def loses_a_part_of_its_history(stack: Deployment) -> None:
    """Lambda gives up on a part of the stream: a gap is open until a scan closes it."""
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
    eventually(lambda: stack.archived("history/gaps/") or None, "the gap is recorded")


ALL: Final[tuple[Callable[[Deployment], object], ...]] = (
    loses_an_answer,
    pays,
    is_sent_twice,
    is_not_valid,
    needs_a_person,
    is_tried_again_after_a_decline,
    is_held_by_another,
    is_a_dead_letter,
    was_a_dead_letter_before,
    was_asked_for_and_never_sent,
    is_missed_by_the_stream,
    imports_contacts,
    pushes_a_contact,
    loses_the_answer_to_a_push,
    pushes_what_moved_on,
    is_left_by_its_worker,
    is_left_without_its_order,
    is_found_by_the_schedule,
)
