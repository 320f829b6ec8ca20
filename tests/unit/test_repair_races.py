"""A repair applies to the version that was seen, and a dry run writes nothing."""

import pytest

from oncely.core.errors import InvalidRequestError
from oncely.core.keys import MAX_ID_LENGTH, MAX_KEY_LENGTH, JobKey
from oncely.core.lifecycle import Event, Status
from oncely.core.repairs import Repair
from oncely.core.text import MAX_REASON_LENGTH
from oncely.operate.repair_request import (
    Contradicted,
    JobNotFound,
    NotAllowed,
    Repaired,
    RepairRequest,
    StaleVersion,
)
from tests.support.in_memory_stack import InMemoryStack
from tests.support.provider_fault import ProviderFault
from tests.support.repairs import (
    KEY,
    REASON,
    is_unchanged,
    repair_job,
    world_with_declined_job,
    world_with_review_job,
    world_with_unknown_job,
)


def world_with_order_conflict() -> InMemoryStack:
    """The charge succeeded, and then an operator called the order paid by another one."""
    world = world_with_unknown_job()
    world.add_order(status="paid", charge_id="ch_by_hand")
    return world


@pytest.mark.parametrize("what", Repair)
def test_stale_version_changes_nothing_and_makes_no_lookup(what: Repair) -> None:
    world = world_with_review_job()
    before = world.job(KEY)
    world.payments.forget_calls()

    outcome = repair_job(world, what, version=before.version - 1, reference="ch_1")

    assert outcome == StaleVersion(before)
    assert is_unchanged(world, before)
    assert world.payments.calls == []


class _SlowWorld:
    def __init__(self, world: InMemoryStack) -> None:
        self.world = world

    def __getattr__(self, name: str) -> object:
        job = self.world.job(KEY)
        noted = job.apply(Event.NOTE, now=self.world.clock.now(), actor="bob", reason="meanwhile")
        self.world.store.swap(job, noted)
        return getattr(self.world.payments, name)


def test_reopen_does_not_overwrite_row_changed_during_lookup() -> None:
    world = world_with_review_job(ProviderFault.TIMEOUT_BEFORE)
    version = world.job(KEY).version
    slow = InMemoryStack(store=world.store, payments=_SlowWorld(world), clock=world.clock)

    assert isinstance(repair_job(slow, Repair.REOPEN, version=version), StaleVersion)
    assert world.job(KEY).status is Status.NEEDS_REVIEW


@pytest.mark.parametrize(
    ("fault", "what", "reference"),
    [
        (ProviderFault.TIMEOUT_AFTER, Repair.MARK_FINISHED, "pi_1"),
        (ProviderFault.TIMEOUT_BEFORE, Repair.MARK_FAILED, None),
    ],
)
def test_mark_holds_only_for_row_that_was_checked(
    fault: ProviderFault, what: Repair, reference: str | None
) -> None:
    world = world_with_review_job(fault)
    version = world.job(KEY).version
    slow = InMemoryStack(store=world.store, payments=_SlowWorld(world), clock=world.clock)

    outcome = repair_job(slow, what, version=version, reference=reference)

    assert isinstance(outcome, StaleVersion)
    assert world.job(KEY).status is Status.NEEDS_REVIEW
    assert world.order()["status"] == "payment_pending"


