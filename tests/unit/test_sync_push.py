"""sync.push: one object at the CRM, and an older push never lands over a newer one."""

import json
from datetime import timedelta

from oncely.domain.effect_outcomes import NotSent
from oncely.domain.lifecycle import Status
from oncely.run.outcomes import Finished, NeedsReview, NotAttempted, Unknown
from oncely.testing.provider_fault import ProviderFault
from tests.support.crash_points import InterruptingPort
from tests.support.in_memory_stack import InMemoryStack

RECORD = "app#77"


def push_message(version: int = 1, **more: object) -> dict[str, object]:
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


def add_record(world: InMemoryStack, version: int = 1, **columns: object) -> None:
    properties = {"email": f"v{version}@example.com", "hs_object_id": "1", "createdate": "x"}
    row = {
        "source": "app",
        "source_id": "77",
        "version": version,
        "record": {"properties": properties},
        **columns,
    }
    world.dependencies.rows.put("records", {"record_id": RECORD}, row)


def record_row(world: InMemoryStack) -> dict[str, object]:
    return dict(world.dependencies.rows.get("records", {"record_id": RECORD}) or {})


def crm_emails(world: InMemoryStack) -> list[str]:
    return [str(one.body["properties"]["email"]) for one in world.crm.contacts.values()]


def test_push_creates_contact_and_saves_its_id(world: InMemoryStack) -> None:
    add_record(world)

    outcome = world.run(push_message())

    assert isinstance(outcome, Finished)
    assert crm_emails(world) == ["v1@example.com"]
    assert record_row(world)["crm_id"] == outcome.result["crm_id"]
    assert record_row(world)["pushed_version"] == 1
    assert "push_until" not in record_row(world)


def test_accepted_push_is_found_after_timeout(world: InMemoryStack) -> None:
    add_record(world)
    world.crm.fail_next("upsert_contact", ProviderFault.TIMEOUT_AFTER)
    outcome = world.run(push_message())

    world.reconcile(key(1))

    assert isinstance(outcome, Unknown)
    assert world.job(key(1)).status is Status.FINISHED
    assert len(world.crm.contacts) == 1
    assert record_row(world)["crm_id"] in world.crm.contacts


def test_unknown_push_finishes_when_record_changes_meanwhile(world: InMemoryStack) -> None:
    add_record(world)
    world.crm.fail_next("upsert_contact", ProviderFault.TIMEOUT_AFTER)
    world.run(push_message())
    looks = iter(["before the question", "after the answer"])

    def somebody_changes_it() -> None:
        if next(looks, None) == "after the answer":
            world.store.business_rows.rows["records", (RECORD,)]["version"] = 2

    world.rows = InterruptingPort(world.store.business_rows, "get", somebody_changes_it)
    world.reconcile(key(1))
    job = world.run_until_idle(key(1))

    assert job.status is Status.FINISHED
    assert (job.result or {})["superseded_by"] == 2
    assert world.alerts.sent == []


def test_push_escalates_at_age_limit_when_rows_keep_changing(world: InMemoryStack) -> None:
    add_record(world)
    world.crm.fail_next("upsert_contact", ProviderFault.TIMEOUT_AFTER)
    world.run(push_message())

    def somebody_changes_it_all_the_time() -> None:
        world.store.business_rows.rows["records", (RECORD,)]["version"] += 1

    world.rows = InterruptingPort(
        world.store.business_rows, "get", somebody_changes_it_all_the_time
    )

    world.reconcile(key(1))
    early = world.job(key(1)).status
    world.clock.advance(hours=25)
    world.reconcile(key(1))

    assert early is Status.UNKNOWN
    assert world.job(key(1)).status is Status.NEEDS_REVIEW


def test_lost_push_is_resent_after_timeout(world: InMemoryStack) -> None:
    add_record(world)
    world.crm.fail_next("upsert_contact", ProviderFault.TIMEOUT_BEFORE)
    world.run(push_message())

    job = world.run_until_idle(key(1))

    assert job.status is Status.FINISHED
    assert len(world.crm.contacts) == 1


def test_outdated_version_is_skipped_and_current_one_follows(world: InMemoryStack) -> None:
    add_record(world, version=3)

    outcome = world.run(push_message(version=1))
    world.publisher().publish(world.job(key(1)).job_key)

    assert isinstance(outcome, Finished)
    assert crm_emails(world) == []
    assert json.loads(world.outbox.sent[-1]) == push_message(version=3)


def test_record_changed_during_push_is_pushed_as_new_job(world: InMemoryStack) -> None:
    add_record(world)
    kept = record_row(world)
    crm = world.crm
    world.crm = InterruptingPort(
        crm,
        "upsert_contact",
        lambda: world.dependencies.rows.put(
            "records", {"record_id": RECORD}, {**kept, "version": 2}
        ),
    )

    world.run(push_message())
    world.crm = crm
    world.publisher().publish(world.job(key(1)).job_key)

    assert (world.job(key(1)).result or {})["superseded_by"] == 2
    assert json.loads(world.outbox.sent[-1]) == push_message(version=2)


