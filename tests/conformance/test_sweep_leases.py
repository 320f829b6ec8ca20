"""Sweep leases: one sweep per shard, and every lease expires."""

from tests.conformance.samples import time_at
from tests.conformance.store_fixtures import StoreFixture


def acquire(db: StoreFixture, holder: str, now: int, until: int, *, shard: int = 3) -> bool:
    return db.leases.acquire(shard, holder=holder, now=time_at(now), until=time_at(until))


def test_lease_excludes_other_holder_until_it_expires(db: StoreFixture) -> None:
    assert acquire(db, "one", 0, 60)
    assert acquire(db, "two", 0, 60, shard=4)
    assert not acquire(db, "two", 59, 120)
    assert acquire(db, "two", 60, 120)
    assert not acquire(db, "one", 61, 180)


def test_holder_prolongs_its_lease(db: StoreFixture) -> None:
    acquire(db, "one", 0, 60)
    assert acquire(db, "one", 30, 90)
    assert not acquire(db, "two", 89, 120)


def test_returned_lease_is_free(db: StoreFixture) -> None:
    acquire(db, "one", 0, 60)
    db.leases.release(3, holder="one")
    assert acquire(db, "two", 1, 60)


def test_late_sweep_cannot_return_lease_of_another_holder(db: StoreFixture) -> None:
    acquire(db, "one", 0, 60)
    acquire(db, "two", 60, 120)
    db.leases.release(3, holder="one")
    db.leases.release(4, holder="one")
    assert not acquire(db, "three", 61, 120)