@pytest.mark.parametrize(
    ("world", "what"),
    [
        (world_with_unknown_job(), Repair.LOOK_UP),
        (world_with_order_conflict(), Repair.LOOK_UP),
        (world_with_review_job(), Repair.LOOK_UP),
        (world_with_review_job(ProviderFault.TIMEOUT_BEFORE), Repair.REOPEN),
        (world_with_review_job(), Repair.MARK_FINISHED),
        (world_with_review_job(ProviderFault.TIMEOUT_BEFORE), Repair.MARK_FAILED),
        (world_with_declined_job(), Repair.RESUBMIT),
    ],
    ids=[
        *("lookup", "lookup with conflict", "lookup in review", "reopen"),
        *("mark-finished", "mark-failed", "resubmit"),
    ],
)
def test_dry_run_says_what_the_repair_says_and_writes_nothing(
    world: InMemoryStack, what: Repair
) -> None:
    before, order = world.job(KEY), world.order()
    world.outbox.sent.clear()
    reference = "ch_1" if what is Repair.MARK_FINISHED else None

    dry = repair_job(world, what, reference=reference, dry_run=True)

    assert isinstance(dry, Repaired)
    assert dry.after != before
    assert is_unchanged(world, before)
    assert (world.order(), world.outbox.sent) == (order, [])
    assert [*world.store.jobs] == [KEY]
    act = repair_job(world, what, reference=reference)
    assert isinstance(act, Repaired)
    assert (dry.details, dry.after) == (act.details, act.after)


@pytest.mark.parametrize(
    ("fault", "what", "reference"),
    [
        (ProviderFault.TIMEOUT_AFTER, Repair.REOPEN, None),
        (ProviderFault.TIMEOUT_AFTER, Repair.MARK_FAILED, None),
        (ProviderFault.TIMEOUT_AFTER, Repair.MARK_FINISHED, None),
        (ProviderFault.TIMEOUT_AFTER, Repair.MARK_FINISHED, "pi_9"),
        (ProviderFault.TIMEOUT_BEFORE, Repair.MARK_FINISHED, "pi_1"),
    ],
)
def test_dry_run_is_refused_as_the_repair_is(
    fault: ProviderFault, what: Repair, reference: str | None
) -> None:
    world = world_with_review_job(fault)
    before = world.job(KEY)
    dry = repair_job(world, what, reference=reference, dry_run=True)
    assert isinstance(dry, NotAllowed | Contradicted)
    assert dry == repair_job(world, what, reference=reference)
    assert is_unchanged(world, before)


@pytest.mark.parametrize("key", ["", "x" * 201])
def test_impossible_job_key_is_invalid(key: str) -> None:
    with pytest.raises(InvalidRequestError, match="a job key must have"):
        RepairRequest(key=JobKey(key), repair=Repair.LOOK_UP, version=1, reason="x", actor="ada")


@pytest.mark.parametrize("length", [1, MAX_KEY_LENGTH])
def test_repair_accepts_shortest_and_longest_key(length: int) -> None:
    order = RepairRequest(
        key=JobKey("k" * length), repair=Repair.LOOK_UP, version=1, reason=REASON, actor="ada"
    )
    assert isinstance(InMemoryStack().repairer().repair(order), JobNotFound)


def test_unavailable_repair_gives_same_reason_as_its_offer() -> None:
    world = world_with_unknown_job()

    outcome = repair_job(world, Repair.MARK_FINISHED, reference="ch_1")

    (offered,) = (
        one
        for one in world.inspector().get(KEY).repairs  # type: ignore[union-attr]  # it is there
        if one.repair is Repair.MARK_FINISHED
    )
    assert outcome == NotAllowed(offered.reason)


@pytest.mark.parametrize(
    "wrong",
    [
        {"reason": "  "},
        {"reason": "x" * 501},
        {"actor": ""},
        {"reference": ""},
        {"reference": "two\nlines"},
        {"reference": "x" * 129},
    ],
)
def test_repair_is_invalid_with_bad_reason_actor_or_reference(wrong: dict[str, str]) -> None:
    fields = {"reason": REASON, "actor": "ada", **wrong}
    with pytest.raises(InvalidRequestError):
        RepairRequest(key=KEY, repair=Repair.LOOK_UP, version=1, **fields)  # type: ignore[arg-type]  # fields by name


def test_longest_reason_and_reference_are_accepted() -> None:
    order = RepairRequest(
        key=KEY,
        repair=Repair.MARK_FINISHED,
        version=1,
        reason="x" * MAX_REASON_LENGTH,
        actor="ada",
        reference="x" * MAX_ID_LENGTH,
    )

    assert (len(order.reason), len(order.reference or "")) == (500, 128)
