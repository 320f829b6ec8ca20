"""Above an amount, a repair needs two operators: one requests it, and another confirms it."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from oncely.contracts.job import AnyJob
from oncely.core.job_row import operator_actor
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status
from oncely.core.outcomes import NeedsReview
from oncely.core.repairs import Repair
from oncely.jobs.payment_charge import PaymentCharge
from oncely.jobs.receipt_send import ReceiptSend
from oncely.operate.repair_request import (
    Contradicted,
    NotAllowed,
    Repaired,
    RepairRequested,
    StaleVersion,
)
from oncely.operate.second_operator import (
    REQUEST_VALIDITY,
    PendingRepair,
    needs_second_operator,
    parse_amounts,
)
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.provider_fault import ProviderFault
from tests.support.repairs import (
    KEY,
    OPERATOR,
    REASON,
    is_unchanged,
    repair_job,
    world_with_declined_job,
    world_with_review_job,
    world_with_unknown_job,
)
from tests.unit.samples import NOW, TICK, make_job

SECOND = "bob@example.com"
FINISH: dict[str, Any] = {"what": Repair.MARK_FINISHED, "reference": "pi_1"}


@pytest.fixture
def world() -> InMemoryStack:
    return guarded(world_with_review_job())


def guarded(world: InMemoryStack, above: str = "eur:1249") -> InMemoryStack:
    world.second_operator_above = above
    return world


def test_first_operator_only_records_request(world: InMemoryStack) -> None:
    order = world.order()

    outcome = repair_job(world, **FINISH)

    assert isinstance(outcome, RepairRequested)
    assert outcome.details.needs_second_operator
    assert "charged 12.50 EUR as ch_1" in str(outcome.details)
    assert "valid until 2026-11-18 04:00 UTC" in str(outcome.details)
    job = world.job(KEY)
    assert (job.status, world.order()) == (Status.NEEDS_REVIEW, order)
    entry = job.evidence[-1]
    assert (entry.event, entry.actor) == (Event.NOTE, operator_actor(OPERATOR))
    assert entry.reason == f"requested mark-finished: {REASON}"


def test_dry_run_of_request_says_the_same_and_records_nothing(world: InMemoryStack) -> None:
    before = world.job(KEY)
    dry = repair_job(world, **FINISH, dry_run=True)
    assert isinstance(dry, Repaired)
    assert is_unchanged(world, before)
    act = repair_job(world, **FINISH)
    assert isinstance(act, RepairRequested)
    assert (dry.details, dry.after) == (act.details, act.after)


def test_second_operator_confirms_request(world: InMemoryStack) -> None:
    repair_job(world, **FINISH)
    shown = world.inspector().get(KEY)
    assert shown is not None
    offered = next(one for one in shown.repairs if one.repair is Repair.MARK_FINISHED)
    assert offered.reason.startswith(f"{OPERATOR} requested mark-finished with reference pi_1,")
    assert offered.needs_reference

    outcome = repair_job(world, **FINISH, actor=SECOND)

    assert isinstance(outcome, Repaired)
    assert not isinstance(outcome, RepairRequested)
    job = world.job(KEY)
    assert (job.status, world.order()["status"]) == (Status.FINISHED, "paid")
    assert (job.evidence[-1].actor, job.pending_repair) == (operator_actor(SECOND), None)
    assert job.evidence[-1].reason.startswith(f"as {OPERATOR} requested: {REASON}")


@pytest.mark.parametrize(
    "who",
    [
        {"actor": OPERATOR},
        {"actor": OPERATOR.upper()},
        {"actor": "grace", "signed_in_as": OPERATOR},
    ],
    ids=["same", "other case", "other name"],
)
def test_same_operator_cannot_confirm(world: InMemoryStack, who: dict[str, Any]) -> None:
    repair_job(world, **FINISH)
    before = world.job(KEY)

    outcome = repair_job(world, **FINISH, **who)

    assert isinstance(outcome, NotAllowed)
    assert "you requested it yourself: another operator confirms it" in outcome.reason
    assert is_unchanged(world, before)


@pytest.mark.parametrize(
    "other", [{"what": Repair.MARK_FAILED}, {"what": Repair.MARK_FINISHED, "reference": "ch_1"}]
)
def test_confirmation_with_other_values_is_refused(
    world: InMemoryStack, other: dict[str, Any]
) -> None:
    repair_job(world, **FINISH)
    before = world.job(KEY)

    outcome = repair_job(world, **other, actor=SECOND)

    assert isinstance(outcome, NotAllowed)
    assert f"{OPERATOR} requested mark-finished with reference pi_1" in outcome.reason
    assert is_unchanged(world, before)


def test_lookup_voids_request(world: InMemoryStack) -> None:
    repair_job(world, **FINISH)
    repair_job(world, Repair.LOOK_UP, actor=SECOND)
    assert isinstance(repair_job(world, **FINISH, actor=SECOND), RepairRequested)
    assert world.job(KEY).status is Status.NEEDS_REVIEW


def test_request_outlives_note_that_second_operator_has_read(world: InMemoryStack) -> None:
    repair_job(world, **FINISH)
    seen = world.job(KEY)
    at = world.clock.now()
    world.store.jobs[KEY] = seen.apply(Event.NOTE, now=at, actor="worker", reason="late")

    assert isinstance(repair_job(world, **FINISH, actor=SECOND, version=seen.version), StaleVersion)
    repair_job(world, **FINISH, actor=SECOND)
    assert world.job(KEY).status is Status.FINISHED


@pytest.mark.parametrize("changes", [{"owner": "another"}, {"provider_ref": None}], ids=str)
def test_request_about_another_owner_or_reference_is_void(
    world: InMemoryStack, changes: dict[str, Any]
) -> None:
    repair_job(world, **FINISH)
    world.store.jobs[KEY] = replace(world.job(KEY), **changes)
    assert PendingRepair.from_row(world.job(KEY), world.clock.now()) is None


def test_request_is_void_after_job_left_its_status(world: InMemoryStack) -> None:
    repair_job(world, **FINISH)
    by: dict[str, Any] = {"now": world.clock.now(), "actor": "worker", "reason": "test"}
    left = world.job(KEY).apply(Event.REOPEN, **by)
    assert PendingRepair.from_row(replace(world.job(KEY), status=left.status), NOW) is None

    world.store.jobs[KEY] = left.apply(Event.ESCALATE, **by)

    assert isinstance(repair_job(world, **FINISH, actor=SECOND), RepairRequested)
    assert world.job(KEY).status is Status.NEEDS_REVIEW


def test_confirmation_of_resubmission_ends_request() -> None:
    world = guarded(world_with_declined_job())
    repair_job(world, Repair.RESUBMIT)
    repair_job(world, Repair.RESUBMIT, actor=SECOND)
    assert len(world.outbox.sent) == 1
    assert PendingRepair.from_row(world.job(KEY), world.clock.now()) is None


@pytest.mark.parametrize(("early", "done"), [(TICK, True), (timedelta(0), False)])
def test_request_expires_after_24_hours(
    world: InMemoryStack, early: timedelta, *, done: bool
) -> None:
    repair_job(world, **FINISH)
    world.clock.time += REQUEST_VALIDITY - early
    outcome = repair_job(world, **FINISH, actor=SECOND)
    assert isinstance(outcome, Repaired)
    assert isinstance(outcome, RepairRequested) is not done
    assert world.job(KEY).status is (Status.FINISHED if done else Status.NEEDS_REVIEW)


def test_provider_is_asked_again_at_confirmation(world: InMemoryStack) -> None:
    repair_job(world, **FINISH)
    world.payments.complete("pi_1", status="refunded")
    assert isinstance(repair_job(world, **FINISH, actor=SECOND), Contradicted)
    assert world.job(KEY).status is Status.NEEDS_REVIEW


def test_refused_repair_is_not_recorded_as_request(world: InMemoryStack) -> None:
    before = world.job(KEY)
    assert isinstance(repair_job(world, Repair.MARK_FAILED), Contradicted)
    assert is_unchanged(world, before)


@pytest.mark.parametrize(
    ("world", "what"),
    [
        (world_with_review_job(ProviderFault.TIMEOUT_BEFORE), Repair.REOPEN),
        (world_with_review_job(ProviderFault.TIMEOUT_BEFORE), Repair.MARK_FAILED),
        (world_with_declined_job(), Repair.RESUBMIT),
    ],
    ids=["reopen", "mark-failed", "resubmit"],
)
def test_every_decision_needs_second_operator(world: InMemoryStack, what: Repair) -> None:
    guarded(world).outbox.sent.clear()
    assert isinstance(repair_job(world, what), RepairRequested)
    assert (world.outbox.sent, [*world.store.jobs]) == ([], [KEY])
    assert isinstance(repair_job(world, what, actor=SECOND), Repaired)
    assert len(world.outbox.sent) == 1


def test_amount_of_resubmission_counts() -> None:
    class Elsewhere(PaymentCharge):
        """A job type whose resubmission charges another order."""

        def resubmission(self) -> PaymentCharge:
            return PaymentCharge(order_id="2")

    world = guarded(InMemoryStack(contracts=(Elsewhere,)))
    world.add_order(amount=5)
    world.add_order("2")
    world.payments.declines = True
    world.run(charge_message())

    assert isinstance(repair_job(world, Repair.RESUBMIT), RepairRequested)
    assert (world.outbox.sent, [*world.store.jobs]) == ([], [KEY])


def test_lookup_needs_no_second_operator() -> None:
    world = guarded(world_with_unknown_job())
    assert isinstance(repair_job(world, Repair.LOOK_UP), Repaired)
    assert world.job(KEY).status is Status.FINISHED


@pytest.mark.parametrize(
    ("above", "needed"), [("", False), ("eur:1249", True), ("eur:1250", False), ("usd:9900", True)]
)
def test_amount_decides(above: str, *, needed: bool) -> None:
    world = guarded(world_with_review_job(), above)
    assert isinstance(repair_job(world, **FINISH), RepairRequested) is needed


def test_forged_amount_of_row_does_not_avoid_second_operator(world: InMemoryStack) -> None:
    world.store.jobs[KEY] = replace(world.job(KEY), amount=1, currency="eur")
    assert isinstance(repair_job(world, **FINISH), RepairRequested)


def test_unreadable_job_of_unknown_amount_needs_second_operator() -> None:
    world = guarded(world_with_review_job(ProviderFault.TIMEOUT_BEFORE))
    row = replace(world.job(KEY), message={}, amount=None, provider_ref=None)
    world.store.jobs[KEY] = row
    assert isinstance(repair_job(world, Repair.MARK_FAILED), RepairRequested)
    assert isinstance(repair_job(world, Repair.MARK_FAILED, actor=SECOND), Repaired)
    assert world.job(KEY).status is Status.FAILED


@pytest.mark.parametrize(
    ("text", "above"),
    [
        ("", {}),
        ("eur:50000", {"eur": 50000}),
        ("EUR:50000, usd:0", {"eur": 50000, "usd": 0}),
    ],
)
def test_amounts_are_parsed(text: str, above: dict[str, int]) -> None:
    assert parse_amounts(text) == above


@pytest.mark.parametrize("text", ["50000", "eur", "eur:", "eur:-1", "eur:1.5", "euro:1", "eur=1"])
def test_unclear_amounts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="such as eur:50000,usd:60000"):
        parse_amounts(text)


def test_refund_of_unknown_amount_needs_second_operator() -> None:
    world = guarded(InMemoryStack(), "eur:99999")
    world.add_order(status="paid")
    assert isinstance(world.run(world.request_refund()), NeedsReview), "the order has no charge"
    key = JobKey("payment.refund:order_18452:rma_1")

    outcome = repair_job(world, Repair.MARK_FAILED, key=key)

    assert isinstance(outcome, RepairRequested)
    assert world.job(key).status is Status.NEEDS_REVIEW


def test_job_without_money_needs_no_second_operator() -> None:
    app = guarded(InMemoryStack(), "eur:0").app()

    def is_needed(contract_type: type[AnyJob], **amount: Any) -> bool:  # noqa: ANN401  # of a row
        row = make_job(job_type=contract_type.job_type, **amount)
        mark = Repair.MARK_FINISHED
        return needs_second_operator(app, mark, contract_type=contract_type, row=row)

    assert not is_needed(ReceiptSend, amount=None, currency=None)
    assert is_needed(PaymentCharge, amount=None, currency=None)
    assert is_needed(PaymentCharge, amount=1, currency="eur")


@pytest.mark.parametrize("held", [{}, {"repair": "explode"}, {"repair": "reopen", "until": 7}])
def test_request_edited_by_hand_is_ignored(held: dict[str, Any]) -> None:
    assert PendingRepair.from_row(make_job(pending_repair=held), NOW) is None
