"""Erasure at the ports: every store drops the data of an ended job, every archive all versions."""

import gzip
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from oncely.aws.s3_erasure import S3ErasableArchive
from oncely.aws.s3_erasure_log import S3ErasureLog
from oncely.domain.effect_outcomes import BusinessWrite
from oncely.domain.erasure import holds_only_proof, request_erasure
from oncely.domain.erasure_log import ErasureEntry
from oncely.domain.errors import UnavailableError
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Event
from oncely.ports import Swapped
from oncely.publish.archive_history import ErasureLog
from oncely.testing.history import MemoryErasureLog
from tests.conformance.samples import KEY, make_claim, paid_order_write
from tests.conformance.store_fixtures import StoreFixture
from tests.support.engines import EngineKind
from tests.support.erasing import new_bucket, object_versions, s3_client
from tests.unit.samples import NOW


def claim_marked(world: StoreFixture) -> Any:  # noqa: ANN401  # a job
    world.store.claim(make_claim())
    job = world.store.get(KEY)
    assert job is not None
    marked = request_erasure(NOW).apply_to(job, now=NOW, actor="operator:ada")
    assert isinstance(world.store.compare_and_swap(job, marked), Swapped)
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
    written = db.store.compare_and_swap(marked, ended, business_writes=writes)

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
    db.store.compare_and_swap(marked, ended)
    assert db.store.get(KEY) == ended

    db.store.compare_and_swap(ended, replace(ended, version=ended.version + 1, due_at=None))

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


@pytest.fixture(params=[EngineKind.MEMORY, EngineKind.MINISTACK])
def log(request: pytest.FixtureRequest, no_profile: None) -> Iterator[ErasureLog]:
    if request.param is EngineKind.MEMORY:
        yield MemoryErasureLog()
        return
    with closing(s3_client(request.getfixturevalue("ministack"))) as client:
        yield S3ErasureLog(client, new_bucket(client))


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


class Bucket:
    def __init__(self, url: str, *, versioned: bool = True) -> None:
        self.client = s3_client(url)
        self.name = new_bucket(self.client, versioned=versioned)
        self.archive = S3ErasableArchive(self.client, self.name)

    def put(self, body: bytes, key: str = NAME) -> None:
        self.client.put_object(Bucket=self.name, Key=key, Body=body)

    def texts(self) -> list[str]:
        return [text for _, text in object_versions(self.client, self.name)]

    def redact(self) -> list[bool]:
        return list(self.archive.redact_history(redact, dry_run=False))


@pytest.fixture
def bucket(no_profile: None, ministack: str) -> Iterator[Bucket]:
    bucket = Bucket(ministack)
    with closing(bucket.client):
        yield bucket


def test_every_version_with_data_is_gone(bucket: Bucket) -> None:
    for _ in range(3):
        bucket.put(lines(ANNA, BOB))
    bucket.put(lines(BOB), NAME.replace("1.", "2."))

    assert bucket.redact() == [True, False]

    assert not any("cus_anna" in text for text in bucket.texts())
    assert sorted(bucket.texts()) == sorted(
        [
            '{"job_key":"payment.charge:order_1"}\n' + gzip.decompress(lines(BOB)).decode(),
            gzip.decompress(lines(BOB)).decode(),
        ]
    )
    assert bucket.redact() == [False, False]


def test_deleted_object_leaves_no_version(bucket: Bucket) -> None:
    bucket.put(lines(ANNA))
    bucket.client.delete_object(Bucket=bucket.name, Key=NAME)

    assert bucket.redact() == [True]
    assert bucket.texts() == []


def test_bucket_without_versions_keeps_redacted_object(no_profile: None, ministack: str) -> None:
    bucket = Bucket(ministack, versioned=False)
    with closing(bucket.client):
        bucket.put(lines(ANNA, BOB))
        bucket.redact()
        (text,) = bucket.texts()
        assert "cus_anna" not in text
        assert "cus_bob" in text


def test_lost_race_redacts_newer_version(bucket: Bucket) -> None:
    """Another erasure or a retried batch writes the object after it was read."""
    bucket.put(lines(ANNA))
    raced: list[bool] = []

    def race(params: dict[str, Any], **_: object) -> None:
        if not raced and "If-Match" in params["headers"]:
            raced.append(True)
            bucket.put(lines(ANNA, BOB))

    bucket.client.meta.events.register("before-call.s3.PutObject", race)
    bucket.redact()

    assert raced
    (text,) = bucket.texts()
    assert "cus_anna" not in text
    assert "cus_bob" in text


def test_crash_between_put_and_delete_is_resumed(bucket: Bucket) -> None:
    bucket.put(lines(ANNA, BOB))

    def crash(**_: object) -> None:
        broken: Any = {"Error": {}, "ResponseMetadata": {"HTTPStatusCode": 500}}
        raise ClientError(broken, "DeleteObject")

    events = bucket.client.meta.events
    events.register("before-call.s3.DeleteObject", crash)
    with pytest.raises(UnavailableError):
        bucket.redact()
    assert any("cus_anna" in text for text in bucket.texts())

    events.unregister("before-call.s3.DeleteObject", crash)
    assert bucket.redact() == [True]
    assert not any("cus_anna" in text for text in bucket.texts())


def test_reject_is_deleted_with_versions_and_markers(bucket: Bucket) -> None:
    name = "rejects/2026/11/16/1.json"
    for body in ({"body": "cus_anna"}, {"body": "edited"}):
        bucket.put(json.dumps(body).encode(), name)
    bucket.put(b"cus_bob", "rejects/2026/11/16/2.json")  # not JSON

    def matches(reject: Any) -> bool:  # noqa: ANN401  # JSON
        return "cus_anna" in reject["body"]

    assert list(bucket.archive.delete_rejects(matches, dry_run=True)) == [True, False]
    assert len(bucket.texts()) == 3
    assert list(bucket.archive.delete_rejects(matches, dry_run=False)) == [True, False]
    assert bucket.texts() == ["cus_bob"]
