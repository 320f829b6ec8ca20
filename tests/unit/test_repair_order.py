"""A repair holds for what was seen, a dry run writes nothing, and a bad order is refused."""

import pytest

from oncely.domain.errors import InvalidRequestError
from oncely.domain.keys import MAX_KEY, MAX_PART, JobKey
from oncely.domain.lifecycle import Event, Status
from oncely.domain.repairs import Repair
from oncely.domain.text import MAX_REASON
from oncely.services.repair_order import (
    Changed,
    NoSuchJob,
    NotAllowed,
    RepairOrder,
    WouldRepair,
)
from tests.support.payments import Fault
from tests.support.repairs import KEY, REASON, declined, in_review, repair, unknown, untouched
from tests.support.world import World


@pytest.mark.parametrize("what", Repair)
def test_stale_version_changes_nothing_and_makes_no_lookup(what: Repair) -> None:
    world = in_review()
    before = world.job(KEY)
    world.payments.calls.clear()

    outcome = repair(world, what, version=before.version - 1, reference="ch_1")

    assert outcome == Changed(before)
    assert untouched(world, before)
    assert world.payments.calls == []


class _Slow:
    """A provider during whose answer somebody else changes the row."""

    def __init__(self, world: World) -> None:
        self.world = world

    def __getattr__(self, name: str) -> object:
        job = self.world.job(KEY)
        noted = job.apply(Event.NOTE, now=self.world.clock.now(), actor="bob", reason="meanwhile")
        self.world.store.swap(job, noted)
        return getattr(self.world.payments, name)


def test_reopen_does_not_overwrite_row_changed_during_lookup() -> None:
    world = in_review(Fault.TIMEOUT_BEFORE)
    version = world.job(KEY).version
    slow = World(store=world.store, payments=_Slow(world), clock=world.clock)

    outcome = repair(slow, Repair.RETURN, version=version)

    assert isinstance(outcome, Changed)
    assert world.job(KEY).status is Status.NEEDS_REVIEW


@pytest.mark.parametrize(
    ("world", "what"),
    [
        (unknown(), Repair.ASK),
        (in_review(), Repair.ASK),
        (in_review(Fault.TIMEOUT_BEFORE), Repair.RETURN),
        (in_review(), Repair.FINISH),
        (in_review(Fault.TIMEOUT_BEFORE), Repair.FAIL),
        (declined(), Repair.AGAIN),
    ],
    ids=["ask", "ask in review", "return", "finish", "fail", "again"],
)
def test_dry_run_shows_result_and_writes_nothing(world: World, what: Repair) -> None:
    before, order = world.job(KEY), world.order()
    world.outbox.sent.clear()

    outcome = repair(world, what, reason="", dry_run=True)

    assert isinstance(outcome, WouldRepair)
    assert outcome.after != before
    assert untouched(world, before)
    assert (world.order(), world.outbox.sent) == (order, [])


@pytest.mark.parametrize("key", ["", "x" * 201])
def test_impossible_job_key_is_invalid(key: str) -> None:
    with pytest.raises(InvalidRequestError, match="a job key has"):
        RepairOrder(key=JobKey(key), repair=Repair.ASK, version=1, reason="x", actor="ada")


@pytest.mark.parametrize("length", [1, MAX_KEY])
def test_repair_accepts_shortest_and_longest_key(length: int) -> None:
    order = RepairOrder(
        key=JobKey("k" * length), repair=Repair.ASK, version=1, reason=REASON, actor="ada"
    )

    assert isinstance(World().repairer().repair(order), NoSuchJob)


def test_missing_job_is_reported() -> None:
    order = RepairOrder(
        key=JobKey("payment.charge:order_1"), repair=Repair.ASK, version=1, reason="x", actor="ada"
    )

    assert World().repairer().repair(order) == NoSuchJob()


def test_unavailable_repair_gives_same_reason_as_its_offer() -> None:
    world = unknown()

    outcome = repair(world, Repair.FINISH, reference="ch_1")

    (offered,) = (
        one
        for one in world.inspector().show(KEY).repairs  # type: ignore[union-attr]  # it is there
        if one.repair is Repair.FINISH
    )
    assert outcome == NotAllowed(offered.why)


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
def test_repair_is_invalid_with_bad_reason_actor_or_reference(
    wrong: dict[str, str],
) -> None:
    fields = {"reason": REASON, "actor": "ada", **wrong}

    with pytest.raises(InvalidRequestError):
        RepairOrder(key=KEY, repair=Repair.ASK, version=1, **fields)  # type: ignore[arg-type]  # fields by name


def test_longest_reason_and_reference_are_accepted() -> None:
    order = RepairOrder(
        key=KEY,
        repair=Repair.FINISH,
        version=1,
        reason="x" * MAX_REASON,
        actor="ada",
        reference="x" * MAX_PART,
    )

    assert (len(order.reason), len(order.reference or "")) == (500, 128)


def test_lookup_dry_run_says_business_rows_are_unchecked() -> None:
    outcome = repair(unknown(), Repair.ASK, dry_run=True)

    assert isinstance(outcome, WouldRepair)
    assert outcome.said.endswith("whether our own rows take it is seen when it is done")
