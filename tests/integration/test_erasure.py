"""Erasing a customer on a real engine: no personal data is left, and no job runs again."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from oncely.core.attempt import DecisionWriter
from oncely.core.decide import decide_effect
from oncely.core.effect_outcomes import Declined, Succeeded
from oncely.core.errors import InvalidRequestError
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status
from oncely.core.new_row import row_from_message
from oncely.core.repairs import Repair
from oncely.core.table_guard import TableBlocked
from oncely.history.erasure_log import Person
from oncely.history.sources import RowPage
from oncely.jobs.payment_charge import PaymentCharge
from oncely.operate.repair_request import RepairRequest
from oncely.operate.restore_proofs import Declaration
from tests.support.dynamo import DynamoFixture
from tests.support.erasing import ErasableStack, new_bucket, s3_client
from tests.support.fakes import FakeTableGuard
from tests.support.in_memory_stack import charge_message
from tests.support.outcomes import is_duplicate, is_finished

NAME, EMAIL, ADDRESS = "Änna Tester", "anna.tester@example.org", "1 Elm Street"
CUSTOMER = "cus_anna"
MARKS = (NAME, "\\u00c4nna", EMAIL, ADDRESS, CUSTOMER)
ANNA = Person.parse(CUSTOMER, ["hubspot:4419"])
ORDERS = ("1001", "1002", "1003")
CHARGED = JobKey("payment.charge:order_1001")
KEPT = ("orders",)  # of the team, which erases there itself


def contact_message(source_id: str, event: str) -> dict[str, object]:
    source = {"source": "hubspot", "source_id": source_id, "event_id": event}
    return {"job": "sync.contact", "v": 1, **source}


def add_contact(stack: ErasableStack, source_id: str, **properties: str) -> None:
    stack.world.crm.model.contacts.last_id = int(source_id) - 1
    assert stack.world.crm.add(**properties) == source_id


ANNAS_CONTACT = contact_message("4419", "e1")


@pytest.fixture
def stack(dynamo: DynamoFixture, ministack: str) -> Iterator[ErasableStack]:
    with closing(s3_client(ministack)) as s3:
        yield ErasableStack(dynamo, s3, new_bucket(s3))


@pytest.fixture
def used(stack: ErasableStack) -> ErasableStack:
    """Anna's 3 payments, receipts and contact, and those of Bob, all archived."""
    for order_id in ORDERS:
        add_order(stack, order_id, CUSTOMER, EMAIL)
    add_order(stack, "2001", "cus_bob", "bob@example.org")
    for order_id in (*ORDERS, "2001"):
        customer = "cus_bob" if order_id == "2001" else CUSTOMER
        assert is_finished(stack.run(charge_message(order_id, customer_id=customer)))
    receipts = [json.loads(body) for body in stack.publish()]
    assert len(receipts) == 4
    for receipt in receipts:
        assert is_finished(stack.run(receipt))
    add_contact(stack, "4419", firstname=NAME, email=EMAIL, address=ADDRESS)
    assert is_finished(stack.run(ANNAS_CONTACT))
    add_contact(stack, "7", firstname="Bob", email="bob@example.org")
    assert is_finished(stack.run(contact_message("7", "e1")))
    stack.archive()
    for name, body in REJECTS.items():
        reject = {"body": body, "reason": REJECT_REASONS.get(name, "invalid")}
        stack.rejects.save_reject(name, reject, at=stack.world.clock.now())
    return stack


REJECTS = {
    "by-order": json.dumps({"job": "payment.charge", "v": 1, "order_id": "1001", "email": EMAIL}),
    "by-customer": json.dumps({"job": "x", "to": {"customer": CUSTOMER, "name": NAME}}),
    "by-contact": json.dumps({"source": "hubspot", "source_id": "4419", "who": NAME}),
    "not-json": f"customer {CUSTOMER}, {ADDRESS}",
    "by-reason": json.dumps({"job": "payment.charge", "v": 1, "order_id": "9", "customer_id": "x"}),
    "of-bob": json.dumps({"job": "payment.charge", "order_id": "2001", "email": "bob@example.org"}),
}

# A message without a job: only its reason has her id.
REJECT_REASONS = {"by-reason": f"the message has customer_id x, but order 9 has {CUSTOMER}"}


def add_order(stack: ErasableStack, order_id: str, customer: str, email: str) -> None:
    stack.world.add_order(
        order_id, customer_id=customer, receipt_email=email, payment_customer=f"pay_{order_id}"
    )


