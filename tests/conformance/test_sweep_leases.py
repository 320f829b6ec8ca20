"""Sweep leases: one sweep for each shard, and none for ever."""

from tests.conformance.samples import time_at
from tests.conformance.store_fixtures import StoreFixture


def test_lease_excludes_other_holder_until_it_expires(db: StoreFixture) -> None:
    assert db.leases.acquire(3, holder="one", now=time_at(0), until=time_at(60))

    assert not db.leases.acquire(3, holder="two", now=time_at(59), until=time_at(120))
    assert db.leases.acquire(3, holder="two", now=time_at(60), until=time_at(120))
    assert not db.leases.acquire(3, holder="one", now=time_at(61), until=time_at(180))


def test_holder_prolongs_its_lease(db: StoreFixture) -> None:
    db.leases.acquire(3, holder="one", now=time_at(0), until=time_at(60))

    assert db.leases.acquire(3, holder="one", now=time_at(30), until=time_at(90))
    assert not db.leases.acquire(3, holder="two", now=time_at(89), until=time_at(120))


def test_each_shard_has_its_own_lease(db: StoreFixture) -> None:
    db.leases.acquire(3, holder="one", now=time_at(0), until=time_at(60))

    assert db.leases.acquire(4, holder="two", now=time_at(0), until=time_at(60))


def test_returned_lease_is_free(db: StoreFixture) -> None:
    db.leases.acquire(3, holder="one", now=time_at(0), until=time_at(60))

    db.leases.release(3, holder="one")

    assert db.leases.acquire(3, holder="two", now=time_at(1), until=time_at(60))


def test_late_sweep_cannot_return_lease_of_another_holder(db: StoreFixture) -> None:
    db.leases.acquire(3, holder="one", now=time_at(0), until=time_at(60))
    db.leases.acquire(3, holder="two", now=time_at(60), until=time_at(120))

    db.leases.release(3, holder="one")
    db.leases.release(4, holder="one")

    assert not db.leases.acquire(3, holder="three", now=time_at(61), until=time_at(120))
