"""Erasure at the ports: every store drops the data of an ended job, every archive all versions."""

import gzip
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from oncely.core.effect_outcomes import BusinessWrite
from oncely.core.ended_jobs import holds_only_proof, request_erasure
from oncely.core.errors import UnavailableError
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event
from oncely.core.store import Swapped
from oncely.history.erasure_log import ErasureEntry, ErasureLog
from oncely.operate.erase import ErasableArchive
from oncely.testing.memory_aws.calls import client_error
from tests.conformance.archive_harness import ArchiveHarness
from tests.conformance.samples import KEY, make_claim, paid_order_write
from tests.conformance.store_fixtures import StoreFixture
from tests.unit.samples import NOW


def claim_marked(world: StoreFixture) -> Any:  # noqa: ANN401  # a job
    world.store.claim(make_claim())
    job = world.store.get(KEY)
    assert job is not None
    marked = request_erasure(NOW).apply_to(job, now=NOW, actor="operator:ada")
    assert isinstance(world.store.swap(job, marked), Swapped)
    return marked


@pytest.mark.parametrize("writes", [(), (paid_order_write(),)], ids=["alone", "transaction"])
def test_ending_write_drops_data(db: StoreFixture, writes: tuple[BusinessWrite, ...]) -> None:
    db.rows.put("orders", {"order_id": "18452"}, {"status": "payment_pending", "amount": 1250})
    marked = claim_marked(db)
    assert db.store.get(KEY) == marked  # an open job keeps what it needs

    ended = marked.apply(
        Event.CONFIRM,
        now=NOW,
        actor="worker",
        reason="Anna paid",
        due_at=None,
        result={"to": "a@b"},
    )
    written = db.store.swap(marked, ended, business_writes=writes)

    row = db.store.get(KEY)
    assert isinstance(written, Swapped)
    assert row == written.job
    assert row is not None
    assert holds_only_proof(row)
    assert (row.status, row.result, row.message) == (ended.status, None, {})
    assert db.finder.by_customer(str(marked.customer_id), limit=1) == []


def test_row_that_must_publish_keeps_data_until_then(db: StoreFixture) -> None:
    marked = claim_marked(db)
    ended = marked.apply(Event.CONFIRM, now=NOW, actor="worker", reason="paid")
    assert ended.due_at is not None
    db.store.swap(marked, ended)
    assert db.store.get(KEY) == ended

    db.store.swap(ended, replace(ended, version=ended.version + 1, due_at=None))

    row = db.store.get(KEY)
    assert row is not None
    assert holds_only_proof(row)


def test_partition_is_deleted(db: StoreFixture) -> None:
    rows = db.rows
    for record, event in (("crm#1", "a"), ("crm#1", "b"), ("crm#2", "a")):
        rows.put("import_events", {"record_id": record, "event_id": event}, {})
    delete = {"table": "import_events", "partition": {"record_id": "crm#1"}, "sort": "event_id"}

    assert rows.delete_partition(**delete, dry_run=True) == 2  # type: ignore[arg-type]  # by name
    assert rows.delete_partition(**delete, dry_run=False) == 2  # type: ignore[arg-type]  # by name

    assert rows.get("import_events", {"record_id": "crm#1", "event_id": "a"}) is None
    assert rows.get("import_events", {"record_id": "crm#2", "event_id": "a"}) is not None


@pytest.fixture
def log(bucket: ArchiveHarness) -> ErasureLog:
    return ErasureLog(bucket.objects)


def test_log_has_job_since_its_day(log: ErasureLog) -> None:
    entry = ErasureEntry(job_key=KEY, requested_at=NOW, actor="operator:ada")
    log.record(entry)
    log.record(entry)

    assert log.erased() == log.erased(since=NOW.date())
    assert log.erased().requested_at.values()
    assert log.erased().includes(KEY, NOW - timedelta(days=1))
    assert not log.erased().includes(KEY, NOW + timedelta(seconds=1))  # a later job
    assert not log.erased().includes(JobKey("payment.charge:order_2"), NOW)
    assert not log.erased(since=date(2026, 11, 17)).has_key(KEY)


