"""sync.push: one object at the CRM, and an older push never overwrites a newer one."""

import json
from datetime import timedelta

from oncely.core.effect_outcomes import NotSent
from oncely.core.lifecycle import Status, WaitKind
from oncely.core.outcomes import NeedsReview, Unknown
from tests.support.crash_points import InterruptingPort, interrupt_after
from tests.support.in_memory_stack import InMemoryStack
from tests.support.outcomes import is_finished, is_retried
from tests.support.provider_fault import ProviderFault

RECORD = "app#77"


def push_message(version: int = 1, **more: object) -> dict[str, object]:
    record = {"target": "hubspot", "record_id": RECORD, "version": version}
    return {"job": "sync.push", "v": 1, **record, **more}


def key(version: int) -> str:
    return f"sync.push:hubspot:{RECORD}:{version}"


def add_record(world: InMemoryStack, version: int = 1, **columns: object) -> None:
    properties = {"email": f"v{version}@example.com", "hs_object_id": "1", "createdate": "x"}
    row = {"source": "app", "source_id": "77", "record": {"properties": properties}, **columns}
    put_record(world, {"version": version, **row})


def put_record(world: InMemoryStack, row: dict[str, object]) -> None:
    world.rows.put("records", {"record_id": RECORD}, row)


def record_row(world: InMemoryStack) -> dict[str, object]:
    return dict(world.rows.get("records", {"record_id": RECORD}) or {})


def crm_emails(world: InMemoryStack) -> list[str]:
    return [str(one.body["properties"]["email"]) for one in world.crm.contacts.values()]


def lose_push(world: InMemoryStack, fault: ProviderFault) -> None:
    add_record(world)
    world.crm.fail_next("upsert_contact", fault)
    world.run(push_message())


def test_push_creates_contact_and_saves_its_id(world: InMemoryStack) -> None:
    add_record(world)

    outcome = world.run(push_message())

    assert is_finished(outcome)
    (contact,) = world.crm.model.ledger.contacts
    assert contact.properties["email"] == "v1@example.com"
    assert "createdate" not in contact.properties  # the CRM's own
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
    lose_push(world, ProviderFault.TIMEOUT_AFTER)
    looks = iter(["before the question", "after the answer"])

    def somebody_changes_it() -> None:
        if next(looks, None) == "after the answer":
            world.rows.change("records", {"record_id": RECORD}, version=2)

    interrupt_after(world.aws, "get_item", somebody_changes_it, table="records")
    world.reconcile(key(1))
    job = world.run_until_idle(key(1))

    assert job.status is Status.FINISHED
    assert (job.result or {})["superseded_by"] == 2
    assert world.alerts.sent == []


def test_push_escalates_at_age_limit_when_rows_keep_changing(world: InMemoryStack) -> None:
    lose_push(world, ProviderFault.TIMEOUT_AFTER)

    def change_record() -> None:
        version = int(str(record_row(world)["version"])) + 1
        world.rows.change("records", {"record_id": RECORD}, version=version)

    interrupt_after(world.aws, "get_item", change_record, table="records")

    world.reconcile(key(1))
    early = world.job(key(1)).status
    world.clock.advance(hours=25)
    world.reconcile(key(1))

    assert (early, world.job(key(1)).status) == (Status.UNKNOWN, Status.NEEDS_REVIEW)


def test_lost_push_is_resent_after_timeout(world: InMemoryStack) -> None:
    lose_push(world, ProviderFault.TIMEOUT_BEFORE)

    assert world.run_until_idle(key(1)).status is Status.FINISHED
    assert len(world.crm.contacts) == 1


def test_outdated_version_is_skipped_and_current_one_follows(world: InMemoryStack) -> None:
    add_record(world, version=3)

    outcome = world.run(push_message(version=1))
    world.publisher().publish(world.job(key(1)).job_key)

    assert is_finished(outcome)
    assert crm_emails(world) == []
    assert json.loads(world.outbox.sent[-1]) == push_message(version=3)