def erase_own_orders(stack: ErasableStack) -> None:
    """What the team does in its own table."""
    for order_id in ORDERS:
        table, key = stack.dynamo.tables["orders"], {"order_id": {"S": order_id}}
        stack.dynamo.admin.update_item(
            TableName=table, Key=key, UpdateExpression="REMOVE receipt_email, customer_id"
        )


def test_nothing_of_customer_is_left_anywhere(used: ErasableStack) -> None:
    assert {"jobs", "records", "orders"} <= used.places_of(*MARKS)
    assert any(place.startswith("history/") for place in used.places_of(*MARKS))

    done = used.erase(ANNA)
    erase_own_orders(used)

    assert used.places_of(*MARKS) == set()
    assert (len(done.erased), done.marked, done.records, done.events) == (7, (), 1, 1)
    assert done.rejects == 5


def test_proof_of_each_job_stays(used: ErasableStack) -> None:
    before = used.jobs()
    used.erase(ANNA)

    for key in [JobKey(f"payment.charge:order_{order_id}") for order_id in ORDERS]:
        row, first = used.jobs()[key], before[key]
        assert row.erasure_requested_at is not None
        for name in ("status", "created_at", "provider_ref", "expires_at", "fence", "deployment"):
            assert getattr(row, name) == getattr(first, name), name
        assert [one.event for one in row.evidence][: len(first.evidence)] == [
            one.event for one in first.evidence
        ]
        assert row.fingerprint is None
        assert not any(one.reason for one in row.evidence)
        lines = used.app.ports.history.about(key)
        assert {"finished"} <= {line.status for line in lines}
        assert {"fingerprint" in line.image for line in lines} == {False}


def test_others_keep_their_data(used: ErasableStack) -> None:
    before = {place for place, text in used.contents() if "bob" in text.lower()}
    rows = {key: job for key, job in used.jobs().items() if "2001" in key or ":7:" in key}

    used.erase(ANNA)

    assert {place for place, text in used.contents() if "bob" in text.lower()} == before
    assert {key: used.jobs()[key] for key in rows} == rows


def test_replay_is_duplicate_whatever_its_values(used: ErasableStack) -> None:
    used.erase(ANNA)
    charges = len(used.world.payments.charges)

    for order_id in ORDERS:
        assert is_duplicate(used.run(charge_message(order_id)))
        used.world.add_order(order_id, customer_id="cus_other", amount=77)
        assert is_duplicate(used.run(charge_message(order_id, amount=77)))
        receipt = {"job": "receipt.send", "v": 1, "order_id": order_id}
        assert is_duplicate(used.run(receipt))
    assert is_duplicate(used.run(ANNAS_CONTACT))

    assert len(used.world.payments.charges) == charges


def test_queued_stream_record_does_not_bring_data_back(used: ErasableStack) -> None:
    add_order(used, "1004", CUSTOMER, EMAIL)
    used.run(charge_message("1004", customer_id=CUSTOMER))
    queued = list(used.records)
    assert CUSTOMER in json.dumps(queued)

    assert used.erase(ANNA).marked == ("payment.charge:order_1004",)  # its receipt is not sent yet
    assert len(used.publish()) == 1
    used.records = queued + used.records
    used.archive()

    assert used.places_of(*MARKS) - set(KEPT) == set()


def late_report(stack: ErasableStack, outcome: Succeeded | Declined) -> JobRow:
    """A worker that was frozen after its claim writes the provider's response."""
    row = stack.jobs()[CHARGED]
    stale = replace(row, status=Status.STARTED, owner="frozen", version=2)
    writer = DecisionWriter(store=stack.dynamo.store(), clock=stack.world.clock, actor="worker")
    decide_on = partial(
        decide_effect, policy=PaymentCharge.policy, outcome=outcome, now=stack.world.clock.now()
    )
    assert writer.write(stale, decide_on, outcome=outcome).job is None
    stack.queue_changes()
    return stack.jobs()[CHARGED]


def test_late_note_does_not_bring_data_back(used: ErasableStack) -> None:
    used.erase(ANNA)
    erase_own_orders(used)
    row = used.jobs()[CHARGED]

    noted = late_report(used, Succeeded(f"{NAME} paid", ref=row.provider_ref, result={"to": EMAIL}))
    used.archive()

    assert noted.version == row.version + 1
    assert noted.evidence[-1].event is Event.NOTE
    assert used.places_of(*MARKS) == set()


def test_contradiction_is_reviewed_and_drops_its_text_when_resolved(used: ErasableStack) -> None:
    used.erase(ANNA)
    erase_own_orders(used)

    review = late_report(used, Declined(f"{NAME} has no funds", code="declined"))
    assert review.status is Status.NEEDS_REVIEW
    assert NAME in str(review.last_error)
    repair = RepairRequest(
        key=CHARGED,
        repair=Repair.MARK_FINISHED,
        version=review.version,
        reason=f"{NAME} did pay",
        reference=review.provider_ref,
        actor="ada",
    )
    used.app.repairer.repair(repair)
    used.queue_changes()
    used.archive()

    assert used.jobs()[CHARGED].ended
    assert used.places_of(*MARKS) == set()


