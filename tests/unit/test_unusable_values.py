"""Values that cannot be stored or pushed: one review with a reason at once, never a retry."""

from typing import Any

import pytest

from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.core.outcomes import NeedsReview, RunOutcome
from oncely.core.row_items import deserialize_job, serialize_job
from oncely.jobs.sync_contact import SyncContact
from tests.support.fakes import START
from tests.support.in_memory_stack import InMemoryStack
from tests.unit.samples import make_job
from tests.unit.test_sync_contact import contact_message, crm_record, put_contact, stored_contact
from tests.unit.test_sync_push import key, push_message, put_record, record_row

CONTACT_KEY = JobKey("sync.contact:hubspot:4419:1")
REFUND_KEY = JobKey("payment.refund:order_18452:rma_1")


def nested(levels: int) -> Any:  # noqa: ANN401  # JSON
    return [nested(levels - 1)] if levels else "x"


UNSTORABLE = {
    "too large a number": 1e300,
    "39 digits": int("1" * 39),
    "not a number": float("nan"),
    "infinite": float("inf"),
    "33 levels": nested(33),
    "more levels than the stack": nested(900),
    "more than 400 KB": "x" * 500_000,
    "half a character": "\ud800",
}
UNUSABLE_ROWS: dict[str, dict[str, Any]] = {
    "record is text": {"record": "text"},
    "properties are text": {"record": {"properties": "text"}},
    "properties are a list": {"record": {"properties": ["a"]}},
    "properties are a number": {"record": {"properties": 7}},
    "property is a list": {"record": {"properties": {"email": ["a"]}}},
    "property is a map": {"record": {"properties": {"email": {"a": "b"}}}},
    "version is text": {"version": "1"},
    "version is a word": {"version": "one"},
    "version is a fraction": {"version": 1.5},
    "version is null": {"version": None},
    "pushed version is text": {"pushed_version": "1"},
    "contact id is a number": {"crm_id": 5},
    "reservation is a number": {"push_until": 5, "push_job": "sync.push:hubspot:app#77:9"},
    "reservation is a word": {"push_until": "soon", "push_job": "sync.push:hubspot:app#77:9"},
}


def assert_reviewed_once(world: InMemoryStack, outcome: RunOutcome, job_key: str) -> None:
    assert isinstance(outcome, NeedsReview)
    job = world.job(JobKey(job_key))
    assert (job.status, job.fence) == (Status.NEEDS_REVIEW, 1)
    assert len(world.alerts.sent) == 1


@pytest.mark.parametrize("value", UNSTORABLE)
def test_contact_that_no_table_can_hold_needs_review_at_once(
    world: InMemoryStack, value: str
) -> None:
    put_contact(world, crm_record(notes=UNSTORABLE[value]))

    outcome = world.run(contact_message("1"))

    assert_reviewed_once(world, outcome, CONTACT_KEY)
    assert "a business write failed" in (world.job(CONTACT_KEY).last_error or "")
    assert stored_contact(world) is None


@pytest.mark.parametrize("row", UNUSABLE_ROWS)
def test_record_that_cannot_be_pushed_needs_review_at_once(world: InMemoryStack, row: str) -> None:
    put_record(world, {"version": 1, **UNUSABLE_ROWS[row]})

    outcome = world.run(push_message())

    assert_reviewed_once(world, outcome, key(1))
    assert "record app#77 cannot be pushed: its " in (world.job(JobKey(key(1))).last_error or "")
    assert world.crm.calls == []


@pytest.mark.parametrize("column", ["version", "source_updated_at"])
def test_record_that_cannot_be_compared_needs_review_at_once(
    world: InMemoryStack, column: str
) -> None:
    row: dict[str, object] = {"version": 1, "source_updated_at": None, "record": {}, column: "one"}
    world.rows.put("records", {"record_id": "hubspot#4419"}, row)
    put_contact(world, crm_record())

    assert_reviewed_once(world, world.run(contact_message("1")), CONTACT_KEY)
    assert stored_contact(world)["record"] == {}


def test_record_that_changes_during_push_needs_review_with_its_contact(
    world: InMemoryStack,
) -> None:
    put_record(world, {"version": 1, "record": {"properties": {"email": "a@example.com"}}})
    push = world.crm.upsert_contact

    def then_it_changes(*args: Any, **named: Any) -> Any:  # noqa: ANN401  # as the client
        outcome = push(*args, **named)
        put_record(world, {**record_row(world), "pushed_version": "many"})
        return outcome

    world.crm.upsert_contact = then_it_changes

    assert_reviewed_once(world, world.run(push_message()), key(1))
    (contact_id,) = world.crm.contacts
    assert world.job(JobKey(key(1))).provider_ref == contact_id


@pytest.mark.parametrize("status", [["paid"], {"a": "b"}, 7])
def test_refund_of_order_with_unusable_status_needs_review_at_once(
    world: InMemoryStack, status: object
) -> None:
    world.add_order(status=status, charge_id="ch_1")

    outcome = world.run(world.request_refund(amount=500))

    assert_reviewed_once(world, outcome, REFUND_KEY)


@pytest.mark.parametrize("version", ["one", None, ["1"], 1.5])
def test_record_with_unusable_version_is_erased(world: InMemoryStack, version: object) -> None:
    row = {"version": version, "source": "hubspot", "record": {"email": "ada@example.com"}}
    world.rows.put("records", {"record_id": "hubspot#4419"}, row)

    write = SyncContact.erase_record(world.tools, "hubspot#4419", now=START, has_open_jobs=False)

    assert write is not None
    assert world.tools.table("records").update(write)
    assert (stored_contact(world)["version"], "record" in stored_contact(world)) == (1, False)


def test_half_a_character_of_result_is_stored() -> None:
    job = make_job(result={"network_reason": "\ud800"})
    stored = serialize_job(job)

    stored["result"]["S"].encode()
    assert deserialize_job(stored) == job
