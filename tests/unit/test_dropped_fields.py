"""Fields that a contract drops when its job ends, and what still runs without them."""

from dataclasses import replace
from datetime import timedelta

import pytest

from oncely.domain.decisions import escalate, on_late_outcome
from oncely.domain.effect_outcomes import (
    Ambiguous,
    Anomalous,
    Declined,
    EffectOutcome,
    Json,
    Succeeded,
)
from oncely.domain.errors import InvariantError
from oncely.domain.history import history_line
from oncely.domain.jobs import Decision, Job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import ENDING, TRANSITIONS, Event, Status
from oncely.domain.repairs import Repair
from oncely.domain.restore import restore_row
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.jobs.sync_contact import ContactMessage, SyncContact
from oncely.operate.repair_request import Repaired
from oncely.registry import ContractRegistry
from oncely.run.outcomes import Duplicate, Finished
from tests.support.crash_points import InterruptingPort
from tests.support.in_memory_stack import InMemoryStack
from tests.support.repairs import repair_job
from tests.unit.errand_contract import Errand, ErrandMessage, errand_type
from tests.unit.samples import NOW, make_job

EMAIL = "ada@example.com"
RECORD: dict[str, Json] = {
    "id": "1",
    "properties": {"email": EMAIL},
    "updatedAt": "2026-11-16T02:20:00Z",
}
MESSAGE: dict[str, Json] = {
    "job": "sync.contact",
    "v": 1,
    "source": "hubspot",
    "source_id": "1",
    "event_id": "e",
}
FULL: dict[str, Json] = {**MESSAGE, "record": RECORD}
OTHER_CONTACT: dict[str, Json] = {**FULL, "record": {**RECORD, "id": "2"}}
KEY = JobKey("sync.contact:hubspot:1:e")


class DetailedMessage(ErrandMessage):
    details: str | None = None


class FollowedErrand(Errand):
    """Follows its own errand, as long as its message has the details."""

    def follow_ups(self, job: Job) -> tuple[DetailedMessage, ...]:
        if "details" not in job.message:
            return ()
        return (DetailedMessage(job="errand.run", v=1, errand_id="8"),)


def detailed_errand(base: type[Errand] = Errand, **steps: object) -> type[Errand]:
    kind = errand_type(**steps)  # type: ignore[arg-type]  # steps by name
    members = {"message": DetailedMessage, "dropped_when_ended": frozenset({"details"})}
    return type("DetailedErrand", (kind, base), members)


ERRAND = {"job": "errand.run", "v": 1, "errand_id": "7", "details": EMAIL}
ERRAND_KEY = JobKey("errand.run:7")


def test_finished_contact_keeps_no_record_and_costs_no_extra_write(world: InMemoryStack) -> None:
    world.run(FULL)

    job = world.job(KEY)
    assert (job.status, job.message) == (Status.FINISHED, MESSAGE)
    assert EMAIL not in repr(job)
    assert job.version == 2, "the claim and the end"


def test_unfinished_contact_keeps_its_record(world: InMemoryStack) -> None:
    world.run(OTHER_CONTACT)
    assert world.job(KEY).status is Status.NEEDS_REVIEW
    assert world.job(KEY).message == OTHER_CONTACT


@pytest.mark.parametrize(
    ("status", "event"), [(old, event) for old, event in TRANSITIONS if old is not None]
)
def test_only_ending_event_drops_fields(status: Status, event: Event) -> None:
    decision = Decision(event=event, reason="a reason")

    job = make_job(status=status, message=FULL)
    after = decision.apply_to(job, now=NOW, actor="x", dropped_when_ended={"record"})

    assert ("record" in after.message) is (event not in ENDING)


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Succeeded("was run"), Status.FINISHED),
        (Declined("the bank was closed", code="closed"), Status.FAILED),
    ],
)
def test_reconciler_drops_fields(outcome: EffectOutcome, status: Status) -> None:
    contract = detailed_errand(acts=lambda _: Ambiguous("timeout"), asks=lambda _: outcome)
    world = InMemoryStack(contracts=(contract,))
    world.run(ERRAND)
    assert world.job(ERRAND_KEY).message == ERRAND

    world.reconcile(ERRAND_KEY)

    assert world.job(ERRAND_KEY).status is status
    assert "details" not in world.job(ERRAND_KEY).message


