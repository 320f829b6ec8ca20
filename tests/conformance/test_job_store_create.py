"""Creating and reading job rows, on every engine: the first producer's row stays complete."""

from dataclasses import replace

from oncely.core.job_row import MAX_EVIDENCE_ENTRIES
from oncely.core.store import AlreadyExists, Created, JobStore
from oncely.core.text import MAX_REASON_LENGTH
from tests.conformance.samples import (
    EVIDENCE,
    KEY,
    ORDER_KEY,
    claim_job,
    job_with_every_field,
    make_ready_job,
    time_at,
)
from tests.support.dynamo import DynamoFixture


def test_job_with_all_fields_round_trips(store: JobStore) -> None:
    job = job_with_every_field()
    store.create(job)
    assert store.get(KEY) == job


def test_row_holds_maximum_evidence(store: JobStore) -> None:
    entries = tuple(
        replace(EVIDENCE[0], at=time_at(number), reason="€" * MAX_REASON_LENGTH)
        for number in range(MAX_EVIDENCE_ENTRIES)
    )

    store.create(make_ready_job(evidence=entries))

    found = store.get(KEY)
    assert found is not None
    assert found.evidence == entries


def test_create_writes_row_when_job_is_absent(store: JobStore) -> None:
    job = make_ready_job()
    assert store.get(KEY) is None
    for _ in range(2):  # the same producer's retry counts as created
        assert store.create(job) == Created(job)
        assert store.get(KEY) == job


def test_second_create_returns_existing_row(store: JobStore) -> None:
    first = make_ready_job()
    store.create(first)
    second = make_ready_job(created_at=time_at(5), message={"other": "message"})
    assert store.create(second) == AlreadyExists(first)
    assert store.get(KEY) == first


def test_create_never_replaces_claimed_row(store: JobStore) -> None:
    claimed = claim_job(store)
    assert store.create(make_ready_job()) == AlreadyExists(claimed)
    assert store.get(KEY) == claimed


def test_create_is_one_call_whether_it_succeeds_or_fails(dynamo: DynamoFixture) -> None:
    store = dynamo.store()
    store.create(make_ready_job())
    store.create(make_ready_job(created_at=time_at(5)))
    assert dynamo.calls.attempts == ["PutItem", "PutItem"]


def test_rows_are_read_consistently(dynamo: DynamoFixture) -> None:
    dynamo.store().get(KEY)
    dynamo.rows().get("orders", ORDER_KEY)

    # The engines of these tests never read stale rows. DynamoDB does, by default.
    asked = [(name, request.get("ConsistentRead")) for name, request in dynamo.calls.requests]
    assert asked == [("GetItem", True)] * 2


def test_row_of_later_version_can_be_read(dynamo: DynamoFixture) -> None:
    store = dynamo.store()
    store.create(make_ready_job())
    dynamo.set_attributes(KEY, of_a_later_version={"depth": 1})
    assert store.get(KEY) == make_ready_job()


def test_times_are_sortable_text_and_expiry_is_number(dynamo: DynamoFixture) -> None:
    dynamo.store().create(replace(job_with_every_field(), due_at=time_at(80)))
    row = dynamo.row(KEY)
    assert row is not None
    assert row["due_at"] == {"S": "2026-11-16T03:01:20.123Z"}
    assert row["expires_at"] == {"N": "1826334001"}