def test_open_jobs_are_marked_and_drop_data_when_they_end(used: ErasableStack) -> None:
    add_order(used, "1004", CUSTOMER, EMAIL)
    used.world.payments.declines = False
    used.world.run_to_review("1005")  # an order that cannot be charged
    used.dynamo.set_attributes(JobKey("payment.charge:order_1005"), customer_id=CUSTOMER)
    waiting = contact_message("4419", "e2")
    used.world.store.create(enqueued_row(used, waiting))
    used.queue_changes()

    used.world.crm.archive("4419")  # at the source first
    done = used.erase(ANNA)
    assert set(done.marked) == {"payment.charge:order_1005", "sync.contact:hubspot:4419:e2"}
    assert used.jobs()[JobKey("sync.contact:hubspot:4419:e2")].message == waiting

    assert is_finished(used.run(waiting))
    used.archive()
    left = used.places_of(NAME, EMAIL, ADDRESS)
    assert left - set(KEPT) == set()  # neither the job nor the record that it would import


def enqueued_row(stack: ErasableStack, message: dict[str, object]) -> JobRow:
    job = stack.app.registry.parse_mapping(message)
    now = stack.world.clock.now()
    return row_from_message(job, now=now, due_at=now, actor="producer", reason="enqueued")


def test_dry_run_counts_and_changes_nothing(used: ErasableStack) -> None:
    before = sorted(used.contents())

    done = used.erase(ANNA, dry_run=True)

    assert (len(done.erased), done.records, done.events, done.rejects) == (7, 1, 1, 5)
    assert done.history > 0
    assert sorted(used.contents()) == before


def test_second_erasure_finds_nothing(used: ErasableStack) -> None:
    used.erase(ANNA)
    assert used.erase(ANNA).found_nothing
    assert used.erase(Person.parse("cus_unknown", [])).found_nothing


def test_history_of_expired_row_is_erased_and_logged(used: ErasableStack) -> None:
    """Its row is gone, but a backup may still hold it."""
    used.dynamo.remove_row(CHARGED)

    used.erase(ANNA)
    erase_own_orders(used)

    assert used.places_of(*MARKS) == set()
    assert used.app.ports.erasure_log.erased().has_key(CHARGED)


def test_restore_does_not_bring_data_back(used: ErasableStack) -> None:
    """Neither a backup from before the erasure nor the history restores the data."""
    backup = used.jobs()
    used.erase(ANNA)
    erase_own_orders(used)
    used.archive()
    for key in used.jobs():
        used.dynamo.remove_row(key)
    for key, job in backup.items():
        if key != CHARGED:  # this one is restored from the history
            used.dynamo.store().create(job)

    result = used.app.proof_restorer.replace_table(replays_for=timedelta(days=18))

    assert isinstance(result, Declaration)
    assert used.jobs()[CHARGED].status is Status.FINISHED
    assert used.jobs().keys() == backup.keys()
    assert used.places_of(*MARKS) == set()


def test_restored_backup_is_erased_again(used: ErasableStack) -> None:
    """The stream was lost with the table, so the history has no line of the erasure."""
    backup = used.jobs()
    used.erase(ANNA)
    erase_own_orders(used)
    used.records = []
    for key, job in backup.items():
        used.dynamo.remove_row(key)
        used.dynamo.store().create(job)

    result = used.app.proof_restorer.replace_table(replays_for=timedelta(days=18))

    assert isinstance(result, Declaration)
    assert used.places_of(*MARKS) == set()


def test_undeclared_table_is_refused(used: ErasableStack) -> None:
    used.world.guard = FakeTableGuard(TableBlocked("the job table was restored"))
    with pytest.raises(InvalidRequestError, match="was restored"):
        used.erase(ANNA)


def test_backfill_does_not_bring_data_back(used: ErasableStack) -> None:
    """It read the rows before the erasure, and writes their lines after it."""
    backup = used.jobs()
    used.erase(ANNA)
    erase_own_orders(used)
    page = RowPage(jobs=tuple(backup.values()), unreadable=(), after=None)

    old_rows: Any = SimpleNamespace(pages=lambda **_: iter((page,)))

    app = used.app
    app.ports.row_scan = old_rows
    app.backfill.run(generation="table-1")

    assert used.places_of(*MARKS) == set()