@pytest.mark.parametrize("repair", [Repair.MARK_FINISHED, Repair.MARK_FAILED])
def test_operator_drops_fields(world: InMemoryStack, repair: Repair) -> None:
    world.run(OTHER_CONTACT)

    assert isinstance(repair_job(world, repair, key=KEY), Repaired)

    assert world.job(KEY).ended
    assert world.job(KEY).message == MESSAGE


@pytest.mark.parametrize("repair", [Repair.MARK_FINISHED, Repair.MARK_FAILED])
def test_operator_drops_fields_of_unreadable_message(world: InMemoryStack, repair: Repair) -> None:
    world.run(OTHER_CONTACT)
    newer = {**OTHER_CONTACT, "v": 2}
    world.store.jobs[KEY] = replace(world.job(KEY), message=newer)

    assert isinstance(repair_job(world, repair, key=KEY), Repaired)

    assert world.job(KEY).message == {**MESSAGE, "v": 2}


def test_late_worker_does_not_bring_dropped_fields_back(world: InMemoryStack) -> None:
    """A worker freezes with the record until an operator has ended its job."""

    def end_job() -> None:
        world.store.jobs[KEY] = escalate("held up").apply_to(world.job(KEY), now=NOW, actor="x")
        repair_job(world, Repair.MARK_FINISHED, key=KEY)

    slow = InterruptingPort(world.store, "claim", end_job)
    world.run(FULL, runner=world.runner(store=slow))

    job = world.job(KEY)
    assert (job.status, job.evidence[-1].event) == (Status.FINISHED, Event.NOTE)
    assert job.message == MESSAGE


def test_contradicted_job_runs_again_without_dropped_fields(world: InMemoryStack) -> None:
    """The contact is fetched instead, and a replay of the first message changes nothing."""
    world.crm.add(email="new@example.com")
    world.run(FULL)
    contradiction = on_late_outcome(world.job(KEY), Declined("no", code="no"), fence=1)
    world.store.jobs[KEY] = contradiction.apply_to(world.job(KEY), now=NOW, actor="worker")

    assert isinstance(repair_job(world, Repair.REOPEN, key=KEY), Repaired)
    assert isinstance(world.run(world.outbox.sent.pop()), Finished)

    row = world.dependencies.rows.get("records", {"record_id": "hubspot#1"})
    assert row is not None
    assert "new@example.com" in repr(row["record"])
    assert isinstance(world.run(FULL), Duplicate)
    assert world.job(KEY).message == MESSAGE


def test_producer_sends_nothing_for_ended_job_with_dropped_fields(world: InMemoryStack) -> None:
    world.enqueuer().enqueue(FULL)
    world.run(world.outbox.sent.pop())

    again = world.enqueuer().enqueue(FULL)

    assert (again.created, again.sent, again.conflict) == (False, False, None)
    assert world.outbox.sent == []


def test_follow_ups_see_message_without_dropped_fields() -> None:
    """Otherwise the row would stay due for a follow-up that the publisher cannot make."""
    world = InMemoryStack(contracts=(detailed_errand(FollowedErrand),))

    world.run(ERRAND)

    assert world.job(ERRAND_KEY).due_at is None


def test_restored_proof_has_no_dropped_fields(world: InMemoryStack) -> None:
    """The table was restored to a time before the job ended; the history has the end."""
    world.run(OTHER_CONTACT)
    before = world.job(KEY)
    repair_job(world, Repair.MARK_FINISHED, key=KEY)
    line = history_line(before, world.job(KEY), generation="T1", at=NOW)

    restored = restore_row(before, line, deployment="dev", now=NOW + timedelta(days=1))

    assert restored is not None
    assert (restored.status, restored.message) == (Status.FINISHED, MESSAGE)


def test_contract_may_drop_optional_fields_only() -> None:
    broken = type("Broken", (SyncContact,), {"dropped_when_ended": frozenset({"event_id"})})
    with pytest.raises(
        InvariantError, match="lists event_id, not an optional field of its message"
    ):
        ContractRegistry([broken])


def test_keys_of_shipped_contracts_do_not_need_dropped_fields() -> None:
    dropping = [one for one in SHIPPED_JOBS if one.dropped_when_ended]
    assert dropping == [SyncContact]
    full, short = (ContactMessage.model_validate(one) for one in (FULL, MESSAGE))
    assert SyncContact.key(full) == SyncContact.key(short)


def test_anomaly_of_errand_keeps_details() -> None:
    contract = detailed_errand(acts=lambda _: Anomalous("two banks"))
    world = InMemoryStack(contracts=(contract,))
    world.run(ERRAND)
    assert world.job(ERRAND_KEY).message == ERRAND