NAME = "history/day=2026-11-16/job_type=payment.charge/1.jsonl.gz"
ANNA = {"job_key": "payment.charge:order_1", "customer_id": "cus_anna"}
BOB = {"job_key": "payment.charge:order_2", "customer_id": "cus_bob", "new_field": "é"}


def lines(*content: dict[str, str]) -> bytes:
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in content)
    return gzip.compress(text.encode())


def redact(line: Any) -> Any:  # noqa: ANN401  # JSON
    is_anna = line["job_key"].endswith("_1")
    return {name: line[name] for name in line if not is_anna or name != "customer_id"}


def put(bucket: ArchiveHarness, body: bytes, key: str = NAME) -> None:
    bucket.client.put_object(Bucket=bucket.name, Key=key, Body=body)


def redact_history(bucket: ArchiveHarness) -> list[bool]:
    archive = ErasableArchive(bucket.objects)
    return list(archive.redact_history(redact, dry_run=False))


def test_every_version_with_data_is_gone(bucket: ArchiveHarness) -> None:
    for _ in range(3):
        put(bucket, lines(ANNA, BOB))
    put(bucket, lines(BOB), NAME.replace("1.", "2."))

    assert redact_history(bucket) == [True, False]

    assert not any("cus_anna" in text for text in bucket.texts())
    assert sorted(bucket.texts()) == sorted(
        [
            '{"job_key":"payment.charge:order_1"}\n' + gzip.decompress(lines(BOB)).decode(),
            gzip.decompress(lines(BOB)).decode(),
        ]
    )
    assert redact_history(bucket) == [False, False]


def test_deleted_object_leaves_no_version(bucket: ArchiveHarness) -> None:
    put(bucket, lines(ANNA))
    bucket.client.delete_object(Bucket=bucket.name, Key=NAME)

    assert redact_history(bucket) == [True]
    assert bucket.texts() == []


def test_bucket_without_versions_keeps_redacted_object(bucket: ArchiveHarness) -> None:
    bucket.name = bucket.new(versioned=False)
    put(bucket, lines(ANNA, BOB))
    redact_history(bucket)
    (text,) = bucket.texts()
    assert "cus_anna" not in text
    assert "cus_bob" in text


def test_lost_race_redacts_newer_version(bucket: ArchiveHarness) -> None:
    """Another erasure or a retried batch writes the object after it was read."""
    put(bucket, lines(ANNA))
    raced: list[bool] = []

    def race(request: Mapping[str, Any]) -> None:
        if not raced and "IfMatch" in request:
            raced.append(True)
            put(bucket, lines(ANNA, BOB))

    bucket.set_hook("put_object", race)
    redact_history(bucket)

    assert raced
    (text,) = bucket.texts()
    assert "cus_anna" not in text
    assert "cus_bob" in text


def test_crash_between_put_and_delete_is_resumed(bucket: ArchiveHarness) -> None:
    put(bucket, lines(ANNA, BOB))

    def crash(_: Mapping[str, Any]) -> None:
        metadata = {"HTTPStatusCode": 500}
        raise client_error("InternalError", "DeleteObject", ResponseMetadata=metadata)

    bucket.set_hook("delete_object", crash)
    with pytest.raises(UnavailableError):
        redact_history(bucket)
    assert any("cus_anna" in text for text in bucket.texts())

    bucket.set_hook("delete_object", None)
    assert redact_history(bucket) == [True]
    assert not any("cus_anna" in text for text in bucket.texts())


def test_reject_is_deleted_with_versions_and_markers(bucket: ArchiveHarness) -> None:
    name = "rejects/2026/11/16/1.json"
    for body in ({"body": "cus_anna"}, {"body": "edited"}):
        put(bucket, json.dumps(body).encode(), name)
    put(bucket, b"cus_bob", "rejects/2026/11/16/2.json")  # not JSON

    def matches(reject: Any) -> bool:  # noqa: ANN401  # JSON
        return "cus_anna" in reject["body"]

    archive = ErasableArchive(bucket.objects)
    assert list(archive.delete_rejects(matches, dry_run=True)) == [True, False]
    assert len(bucket.texts()) == 3
    assert list(archive.delete_rejects(matches, dry_run=False)) == [True, False]
    assert bucket.texts() == ["cus_bob"]
