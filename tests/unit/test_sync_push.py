"""sync.push: one object at the CRM, and an older push never lands over a newer one."""

import json
from datetime import timedelta

from oncely.domain.answers import NotSent
from oncely.domain.lifecycle import Status
from oncely.services.outcomes import Finished, NeedsReview, NothingSent, Unknown
from tests.support.mortal import Meanwhile
from tests.support.payments import Fault
from tests.support.world import World

RECORD = "app#77"


def push(version: int = 1, **more: object) -> dict[str, object]:
    return {
        "job": "sync.push",
        "v": 1,
        "target": "hubspot",
        "record_id": RECORD,
        "version": version,
        **more,
    }


def key(version: int) -> str:
    return f"sync.push:hubspot:{RECORD}:{version}"


def add_record(world: World, version: int = 1, **columns: object) -> None:
    properties = {"email": f"v{version}@example.com", "hs_object_id": "1", "createdate": "x"}
    row = {
        "source": "app",
        "source_id": "77",
        "version": version,
        "record": {"properties": properties},
        **columns,
    }
    world.tools.rows.put("records", {"record_id": RECORD}, row)


def row(world: World) -> dict[str, object]:
    return dict(world.tools.rows.get("records", {"record_id": RECORD}) or {})


def at_the_crm(world: World) -> list[str]:
    return [str(one.body["properties"]["email"]) for one in world.crm.contacts.values()]


def test_a_push_makes_one_contact_and_keeps_its_id_on_our_row() -> None:
    world = World()
    add_record(world)

    outcome = world.run(push())

    assert isinstance(outcome, Finished)
    assert at_the_crm(world) == ["v1@example.com"]
    assert row(world)["crm_id"] == outcome.result["crm_id"]
    assert row(world)["pushed_version"] == 1
    assert "push_until" not in row(world)


def test_a_timeout_after_the_crm_accepted_is_found_by_our_id_in_one_step() -> None:
    world = World()
    add_record(world)
    world.crm.fails("push", Fault.TIMEOUT_AFTER)
    outcome = world.run(push())

    world.reconcile(key(1))

    assert isinstance(outcome, Unknown)
    assert world.job(key(1)).status is Status.FINISHED
    assert len(world.crm.contacts) == 1
    assert row(world)["crm_id"] in world.crm.contacts


def test_a_record_that_moves_on_while_its_push_is_asked_about_is_no_persons_business() -> None:
    world = World()
    add_record(world)
    world.crm.fails("push", Fault.TIMEOUT_AFTER)
    world.run(push())
    looks = iter(["before the question", "after the answer"])

    def somebody_changes_it() -> None:
        if next(looks, None) == "after the answer":
            world.store.business.rows["records", (RECORD,)]["version"] = 2

    world.rows = Meanwhile(world.store.business, "get", somebody_changes_it)
    world.reconcile(key(1))
    job = world.until_quiet(key(1))

    assert job.status is Status.FINISHED
    assert (job.result or {})["superseded_by"] == 2
    assert world.alerts.told == []


def test_rows_that_refuse_a_push_for_ever_are_for_a_person_at_its_age_limit() -> None:
    world = World()
    add_record(world)
    world.crm.fails("push", Fault.TIMEOUT_AFTER)
    world.run(push())

    def somebody_changes_it_all_the_time() -> None:
        world.store.business.rows["records", (RECORD,)]["version"] += 1

    world.rows = Meanwhile(world.store.business, "get", somebody_changes_it_all_the_time)

    world.reconcile(key(1))
    early = world.job(key(1)).status
    world.clock.move(hours=25)
    world.reconcile(key(1))

    assert early is Status.UNKNOWN
    assert world.job(key(1)).status is Status.NEEDS_REVIEW


def test_a_timeout_before_the_crm_accepted_is_sent_again_and_makes_one_contact() -> None:
    world = World()
    add_record(world)
    world.crm.fails("push", Fault.TIMEOUT_BEFORE)
    world.run(push())

    job = world.until_quiet(key(1))

    assert job.status is Status.FINISHED
    assert len(world.crm.contacts) == 1


def test_a_version_that_is_no_longer_current_is_not_sent_and_the_current_one_follows() -> None:
    world = World()
    add_record(world, version=3)

    outcome = world.run(push(version=1))
    world.publisher().publish(world.job(key(1)).job_key)

    assert isinstance(outcome, Finished)
    assert at_the_crm(world) == []
    assert json.loads(world.outbox.sent[-1]) == push(version=3)


def test_a_version_that_moved_on_while_it_was_sent_is_pushed_again_under_its_own_key() -> None:
    world = World()
    add_record(world)
    kept = row(world)
    crm = world.crm
    world.crm = Meanwhile(
        crm,
        "push",
        lambda: world.tools.rows.put("records", {"record_id": RECORD}, {**kept, "version": 2}),
    )

    world.run(push())
    world.crm = crm
    world.publisher().publish(world.job(key(1)).job_key)

    assert (world.job(key(1)).result or {})["superseded_by"] == 2
    assert json.loads(world.outbox.sent[-1]) == push(version=2)