def test_two_versions_are_never_pushed_concurrently(world: InMemoryStack) -> None:
    add_record(world)
    seen: list[object] = []
    crm = world.crm

    def a_newer_version_is_pushed_meanwhile() -> None:
        world.crm = crm
        kept = record_row(world)
        world.dependencies.rows.put("records", {"record_id": RECORD}, {**kept, "version": 2})
        seen.append(world.run(push_message(version=2)))

    world.crm = InterruptingPort(crm, "upsert_contact", a_newer_version_is_pushed_meanwhile)
    world.run(push_message())
    world.clock.advance(hours=1)
    later = world.run(push_message(version=2))

    assert isinstance(seen[0], NotAttempted)
    assert isinstance(later, Finished)
    assert record_row(world)["pushed_version"] == 2


def test_contact_from_crm_is_updated_by_its_own_id(world: InMemoryStack) -> None:
    crm_id = world.crm.add(email="ada@example.com")
    add_record(world, source="hubspot", source_id=crm_id)

    outcome = world.run(push_message())

    assert isinstance(outcome, Finished)
    assert list(world.crm.contacts) == [crm_id]
    assert crm_emails(world) == ["v1@example.com"]


def test_missing_record_or_future_version_needs_review(world: InMemoryStack) -> None:
    add_record(world, version=1)

    missing = world.run({**push_message(), "record_id": "app#1"})
    ahead = world.run(push_message(version=9))

    assert isinstance(missing, NeedsReview)
    assert isinstance(ahead, NeedsReview)
    assert crm_emails(world) == []


def test_properties_owned_by_crm_are_not_sent(world: InMemoryStack) -> None:
    add_record(world)

    world.run(push_message())

    (contact,) = world.crm.contacts.values()
    assert "createdate" not in contact.body["properties"]


def test_older_unknown_push_does_not_change_newer_row(world: InMemoryStack) -> None:
    add_record(world)
    world.crm.fail_next("upsert_contact", ProviderFault.TIMEOUT_BEFORE)
    world.run(push_message())
    kept = record_row(world)
    moved = {name: kept[name] for name in kept if not name.startswith("push_")}
    world.dependencies.rows.put("records", {"record_id": RECORD}, {**moved, "version": 2})
    world.run(push_message(version=2))
    newer = record_row(world)

    world.run_until_idle(key(1))

    assert world.job(key(1)).status is Status.FINISHED
    assert record_row(world) == newer
    assert record_row(world)["pushed_version"] == 2


def test_rate_limited_push_is_not_blocked_by_its_own_slot(world: InMemoryStack) -> None:
    add_record(world)
    wait = timedelta(seconds=10)
    world.crm.fail_next("upsert_contact", NotSent("429", retry_after=wait))
    turned_away = world.run(push_message())
    world.clock.advance(seconds=10)

    outcome = world.run(push_message())

    assert isinstance(turned_away, NotAttempted)
    assert isinstance(outcome, Finished)
    assert crm_emails(world) == ["v1@example.com"]


def test_rate_limited_push_keeps_its_slot(world: InMemoryStack) -> None:
    add_record(world)
    world.crm.fail_next("upsert_contact", NotSent("429", retry_after=timedelta(seconds=10)))
    world.run(push_message())
    add_record(
        world,
        version=2,
        push_job=record_row(world)["push_job"],
        push_until=record_row(world)["push_until"],
    )

    newer = world.run(push_message(2))

    assert isinstance(newer, NotAttempted)
    assert key(1) in newer.reason


def test_push_survives_spent_daily_limit_without_attempts(world: InMemoryStack) -> None:
    world.crm.clock = world.clock
    add_record(world)
    world.crm.daily_limit_exhausted = True

    first = world.run(push_message())
    for _ in range(20):
        job = world.job(key(1))
        assert (job.status, job.attempts) == (Status.READY, 0)
        assert job.due_at is not None
        world.clock.time = job.due_at
        world.reconcile(key(1))
        world.run(world.outbox.sent.pop())
    days = (world.clock.now() - world.job(key(1)).created_at).days
    pushes = len([call for call in world.crm.calls if call[0] == "upsert_contact"])
    world.crm.daily_limit_exhausted = False
    ended = world.run_until_idle(key(1))

    assert isinstance(first, NotAttempted)
    assert (first.credentials_rejected, first.row_resends) == (True, True)
    assert days >= 4
    assert pushes == 21
    assert ended.status is Status.FINISHED
    assert world.alerts.sent == []


def test_non_numeric_contact_id_needs_review_without_call(world: InMemoryStack) -> None:
    add_record(world, crm_id="../deals/7")

    outcome = world.run(push_message())

    assert isinstance(outcome, NeedsReview)
    assert world.crm.calls == []


def test_dot_segment_record_id_needs_review_without_call(world: InMemoryStack) -> None:
    world.dependencies.rows.put("records", {"record_id": ".."}, {"version": 1, "record": {}})

    outcome = world.run({**push_message(), "record_id": ".."})

    assert isinstance(outcome, NeedsReview)
    assert world.crm.calls == []
