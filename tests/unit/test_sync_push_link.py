"""sync.push when the CRM already has the contact: link it if it is the same person, or escalate."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from oncely.core.lifecycle import Status
from oncely.core.outcomes import NeedsReview, RunOutcome
from oncely.providers.hubspot.crm import DEFAULT_VERSION_PROPERTY
from oncely.providers.interfaces import CrmConflict
from tests.support.crash_points import InterruptingPort
from tests.support.crm import InProcessCrm
from tests.support.in_memory_stack import InMemoryStack
from tests.support.outcomes import is_finished, is_retried
from tests.support.provider_fault import ProviderFault
from tests.unit.test_sync_push import RECORD, add_record, key, lose_push, push_message, record_row

ADDRESS = "v1@example.com"  # what `add_record` gives version 1


def crm_calls(world: InMemoryStack) -> list[tuple[str, str]]:
    return [one for one in world.crm.calls if one[0] in {"upsert_contact", "find_by_external_id"}]


def contact_properties(world: InMemoryStack, crm_id: str) -> dict[str, object]:
    properties = world.crm.contacts[crm_id].body["properties"]
    assert isinstance(properties, dict)
    return dict(properties)


def assert_escalated(world: InMemoryStack, outcome: RunOutcome, crm_id: str) -> None:
    assert isinstance(outcome, NeedsReview)
    assert crm_id in outcome.reason
    assert (world.job(key(1)).result or {})["existing_crm_id"] == crm_id
    assert world.crm.writes.total() == 0
    assert "crm_id" not in record_row(world)


@pytest.mark.parametrize("named", [False, True])
def test_contact_with_same_address_is_linked_once(world: InMemoryStack, *, named: bool) -> None:
    world.crm.rules.reports_conflicting_property = named
    crm_id = world.crm.add(email=ADDRESS.upper() if named else ADDRESS, firstname="Grace")
    world.crm.update(crm_id, email=ADDRESS)
    add_record(world)

    assert is_finished(world.run(push_message()))
    assert list(world.crm.contacts) == [crm_id]
    assert world.crm.writes == {crm_id: 1}
    assert contact_properties(world, crm_id)["oncely_id"] == RECORD
    assert record_row(world)["crm_id"] == crm_id
    assert crm_calls(world) == [
        ("upsert_contact", RECORD),
        ("find_by_external_id", crm_id),
        ("upsert_contact", RECORD),
    ]


def test_addresses_are_compared_as_crm_spells_them(world: InMemoryStack) -> None:
    crm_id = world.crm.add(email=ADDRESS)
    add_record(world, record={"properties": {"email": f" {ADDRESS.title()} "}})
    world.crm = ConflictingCrm(world.crm, crm_id)
    assert is_finished(world.run(push_message()))


def test_next_version_goes_directly_to_linked_contact(world: InMemoryStack) -> None:
    crm_id = world.crm.add(email=ADDRESS)
    add_record(world)
    world.run(push_message())
    world.crm.calls.clear()
    kept = {**record_row(world), "version": 2}
    world.rows.put("records", {"record_id": RECORD}, kept)

    assert is_finished(world.run(push_message(version=2)))
    assert crm_calls(world) == [("upsert_contact", RECORD)]
    assert world.crm.writes == {crm_id: 2}


def test_contact_of_other_record_is_never_linked(world: InMemoryStack) -> None:
    crm_id = world.crm.add(email=ADDRESS, oncely_id="shop#7")
    add_record(world)

    outcome = world.run(push_message())

    assert_escalated(world, outcome, crm_id)
    assert isinstance(outcome, NeedsReview)
    assert contact_properties(world, crm_id)["oncely_id"] == "shop#7"
    assert "shop#7" in outcome.reason


class ConflictingCrm:
    def __init__(
        self, crm: InProcessCrm, crm_id: str | None, by: frozenset[str] = frozenset()
    ) -> None:
        self._crm = crm
        self._answer = CrmConflict("CONFLICT: Contact already exists.", crm_id, by)

    def upsert_contact(
        self, external_id: str, properties: dict[str, str], *, version: int, crm_id: str | None
    ) -> object:
        if crm_id is None:
            self._crm.calls.append(("upsert_contact", external_id))
            return self._answer
        return self._crm.upsert_contact(external_id, properties, version=version, crm_id=crm_id)

    def __getattr__(self, name: str) -> object:
        return getattr(self._crm, name)


@pytest.mark.parametrize(
    ("contact", "ours", "by"),
    [
        ({"email": "somebody-else@example.com"}, {"email": ADDRESS}, frozenset()),
        ({"firstname": "Grace"}, {"firstname": "Grace"}, frozenset()),
        ({"email": ADDRESS}, {"email": ADDRESS}, frozenset({"customer_number"})),
    ],
    ids=["other address", "no address", "collides by another property"],
)
def test_other_contact_is_never_linked(
    world: InMemoryStack, contact: dict[str, str], ours: dict[str, str], by: frozenset[str]
) -> None:
    crm_id = world.crm.add(**contact)
    add_record(world, record={"properties": ours})
    world.crm = ConflictingCrm(world.crm, crm_id, by=by)
    assert_escalated(world, world.run(push_message()), crm_id)


def test_missing_contact_is_never_linked(world: InMemoryStack) -> None:
    add_record(world)
    world.crm = ConflictingCrm(world.crm, "404")
    assert_escalated(world, world.run(push_message()), "404")


def test_unnamed_contact_needs_review_after_one_write(world: InMemoryStack) -> None:
    add_record(world)
    world.crm = ConflictingCrm(world.crm, None)
    assert isinstance(world.run(push_message()), NeedsReview)
    assert crm_calls(world) == [("upsert_contact", RECORD)]


def test_other_contact_than_requested_is_never_linked(world: InMemoryStack) -> None:
    crm_id = world.crm.add(email=ADDRESS)
    add_record(world)
    real = world.crm.find_by_external_id
    world.crm.find_by_external_id = lambda external_id, *, crm_id=None: replace(
        real(external_id, crm_id=crm_id), record_id="99"
    )

    assert_escalated(world, world.run(push_message()), crm_id)


def test_unreadable_contact_is_retried_without_attempt(world: InMemoryStack) -> None:
    crm_id = world.crm.add(email=ADDRESS)
    add_record(world)
    world.crm.fail_next("find_by_external_id", ProviderFault.TIMEOUT_BEFORE)

    outcome = world.run(push_message())
    attempts = world.job(key(1)).attempts
    world.clock.advance(minutes=1)
    again = world.run(push_message())

    assert is_retried(outcome)
    assert attempts == 0
    assert is_finished(again)
    assert world.crm.writes == {crm_id: 1}


@pytest.mark.parametrize("fault", [ProviderFault.TIMEOUT_BEFORE, ProviderFault.TIMEOUT_AFTER])
def test_ambiguous_linking_write_ends_with_one_write(fault: ProviderFault) -> None:
    world = InMemoryStack()
    crm_id = world.crm.add(email=ADDRESS)
    add_record(world)
    real, answered = world.crm.upsert_contact, []

    def second_is_lost(*args: object, **named: object) -> object:
        answered.append(named)
        if len(answered) == 2:
            world.crm.fail_next("upsert_contact", fault)
        return real(*args, **named)

    world.crm.upsert_contact = second_is_lost
    world.run(push_message())
    unknown = world.job(key(1)).status

    job = world.run_until_idle(key(1))

    assert unknown is Status.UNKNOWN
    assert job.status is Status.FINISHED
    assert world.crm.writes == {crm_id: 1}
    assert record_row(world)["crm_id"] == crm_id


@pytest.mark.parametrize(("there", "writes"), [("1", 0), ("0", 1)])
def test_own_contact_is_written_only_when_version_differs(there: str, writes: int) -> None:
    world = InMemoryStack()
    crm_id = world.crm.add(email="x@example.com")
    add_record(world)
    world.crm = ConflictingCrm(world.crm, crm_id)
    world.crm.update(crm_id, oncely_id=RECORD, **{DEFAULT_VERSION_PROPERTY: there})

    assert is_finished(world.run(push_message()))
    assert world.crm.writes.total() == writes
    assert record_row(world)["crm_id"] == crm_id


def test_record_with_own_contact_is_never_linked_to_other(world: InMemoryStack) -> None:
    own = world.crm.add(email="own@example.com")
    other = world.crm.add(email=ADDRESS)
    add_record(world, crm_id=own)

    outcome = world.run(push_message())

    assert isinstance(outcome, NeedsReview)
    assert own in outcome.reason
    assert other in outcome.reason
    assert crm_calls(world) == [("upsert_contact", RECORD)]
    assert world.crm.writes.total() == 0


def test_deleted_contact_is_replaced_by_new_one(world: InMemoryStack) -> None:
    gone = world.crm.add(email=ADDRESS)
    world.crm.archive(gone)
    add_record(world, crm_id=gone)

    assert is_finished(world.run(push_message()))
    assert crm_calls(world) == [("upsert_contact", RECORD), ("upsert_contact", RECORD)]
    assert record_row(world)["crm_id"] not in {None, gone}
    assert world.crm.writes.total() == 1


def test_replacement_of_deleted_contact_is_linked(world: InMemoryStack) -> None:
    gone = world.crm.add(email=ADDRESS)
    world.crm.archive(gone)
    new = world.crm.add(email=ADDRESS)
    add_record(world, crm_id=gone)

    assert is_finished(world.run(push_message()))
    assert record_row(world)["crm_id"] == new
    assert world.crm.writes == {new: 1}


def delete_contact(world: InMemoryStack, crm_id: str) -> None:
    world.crm.archive(crm_id)


def move_address(world: InMemoryStack, crm_id: str) -> None:
    world.crm.update(crm_id, email="moved@example.com")
    world.crm.add(email=ADDRESS)


@pytest.mark.parametrize("change", [delete_contact, move_address])
def test_contact_changed_before_linking_write_needs_review(
    change: Callable[[InMemoryStack, str], None],
) -> None:
    world = InMemoryStack()
    crm_id = world.crm.add(email=ADDRESS)
    add_record(world)
    real = world.crm.find_by_external_id

    def then_it_changes(external_id: str, *, crm_id: str | None = None) -> object:
        found = real(external_id, crm_id=crm_id)
        change(world, str(crm_id))
        return found

    world.crm.find_by_external_id = then_it_changes

    assert_escalated(world, world.run(push_message()), crm_id)


@pytest.mark.parametrize(
    ("deleted", "slow_step"), [(False, "find_by_external_id"), (True, "upsert_contact")]
)
def test_second_write_is_not_sent_when_time_is_short(
    world: InMemoryStack, slow_step: str, *, deleted: bool
) -> None:
    crm_id = world.crm.add(email=ADDRESS)
    if deleted:
        world.crm.archive(crm_id)
    add_record(world, **({"crm_id": crm_id} if deleted else {}))
    world.crm = InterruptingPort(world.crm, slow_step, lambda: world.clock.advance(minutes=5))

    assert is_retried(world.run(push_message()))
    assert world.crm.writes[crm_id] == 0
    assert [step for step, _ in crm_calls(world)].count("upsert_contact") == 1


def test_reconciler_only_reads(world: InMemoryStack) -> None:
    world.crm.add(email=ADDRESS)
    lose_push(world, ProviderFault.TIMEOUT_BEFORE)
    world.crm.calls.clear()
    world.clock.advance(minutes=5)

    world.reconcile(key(1))

    assert crm_calls(world) == [("find_by_external_id", RECORD)]
