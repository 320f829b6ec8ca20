"""Sweep leases: one sweep for each shard, and none for ever."""

from tests.contract.places import Place
from tests.contract.samples import at


def test_lease_excludes_other_holder_until_it_expires(place: Place) -> None:
    assert place.leases.take(3, holder="one", now=at(0), until=at(60))

    assert not place.leases.take(3, holder="two", now=at(59), until=at(120))
    assert place.leases.take(3, holder="two", now=at(60), until=at(120))
    assert not place.leases.take(3, holder="one", now=at(61), until=at(180))


def test_holder_prolongs_its_lease(place: Place) -> None:
    place.leases.take(3, holder="one", now=at(0), until=at(60))

    assert place.leases.take(3, holder="one", now=at(30), until=at(90))
    assert not place.leases.take(3, holder="two", now=at(89), until=at(120))


def test_each_shard_has_its_own_lease(place: Place) -> None:
    place.leases.take(3, holder="one", now=at(0), until=at(60))

    assert place.leases.take(4, holder="two", now=at(0), until=at(60))


def test_returned_lease_is_free(place: Place) -> None:
    place.leases.take(3, holder="one", now=at(0), until=at(60))

    place.leases.give_back(3, holder="one")

    assert place.leases.take(3, holder="two", now=at(1), until=at(60))


def test_late_sweep_cannot_return_lease_of_another_holder(place: Place) -> None:
    place.leases.take(3, holder="one", now=at(0), until=at(60))
    place.leases.take(3, holder="two", now=at(60), until=at(120))

    place.leases.give_back(3, holder="one")
    place.leases.give_back(4, holder="one")

    assert not place.leases.take(3, holder="three", now=at(61), until=at(120))
