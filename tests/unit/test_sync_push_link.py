"""sync.push when the CRM already has the contact: link it if it is the same person, or escalate."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from oncely.contracts.sync_push import VERSION_PROPERTY
from oncely.domain.lifecycle import Status
from oncely.providers import Taken
from oncely.services.outcomes import Finished, NeedsReview, NothingSent, Outcome
from tests.support.crm import FakeCrm
from tests.support.mortal import Meanwhile
from tests.support.payments import Fault
from tests.support.world import World
from tests.unit.test_sync_push import RECORD, add_record, key, push, row

ADDRESS = "v1@example.com"  # what `add_record` gives version 1


def steps(world: World) -> list[tuple[str, str]]:
    return [call for call in world.crm.calls if call[0] in {"push", "find"}]


def at_contact(world: World, crm_id: str) -> dict[str, object]:
    properties = world.crm.contacts[crm_id].body["properties"]
    assert isinstance(properties, dict)
    return dict(properties)


def assert_escalated(world: World, outcome: Outcome, crm_id: str) -> None:
    assert isinstance(outcome, NeedsReview)
    assert crm_id in outcome.reason
    assert (world.job(key(1)).result or {})["existing_crm_id"] == crm_id
    assert world.crm.writes.total() == 0
    assert "crm_id" not in row(world)


@pytest.mark.parametrize("named", [False, True])
def test_contact_with_same_address_is_linked_by_one_write(*, named: bool) -> None:
    world = World()
    world.crm.names_what_collided = named
    crm_id = world.crm.add(email=ADDRESS.upper() if named else ADDRESS, firstname="Grace")
    world.crm.update(crm_id, email=ADDRESS)
    add_record(world)

    outcome = world.run(push())

    assert isinstance(outcome, Finished)
    assert list(world.crm.contacts) == [crm_id]
    assert world.crm.writes == {crm_id: 1}
    assert at_contact(world, crm_id)["oncely_id"] == RECORD
    assert row(world)["crm_id"] == crm_id
    assert steps(world) == [("push", RECORD), ("find", crm_id), ("push", RECORD)]


def test_addresses_are_compared_as_crm_spells_them() -> None:
    world = World()
    crm_id = world.crm.add(email=ADDRESS)
    add_record(world, record={"properties": {"email": f" {ADDRESS.title()} "}})
    world.crm = TakenBy(world.crm, crm_id)

    assert isinstance(world.run(push()), Finished)


def test_next_version_goes_directly_to_linked_contact() -> None:
    world = World()
    crm_id = world.crm.add(email=ADDRESS)
    add_record(world)
    world.run(push())
    world.crm.calls.clear()
    kept = {**row(world), "version": 2}
    world.tools.rows.put("records", {"record_id": RECORD}, kept)

    outcome = world.run(push(version=2))

    assert isinstance(outcome, Finished)
    assert steps(world) == [("push", RECORD)]
    assert world.crm.writes == {crm_id: 2}


def test_contact_of_other_record_is_never_linked() -> None:
    world = World()
    crm_id = world.crm.add(email=ADDRESS, oncely_id="shop#7")
    add_record(world)

    outcome = world.run(push())

    assert_escalated(world, outcome, crm_id)
    assert isinstance(outcome, NeedsReview)
    assert at_contact(world, crm_id)["oncely_id"] == "shop#7"
    assert "shop#7" in outcome.reason


class TakenBy:
    """A CRM whose create says that this contact exists already, whoever that is."""

    def __init__(
        self, crm: FakeCrm, crm_id: str | None, *, by: frozenset[str] = frozenset()
    ) -> None:
        self._crm = crm
        self._answer = Taken("CONFLICT: Contact already exists.", crm_id, by)

    def push(self, external_id: str, properties: dict[str, str], *, crm_id: str | None) -> object:
        if crm_id is None:
            self._crm.calls.append(("push", external_id))
            return self._answer
        return self._crm.push(external_id, properties, crm_id=crm_id)

    def __getattr__(self, name: str) -> object:
        return getattr(self._crm, name)


def test_contact_with_other_address_is_never_linked() -> None:
    world = World()
    crm_id = world.crm.add(email="somebody-else@example.com")
    add_record(world)
    world.crm = TakenBy(world.crm, crm_id)

    assert_escalated(world, world.run(push()), crm_id)


def test_contact_is_never_linked_without_address() -> None:
    world = World()
    crm_id = world.crm.add(firstname="Grace")
    add_record(world, record={"properties": {"firstname": "Grace"}})
    world.crm = TakenBy(world.crm, crm_id)

    assert_escalated(world, world.run(push()), crm_id)


def test_contact_colliding_by_other_property_is_never_linked() -> None:
    world = World()
    crm_id = world.crm.add(email=ADDRESS)
    add_record(world)
    world.crm = TakenBy(world.crm, crm_id, by=frozenset({"customer_number"}))

    assert_escalated(world, world.run(push()), crm_id)


def test_missing_contact_is_never_linked() -> None:
    world = World()
    add_record(world)
    world.crm = TakenBy(world.crm, "404")

    assert_escalated(world, world.run(push()), "404")


def test_unnamed_contact_needs_review_after_one_write() -> None:
    world = World()
    add_record(world)
    world.crm = TakenBy(world.crm, None)

    outcome = world.run(push())

    assert isinstance(outcome, NeedsReview)
    assert steps(world) == [("push", RECORD)]


def test_other_contact_than_requested_is_never_linked() -> None:
    world = World()
    crm_id = world.crm.add(email=ADDRESS)
    add_record(world)
    real = world.crm.find
    world.crm.find = lambda external_id, *, crm_id=None: replace(
        real(external_id, crm_id=crm_id), record_id="99"
    )

    assert_escalated(world, world.run(push()), crm_id)


def test_unreadable_contact_is_retried_without_attempt() -> None:
    world = World()
    crm_id = world.crm.add(email=ADDRESS)
    add_record(world)
    world.crm.fails("find", Fault.TIMEOUT_BEFORE)

    outcome = world.run(push())
    attempts = world.job(key(1)).attempts
    world.clock.move(minutes=1)
    again = world.run(push())

    assert isinstance(outcome, NothingSent)
    assert attempts == 0
    assert isinstance(again, Finished)
    assert world.crm.writes == {crm_id: 1}


@pytest.mark.parametrize("fault", [Fault.TIMEOUT_BEFORE, Fault.TIMEOUT_AFTER])
def test_ambiguous_linking_write_ends_with_one_write(fault: Fault) -> None:
    world = World()
    crm_id = world.crm.add(email=ADDRESS)
    add_record(world)
    real, answered = world.crm.push, []

    def second_is_lost(*args: object, **named: object) -> object:
        answered.append(named)
        if len(answered) == 2:
            world.crm.fails("push", fault)
        return real(*args, **named)

    world.crm.push = second_is_lost
    world.run(push())
    unknown = world.job(key(1)).status

    job = world.until_quiet(key(1))

    assert unknown is Status.UNKNOWN
    assert job.status is Status.FINISHED
    assert world.crm.writes == {crm_id: 1}
    assert row(world)["crm_id"] == crm_id


@pytest.mark.parametrize(("there", "writes"), [("1", 0), ("0", 1)])
def test_own_contact_is_written_only_when_version_differs(there: str, writes: int) -> None:
    world = World()
    crm_id = world.crm.add(email="x@example.com")
    add_record(world)
    world.crm = TakenBy(world.crm, crm_id)
    world.crm.update(crm_id, oncely_id=RECORD, **{VERSION_PROPERTY: there})

    outcome = world.run(push())

    assert isinstance(outcome, Finished)
    assert world.crm.writes.total() == writes
    assert row(world)["crm_id"] == crm_id


def test_record_with_own_contact_is_never_linked_to_other() -> None:
    world = World()
    own = world.crm.add(email="own@example.com")
    other = world.crm.add(email=ADDRESS)
    add_record(world, crm_id=own)

    outcome = world.run(push())

    assert isinstance(outcome, NeedsReview)
    assert own in outcome.reason
    assert other in outcome.reason
    assert steps(world) == [("push", RECORD)]
    assert world.crm.writes.total() == 0


def test_deleted_contact_is_replaced_by_new_one() -> None:
    world = World()
    gone = world.crm.add(email=ADDRESS)
    world.crm.archive(gone)
    add_record(world, crm_id=gone)

    outcome = world.run(push())

    assert isinstance(outcome, Finished)
    assert steps(world) == [("push", RECORD), ("push", RECORD)]
    assert row(world)["crm_id"] not in {None, gone}
    assert world.crm.writes.total() == 1


def test_replacement_of_deleted_contact_is_linked() -> None:
    world = World()
    gone = world.crm.add(email=ADDRESS)
    world.crm.archive(gone)
    new = world.crm.add(email=ADDRESS)
    add_record(world, crm_id=gone)

    outcome = world.run(push())

    assert isinstance(outcome, Finished)
    assert row(world)["crm_id"] == new
    assert world.crm.writes == {new: 1}


def delete(world: World, crm_id: str) -> None:
    world.crm.archive(crm_id)


def give_away(world: World, crm_id: str) -> None:
    world.crm.update(crm_id, email="moved@example.com")
    world.crm.add(email=ADDRESS)


@pytest.mark.parametrize("change", [delete, give_away])
def test_contact_changed_before_linking_write_needs_review(
    change: Callable[[World, str], None],
) -> None:
    world = World()
    crm_id = world.crm.add(email=ADDRESS)
    add_record(world)
    real = world.crm.find

    def then_it_changes(external_id: str, *, crm_id: str | None = None) -> object:
        found = real(external_id, crm_id=crm_id)
        change(world, str(crm_id))
        return found

    world.crm.find = then_it_changes

    assert_escalated(world, world.run(push()), crm_id)


def test_linking_write_is_not_sent_when_time_is_short() -> None:
    world = World()
    crm_id = world.crm.add(email=ADDRESS)
    add_record(world)
    world.crm = Meanwhile(world.crm, "find", lambda: world.clock.move(minutes=5))

    outcome = world.run(push())

    assert isinstance(outcome, NothingSent)
    assert world.crm.writes[crm_id] == 0


def test_second_write_is_not_sent_when_time_is_short() -> None:
    world = World()
    gone = world.crm.add(email=ADDRESS)
    world.crm.archive(gone)
    add_record(world, crm_id=gone)
    world.crm = Meanwhile(world.crm, "push", lambda: world.clock.move(minutes=5))

    outcome = world.run(push())

    assert isinstance(outcome, NothingSent)
    assert steps(world) == [("push", RECORD)]


def test_reconciler_only_reads() -> None:
    world = World()
    world.crm.add(email=ADDRESS)
    add_record(world)
    world.crm.fails("push", Fault.TIMEOUT_BEFORE)
    world.run(push())
    world.crm.calls.clear()
    world.clock.move(minutes=5)

    world.reconcile(key(1))

    assert steps(world) == [("find", RECORD)]
