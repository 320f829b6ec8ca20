"""A job whose message this deployment cannot read: an operator closes it."""

from dataclasses import replace
from typing import Final

import pytest

from oncely.core.effect_outcomes import Json
from oncely.core.ended_jobs import MONEY_RETENTION
from oncely.core.errors import UnreadableRowError
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status
from oncely.core.repairs import Repair, repair_option, unreadable_job_options
from oncely.operate.repair_request import (
    Contradicted,
    NotAllowed,
    ProviderUnavailable,
    Repaired,
    RepairOutcome,
)
from tests.support import repairs
from tests.support.cli import FakeStackConnection, run_cli
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.provider_fault import ProviderFault
from tests.unit.samples import NO_LIMIT, NOW, TERMS, make_job

ORDER = "order_18452"
UNREADABLE_MESSAGES: dict[str, dict[str, Json]] = {
    "a newer version": {"job": "payment.charge", "v": 2, "order": "18452"},
    "an older version": {"job": "payment.charge", "v": 0, "order_id": "18452"},
    "a refused field": {"job": "payment.charge", "v": 1, "order_id": "18452", "note": "x"},
    "an unknown type": {"job": "invoice.print", "v": 1, "order_id": "18452"},
    "no message at all": {},
}


@pytest.fixture(params=UNREADABLE_MESSAGES.values(), ids=list(UNREADABLE_MESSAGES))
def world(request: pytest.FixtureRequest) -> InMemoryStack:
    """A job that another version enqueued, and that needs review here."""
    found = InMemoryStack()
    found.add_order()
    found.enqueuer().enqueue(charge_message())
    (known,) = found.store.jobs.values()
    job_type = str(request.param.get("job", "payment.charge"))
    job_key = JobKey(f"{job_type}:{ORDER}")
    found.store.jobs.clear()
    row = replace(known, job_key=job_key, job_type=job_type, message=request.param)
    found.store.jobs[job_key] = row
    found.clock.advance(hours=1)
    found.reconcile(job_key)
    assert get_job(found).status is Status.NEEDS_REVIEW
    return found


def get_job(world: InMemoryStack) -> JobRow:
    (found,) = world.store.jobs.values()
    assert isinstance(found, JobRow)
    return found


def repair_job(
    world: InMemoryStack, what: Repair, *, dry_run: bool = False, reference: str | None = "ch_9"
) -> RepairOutcome:
    more = {"dry_run": dry_run, "reference": reference if what is Repair.MARK_FINISHED else None}
    return repairs.repair_job(world, what, key=get_job(world).job_key, **more)


@pytest.mark.parametrize(
    ("what", "event", "status"),
    [
        (Repair.MARK_FINISHED, Event.RESOLVE_FINISHED, Status.FINISHED),
        (Repair.MARK_FAILED, Event.RESOLVE_FAILED, Status.FAILED),
    ],
)
def test_operator_closes_unreadable_job_without_business_rows(
    world: InMemoryStack, what: Repair, event: Event, status: Status
) -> None:
    order = world.order()

    outcome = repair_job(world, what)

    assert isinstance(outcome, Repaired)
    assert "business rows are not changed" in str(outcome.details)
    ended = get_job(world)
    assert (ended.status, ended.evidence[-1].event) == (status, event)
    assert f"closed without business rows: {repairs.REASON}" in ended.evidence[-1].reason
    assert world.order() == order


def test_unreadable_job_is_marked_in_operators_name(world: InMemoryStack) -> None:
    repair_job(world, Repair.MARK_FINISHED, reference=None)

    view = world.inspector().get(get_job(world).job_key)

    assert view is not None
    assert f"by {repairs.OPERATOR}. The provider did not confirm it." in view.headline


def test_unknown_reference_is_not_believed(world: InMemoryStack) -> None:
    """Nothing of an unknown type can be looked up, and a payment must be this job's."""
    row = get_job(world)
    world.store.jobs[row.job_key] = before = replace(row, provider_ref="pi_1", provider="stripe")

    outcome = repair_job(world, Repair.MARK_FAILED)

    assert isinstance(outcome, NotAllowed | Contradicted)
    assert "pi_1 may still be open" in outcome.reason or "is not this job's" in outcome.reason
    assert get_job(world) == before


CLAIMED: Final = {"finished": Repair.MARK_FINISHED, "failed": Repair.MARK_FAILED}


def with_unreadable_payment(status: str) -> InMemoryStack:
    """A payment in review whose message only a newer version can read."""
    world = repairs.world_with_review_job()
    (intent,) = world.payments.intents.values()
    world.payments.intents[intent.ref] = replace(intent, status=status)
    row = get_job(world)
    message = UNREADABLE_MESSAGES["a newer version"]
    world.store.jobs[row.job_key] = replace(row, message=message)
    return world


