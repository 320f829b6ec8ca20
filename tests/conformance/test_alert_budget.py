"""The alert budget: a few alerts of each kind, then one digest, and nothing counted twice."""

from datetime import datetime

from oncely.alerts.budget import (
    DIGEST_GRACE,
    MAX_EXAMPLES,
    AlertCause,
    AlertDigest,
    AlertKind,
    AlertLimits,
)
from oncely.alerts.budget_table import DynamoAlertBudget
from oncely.core.due import DueAction
from oncely.core.keys import JobKey
from tests.conformance.samples import time_at
from tests.conformance.store_fixtures import StoreFixture
from tests.support.dynamo import DynamoFixture

LIMITS = AlertLimits()
KIND = AlertKind(cause=AlertCause.REVIEW, job_type="payment.charge", reason="order … is odd")
OTHER = AlertKind(cause=AlertCause.CONFLICT, job_type="payment.charge", reason="order … is odd")
WINDOW_SECONDS = int(LIMITS.window.total_seconds())
DUE_AT = time_at(WINDOW_SECONDS) + DIGEST_GRACE


def admit(db: StoreFixture, name: str, *, at: int = 0, kind: AlertKind = KIND) -> bool:
    return db.budget.admit(kind, [name], now=time_at(at))


def exhaust(db: StoreFixture, *, kind: AlertKind = KIND) -> None:
    for number in range(LIMITS.max_alerts):
        assert admit(db, f"job {number}", kind=kind)


def due_digests(db: StoreFixture, *, until: datetime = DUE_AT) -> list[str]:
    found = (
        db.due.due(DueAction.PUBLISH, shard, since=None, until=until)
        for shard in range(db.due.shards)
    )
    return [entry.job_key for entries in found for entry in entries]


def take(db: StoreFixture, key: str, *, after: int = 0) -> AlertDigest | None:
    now = DUE_AT + (time_at(after) - time_at(0))
    return db.budget.take_digest(key, now=now, until=now + DIGEST_GRACE)


def test_alerts_within_budget_leave_no_digest(db: StoreFixture) -> None:
    exhaust(db)
    assert due_digests(db) == []


def test_used_up_window_counts_in_digest_until_it_ends(db: StoreFixture) -> None:
    exhaust(db)
    assert not admit(db, "last of the window", at=WINDOW_SECONDS - 1)
    assert admit(db, "first of the next", at=WINDOW_SECONDS)
    assert admit(db, "second of the next", at=WINDOW_SECONDS + 1)

    (key,) = due_digests(db)
    digest = take(db, key)

    assert digest is not None
    assert (digest.kind, digest.count) == (KIND, 1)
    assert (digest.since, digest.until) == (time_at(0), time_at(WINDOW_SECONDS))
    assert list(digest.examples.values()) == ["last of the window"]


def test_each_kind_has_its_own_budget(db: StoreFixture) -> None:
    exhaust(db)
    assert not admit(db, "one more")
    assert admit(db, "another", kind=OTHER)


def test_digest_counts_every_name_and_keeps_a_few(db: StoreFixture) -> None:
    exhaust(db)
    for number in range(40):
        admit(db, f"job {number}")
    db.budget.admit(KIND, ["dead letter 1", "dead letter 2"], now=time_at(0))

    (key,) = due_digests(db)
    digest = take(db, key)

    assert digest is not None
    assert (digest.count, len(digest.examples)) == (42, MAX_EXAMPLES)


def test_digest_is_due_only_after_its_window(db: StoreFixture) -> None:
    exhaust(db)
    admit(db, "one more")
    (key,) = due_digests(db)

    assert due_digests(db, until=time_at(WINDOW_SECONDS)) == []
    early = DUE_AT - DIGEST_GRACE
    assert db.budget.take_digest(key, now=early, until=DUE_AT) is None


def test_one_of_two_sweeps_takes_digest_until_its_hold_ends(db: StoreFixture) -> None:
    exhaust(db)
    admit(db, "one more")
    (key,) = due_digests(db)

    assert take(db, key) is not None
    assert take(db, key, after=1) is None
    assert take(db, key, after=30) is not None


def test_closed_digest_is_gone(db: StoreFixture) -> None:
    exhaust(db)
    admit(db, "one more")
    (key,) = due_digests(db)
    digest = take(db, key)

    assert digest is not None
    assert db.budget.close_digest(digest, now=DUE_AT)
    assert due_digests(db, until=time_at(10**6)) == []
    assert take(db, key, after=60) is None


def test_alert_counted_while_digest_is_sent_keeps_it_due(db: StoreFixture) -> None:
    exhaust(db)
    admit(db, "one more")
    (key,) = due_digests(db)
    digest = take(db, key)
    admit(db, "a late process", at=1)

    assert digest is not None
    assert not db.budget.close_digest(digest, now=DUE_AT)
    again = take(db, key, after=60)
    assert again is not None
    assert again.count == 2


def test_alert_counted_after_digest_was_sent_makes_it_due_again(db: StoreFixture) -> None:
    exhaust(db)
    admit(db, "one more")
    (key,) = due_digests(db)
    digest = take(db, key)
    assert digest is not None
    db.budget.close_digest(digest, now=DUE_AT)

    admit(db, "a late process", at=1)

    assert due_digests(db) == [key]


def test_slow_sweep_does_not_close_digest_of_another(db: StoreFixture) -> None:
    exhaust(db)
    admit(db, "one more")
    (key,) = due_digests(db)
    slow = take(db, key)
    assert slow is not None
    take(db, key, after=60)

    assert not db.budget.close_digest(slow, now=DUE_AT)


def test_alert_of_one_job_is_reserved_once(db: StoreFixture) -> None:
    assert None is db.budget.reserve(KIND, "job 1", now=time_at(0), until=time_at(60))
    held = db.budget.reserve(KIND, "job 1", now=time_at(59), until=time_at(120))
    assert held == time_at(60)
    assert None is db.budget.reserve(KIND, "job 2", now=time_at(0), until=time_at(60))
    assert None is db.budget.reserve(OTHER, "job 1", now=time_at(0), until=time_at(60))
    assert None is db.budget.reserve(KIND, "job 1", now=time_at(60), until=time_at(120))


def test_sent_alert_of_one_job_is_not_repeated(db: StoreFixture) -> None:
    db.budget.reserve(KIND, "job 1", now=time_at(0), until=time_at(60))
    db.budget.keep(KIND, "job 1", until=time_at(1000))

    held = db.budget.reserve(KIND, "job 1", now=time_at(999), until=time_at(2000))
    assert held == time_at(1000)
    assert None is db.budget.reserve(KIND, "job 1", now=time_at(1000), until=time_at(2000))


def test_digest_has_no_expiry_until_it_is_sent(dynamo: DynamoFixture) -> None:
    budget = DynamoAlertBudget(dynamo.client, dynamo.jobs_table, AlertLimits(max_alerts=1))

    def has_expiry() -> bool:
        return "expires_at" in (dynamo.row(JobKey(key)) or {})

    key = KIND.key_of_digest(time_at(WINDOW_SECONDS))
    for _ in range(2):
        budget.admit(KIND, ["job"], now=time_at(0))
    assert not has_expiry()
    digest = budget.take_digest(key, now=DUE_AT, until=DUE_AT)
    assert digest is not None
    budget.close_digest(digest, now=DUE_AT)
    assert has_expiry()
    budget.admit(KIND, ["a late process"], now=time_at(0))
    assert not has_expiry()