def test_two_versions_are_never_under_way_at_once() -> None:
    world = World()
    add_record(world)
    seen: list[object] = []
    crm = world.crm

    def a_newer_version_is_pushed_meanwhile() -> None:
        world.crm = crm
        kept = row(world)
        world.tools.rows.put("records", {"record_id": RECORD}, {**kept, "version": 2})
        seen.append(world.run(push(version=2)))

    world.crm = Meanwhile(crm, "push", a_newer_version_is_pushed_meanwhile)
    world.run(push())
    world.clock.move(hours=1)
    later = world.run(push(version=2))

    assert isinstance(seen[0], NothingSent)
    assert isinstance(later, Finished)
    assert row(world)["pushed_version"] == 2


def test_a_contact_that_came_from_the_crm_is_updated_by_its_own_id() -> None:
    world = World()
    crm_id = world.crm.add(email="ada@example.com")
    add_record(world, source="hubspot", source_id=crm_id)

    outcome = world.run(push())

    assert isinstance(outcome, Finished)
    assert list(world.crm.contacts) == [crm_id]
    assert at_the_crm(world) == ["v1@example.com"]


def test_a_record_that_is_missing_or_not_there_yet_is_for_a_person() -> None:
    world = World()
    add_record(world, version=1)

    missing = world.run({**push(), "record_id": "app#1"})
    ahead = world.run(push(version=9))

    assert isinstance(missing, NeedsReview)
    assert isinstance(ahead, NeedsReview)
    assert at_the_crm(world) == []


def test_properties_that_the_crm_writes_itself_are_not_sent() -> None:
    world = World()
    add_record(world)

    world.run(push())

    (contact,) = world.crm.contacts.values()
    assert "createdate" not in contact.body["properties"]


def test_an_older_push_that_is_asked_about_later_does_not_touch_the_newer_one() -> None:
    world = World()
    add_record(world)
    world.crm.fails("push", Fault.TIMEOUT_BEFORE)
    world.run(push())
    kept = row(world)
    moved = {name: kept[name] for name in kept if not name.startswith("push_")}
    world.tools.rows.put("records", {"record_id": RECORD}, {**moved, "version": 2})
    world.run(push(version=2))
    newer = row(world)

    world.until_quiet(key(1))

    assert world.job(key(1)).status is Status.FINISHED
    assert row(world) == newer
    assert row(world)["pushed_version"] == 2


def test_a_push_that_was_turned_away_is_not_held_up_by_its_own_place() -> None:
    world = World()
    add_record(world)
    wait = timedelta(seconds=10)
    world.crm.fails("push", NotSent("429", retry_after=wait))
    turned_away = world.run(push())
    world.clock.move(seconds=10)

    outcome = world.run(push())

    assert isinstance(turned_away, NothingSent)
    assert isinstance(outcome, Finished)
    assert at_the_crm(world) == ["v1@example.com"]


def test_the_place_of_a_push_that_was_turned_away_is_still_its_own() -> None:
    world = World()
    add_record(world)
    world.crm.fails("push", NotSent("429", retry_after=timedelta(seconds=10)))
    world.run(push())
    add_record(
        world, version=2, push_job=row(world)["push_job"], push_until=row(world)["push_until"]
    )

    newer = world.run(push(2))

    assert isinstance(newer, NothingSent)
    assert key(1) in newer.reason


def test_a_push_outlasts_days_of_a_spent_daily_limit_without_an_attempt() -> None:
    world = World()
    world.crm.clock = world.clock
    add_record(world)
    world.crm.daily_limit_is_spent = True

    first = world.run(push())
    for _ in range(20):
        job = world.job(key(1))
        assert (job.status, job.attempts) == (Status.READY, 0)
        assert job.due_at is not None
        world.clock.time = job.due_at
        world.reconcile(key(1))
        world.run(world.outbox.sent.pop())
    days = (world.clock.now() - world.job(key(1)).created_at).days
    pushes = len([call for call in world.crm.calls if call[0] == "push"])
    world.crm.daily_limit_is_spent = False
    ended = world.until_quiet(key(1))

    assert isinstance(first, NothingSent)
    assert (first.alarm, first.row_resends) == (True, True)
    assert days >= 4
    assert pushes == 21
    assert ended.status is Status.FINISHED
    assert world.alerts.told == []


def test_a_contact_id_that_is_no_number_is_escalated_and_nothing_is_sent() -> None:
    world = World()
    add_record(world, crm_id="../deals/7")

    outcome = world.run(push())

    assert isinstance(outcome, NeedsReview)
    assert world.crm.calls == []


def test_a_record_whose_id_is_a_dot_segment_is_escalated_and_nothing_is_sent() -> None:
    world = World()
    world.tools.rows.put("records", {"record_id": ".."}, {"version": 1, "record": {}})

    outcome = world.run({**push(), "record_id": ".."})

    assert isinstance(outcome, NeedsReview)
    assert world.crm.calls == []