@pytest.mark.parametrize(
    ("status", "what", "reference", "confirmed"),
    [
        ("succeeded", "finished", "pi_1", True),
        ("succeeded", "finished", "pi_invented", False),
        ("succeeded", "failed", None, False),
        ("canceled", "finished", "pi_1", False),
        ("canceled", "failed", None, True),
        ("canceled", "failed", "pi_invented", False),
        ("requires_confirmation", "finished", "pi_1", False),
        ("requires_confirmation", "failed", None, False),  # no worker can close it
    ],
)
def test_payment_is_looked_up_by_its_reference(
    status: str, what: str, reference: str | None, *, confirmed: bool
) -> None:
    world = with_unreadable_payment(status)
    before = get_job(world)

    outcome = repairs.repair_job(world, CLAIMED[what], reference=reference)

    if confirmed:
        assert isinstance(outcome, Repaired)
        assert outcome.details.lookup is not None
        assert (get_job(world).status, get_job(world).marked_by) == (what, None)
    else:
        assert isinstance(outcome, Contradicted), outcome
        assert get_job(world) == before


def test_reference_of_looked_up_payment_is_required() -> None:
    world = with_unreadable_payment("succeeded")
    outcome = repairs.repair_job(world, Repair.MARK_FINISHED)
    assert isinstance(outcome, NotAllowed)
    assert "reference is required" in outcome.reason


def test_nothing_changes_without_answer() -> None:
    world = with_unreadable_payment("canceled")
    world.payments.fail_next("lookup_closed", ProviderFault.TIMEOUT_AFTER)
    before = get_job(world)
    assert isinstance(repairs.repair_job(world, Repair.MARK_FAILED), ProviderUnavailable)
    assert get_job(world) == before


def test_texts_of_erased_job_do_not_ask_for_other_version() -> None:
    job = make_job(status=Status.NEEDS_REVIEW, message={}, erasure_requested_at=NOW)
    for one in unreadable_job_options(job, TERMS):
        assert "its message was erased" in one.reason
        assert "deploy" not in one.reason


@pytest.mark.parametrize("what", [Repair.MARK_FINISHED, Repair.MARK_FAILED])
def test_closed_job_expires_and_is_not_due(world: InMemoryStack, what: Repair) -> None:
    repair_job(world, what)
    assert get_job(world).expires_at == world.clock.now() + MONEY_RETENTION
    assert get_job(world).due_at is None


def test_dry_run_reports_repair_and_writes_nothing(world: InMemoryStack) -> None:
    before = get_job(world)

    outcome = repair_job(world, Repair.MARK_FAILED, dry_run=True)

    assert isinstance(outcome, Repaired)
    assert "business rows are not changed" in str(outcome.details)
    assert get_job(world) == before


@pytest.mark.parametrize("what", sorted(set(Repair) - {Repair.MARK_FINISHED, Repair.MARK_FAILED}))
def test_other_repairs_are_not_allowed(world: InMemoryStack, what: Repair) -> None:
    before = get_job(world)

    outcome = repair_job(world, what)

    assert isinstance(outcome, NotAllowed)
    assert "cannot read its message" in outcome.reason
    assert get_job(world) == before


def test_view_and_command_offer_only_closing(world: InMemoryStack) -> None:
    key = get_job(world).job_key
    view = world.inspector().get(key)

    assert view is not None
    allowed = {one.repair for one in view.repairs if one.allowed}
    assert allowed == {Repair.MARK_FINISHED, Repair.MARK_FAILED}
    assert [found.job.job_key for found in world.inspector().search(key).jobs] == [key]
    result = run_cli(
        "repair",
        key,
        "mark-failed",
        "--reason",
        "x",
        "--yes",
        connection=FakeStackConnection(world),
    )
    assert result.exit_code == 0, result.output
    assert "business rows are not changed" in result.stdout


@pytest.mark.parametrize("status", sorted(set(Status) - {Status.NEEDS_REVIEW}))
def test_job_is_closed_only_when_it_needs_review(status: Status) -> None:
    options = unreadable_job_options(make_job(status=status), TERMS)
    assert [one.repair for one in options] == list(Repair)
    assert not any(one.allowed for one in options)


@pytest.mark.parametrize("status", sorted(set(Status) - {Status.NEEDS_REVIEW}))
def test_unreadable_message_is_reason_only_until_job_ended(status: Status) -> None:
    job = make_job(status=status)
    readable = repair_option(
        job, TERMS, Repair.MARK_FINISHED, schedule_limit=NO_LIMIT, now=NOW
    ).reason
    reasons = {one.reason for one in unreadable_job_options(job, TERMS)}
    assert (reasons == {readable}) is job.ended


@pytest.fixture(params=["a newer version", "an unknown type"])
def rolled_back(request: pytest.FixtureRequest) -> InMemoryStack:
    """A job that a newer version ended, just before it was rolled back."""
    found = InMemoryStack()
    found.add_order()
    found.run(charge_message())
    (known,) = found.store.jobs.values()
    message = UNREADABLE_MESSAGES[request.param]
    found.store.jobs[known.job_key] = replace(known, job_type=str(message["job"]), message=message)
    return found


def test_ended_job_waits_for_version_that_reads_it(rolled_back: InMemoryStack) -> None:
    before = get_job(rolled_back)

    with pytest.raises(UnreadableRowError, match="deploy it again"):
        rolled_back.publisher().publish(before.job_key)

    assert get_job(rolled_back) == before
    assert rolled_back.bus.published == []


def test_unreadable_ended_job_expires_after_wait(rolled_back: InMemoryStack) -> None:
    rolled_back.clock.advance(hours=24)
    assert rolled_back.publisher().publish(get_job(rolled_back).job_key)
    assert get_job(rolled_back).expires_at is not None