def test_record_changed_during_push_is_pushed_as_new_job(world: InMemoryStack) -> None:
    add_record(world)
    changed = {**record_row(world), "version": 2}
    crm = world.crm
    world.crm = InterruptingPort(crm, "upsert_contact", lambda: put_record(world, changed))

    world.run(push_message())
    world.crm = crm
    world.publisher().publish(world.job(key(1)).job_key)

    assert (world.job(key(1)).result or {})["superseded_by"] == 2
    assert json.loads(world.outbox.sent[-1]) == push_message(version=2)


def test_two_versions_are_never_pushed_concurrently(world: InMemoryStack) -> None:
    add_record(world)
    seen: list[object] = []
    crm = world.crm

    def push_newer_version() -> None:
        world.crm = crm
        put_record(world, {**record_row(world), "version": 2})
        seen.append(world.run(push_message(version=2)))

    world.crm = InterruptingPort(crm, "upsert_contact", push_newer_version)
    world.run(push_message())
    world.clock.advance(hours=1)
    later = world.run(push_message(version=2))

    assert is_retried(seen[0])
    assert is_finished(later)
    assert record_row(world)["pushed_version"] == 2


def test_contact_from_crm_is_updated_by_its_own_id(world: InMemoryStack) -> None:
    crm_id = world.crm.add(email="ada@example.com")
    add_record(world, source="hubspot", source_id=crm_id)

    assert is_finished(world.run(push_message()))
    assert list(world.crm.contacts) == [crm_id]
    assert crm_emails(world) == ["v1@example.com"]


def test_older_unknown_push_does_not_change_newer_row(world: InMemoryStack) -> None:
    lose_push(world, ProviderFault.TIMEOUT_BEFORE)
    kept = record_row(world)
    moved = {name: kept[name] for name in kept if not name.startswith("push_")}
    put_record(world, {**moved, "version": 2})
    world.run(push_message(version=2))
    newer = record_row(world)

    world.run_until_idle(key(1))

    assert world.job(key(1)).status is Status.FINISHED
    assert record_row(world) == newer
    assert record_row(world)["pushed_version"] == 2


def test_property_that_account_lacks_needs_review(world: InMemoryStack) -> None:
    put_record(world, {"version": 1, "record": {"properties": {"no_such_property": "1"}}})
    assert isinstance(world.run(push_message()), NeedsReview)
    assert world.crm.writes.total() == 0


def test_rate_limited_push_keeps_its_slot_and_uses_it(world: InMemoryStack) -> None:
    add_record(world)
    world.crm.fail_next("upsert_contact", NotSent("429", retry_after=timedelta(seconds=10)))
    assert is_retried(world.run(push_message()))
    kept = record_row(world)
    put_record(world, {**kept, "version": 2})

    newer = world.run(push_message(2))
    put_record(world, kept)
    world.clock.advance(seconds=10)

    assert is_retried(newer)
    assert key(1) in newer.reason
    assert is_finished(world.run(push_message()))
    assert crm_emails(world) == ["v1@example.com"]


def test_push_survives_spent_daily_limit_without_attempts(world: InMemoryStack) -> None:
    add_record(world)
    world.crm.rules.is_daily_limit_reached = True

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
    world.crm.rules.is_daily_limit_reached = False
    ended = world.run_until_idle(key(1))

    assert is_retried(first)
    assert (first.kind, first.redeliver) == (WaitKind.SECRET, False)
    assert days >= 4
    assert pushes == 21
    assert ended.status is Status.FINISHED
    assert world.alerts.sent == []


def test_id_that_changes_path_needs_review_without_call(world: InMemoryStack) -> None:
    add_record(world, crm_id="../deals/7")
    world.rows.put("records", {"record_id": ".."}, {"version": 1, "record": {}})

    for message in (push_message(), {**push_message(), "record_id": ".."}):
        assert isinstance(world.run(message), NeedsReview)
    assert world.crm.sandbox.ledger.requests == ()
