"""Marking a job asks the provider: what it contradicts is refused, with both sides."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from oncely.core.effect_outcomes import (
    Anomalous,
    Declined,
    LookupFailed,
    LookupOutcome,
    LookupUnsupported,
    NotFound,
    Pending,
    Succeeded,
)
from oncely.core.job_row import MARKED_BY_OPERATOR
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.core.money import Money
from oncely.core.profiles import RetrySafety
from oncely.core.repairs import Repair
from oncely.operate.repair_request import (
    BusinessRowConflict,
    Contradicted,
    NotAllowed,
    ProviderUnavailable,
    Repaired,
)
from tests.support.in_memory_stack import InMemoryStack
from tests.support.provider_fault import ProviderFault
from tests.support.repairs import (
    KEY,
    OPERATOR,
    REASON,
    is_unchanged,
    repair_job,
    world_with_review_job,
)
from tests.support.stripe_account import StripeIntent
from tests.unit.errand_job import KEY as ERRAND
from tests.unit.errand_job import MESSAGE, errand_type
from tests.unit.samples import make_job

RECEIPT = JobKey("receipt.send:order_18452")
NOT_DONE = ProviderFault.TIMEOUT_BEFORE


@pytest.mark.parametrize("reference", ["pi_1", "ch_1"])
def test_confirmed_payment_is_recorded_as_the_provider_reports_it(reference: str) -> None:
    world = world_with_review_job()

    outcome = repair_job(world, Repair.MARK_FINISHED, reference=reference)

    assert isinstance(outcome, Repaired)
    assert str(outcome.details) == "Stripe lookup: succeeded, charged 12.50 EUR as ch_1"
    job = world.job(KEY)
    assert (job.provider_ref, job.marked_by) == ("pi_1", None)
    assert (job.result or {})["charge_id"] == world.order()["charge_id"] == "ch_1"
    entry = job.evidence[-1].reason
    assert entry == f"{REASON} (reference {reference}); {outcome.details}"
    view = world.inspector().get(KEY)
    assert view is not None
    assert view.headline == "Charged once: 12.50 EUR (ch_1)."


@pytest.mark.parametrize("reference", ["pi_invented", "ch_by_hand", "PI_1"])
def test_invented_reference_is_refused_with_both_sides(reference: str) -> None:
    world = world_with_review_job()
    before, order = world.job(KEY), world.order()

    outcome = repair_job(world, Repair.MARK_FINISHED, reference=reference)

    assert isinstance(outcome, Contradicted)
    assert outcome.reason == (
        f"you say that it is done, as {reference}; Stripe lookup: succeeded, charged 12.50 EUR as "
        "ch_1. Next: the provider calls it ch_1 or pi_1: check which one you saw"
    )
    assert is_unchanged(world, before)
    assert world.order() == order


def forge_reference(world: InMemoryStack, ref: str | None) -> None:
    world.store.jobs[KEY] = replace(world.job(KEY), provider_ref=ref)


def test_invented_reference_of_forged_row_is_refused() -> None:
    world = world_with_review_job()
    forge_reference(world, "pi_invented")
    before = world.job(KEY)

    outcome = repair_job(world, Repair.MARK_FINISHED, reference="pi_invented")

    assert isinstance(outcome, Contradicted)
    assert outcome.lookup.outcome == "unknown reference"
    assert is_unchanged(world, before)


@pytest.mark.parametrize(
    "changes",
    [
        {"job_key": JobKey("payment.charge:order_9")},
        {"deployment": "staging"},
        {"customer": "cus_8"},
        {"money": Money(9900, "eur")},
        {"money": Money(1250, "usd")},
    ],
    ids=["job", "deployment", "customer", "amount", "currency"],
)
def test_foreign_payment_of_forged_row_is_refused(changes: Any) -> None:  # noqa: ANN401  # fields
    world = world_with_review_job(NOT_DONE)
    theirs = replace(world.payments.intents["pi_1"].payment, **changes)
    world.payments.intents["pi_victim"] = StripeIntent("pi_victim", theirs, "succeeded")
    forge_reference(world, "pi_victim")
    before = world.job(KEY)

    outcome = repair_job(world, Repair.MARK_FINISHED, reference="pi_victim")

    assert isinstance(outcome, Contradicted)
    assert "pi_victim is not this job's payment" in outcome.reason
    assert is_unchanged(world, before)


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        ("canceled", "declined"),
        ("declined", "declined, still open"),
        ("requires_confirmation", "not done"),
        ("processing", "in progress"),
        ("refunded", "succeeded, changed later"),
    ],
)
def test_unpaid_payment_is_not_marked_as_paid(status: str, answer: str) -> None:
    world = world_with_review_job(NOT_DONE)
    world.payments.complete("pi_1", status=status)
    before = world.job(KEY)

    outcome = repair_job(world, Repair.MARK_FINISHED, reference="pi_1")

    assert isinstance(outcome, Contradicted)
    assert outcome.lookup.outcome == answer
    assert is_unchanged(world, before)
    assert world.order()["status"] == "payment_pending"


def test_payment_disputed_since_may_be_marked_as_paid() -> None:
    world = world_with_review_job()
    world.payments.complete("pi_1", status="disputed")
    assert isinstance(repair_job(world, Repair.MARK_FINISHED, reference="pi_1"), Repaired)
    assert "is disputed" in world.job(KEY).evidence[-1].reason
    assert world.order()["charge_id"] == "ch_1"


def test_second_charge_must_be_refunded_before_mark_finished() -> None:
    world = world_with_review_job()
    own = world.payments.intents["pi_1"].payment
    world.payments.intents["pi_2"] = StripeIntent("pi_2", own, "succeeded")

    refused = repair_job(world, Repair.MARK_FINISHED, reference="pi_1")
    world.payments.complete("pi_2", status="refunded")

    assert isinstance(refused, Contradicted)
    assert "pi_2" in refused.reason
    assert isinstance(repair_job(world, Repair.MARK_FINISHED, reference="pi_1"), Repaired)


@pytest.mark.parametrize(
    ("repair", "call", "reference"),
    [(Repair.MARK_FINISHED, "lookup", "pi_1"), (Repair.MARK_FAILED, "lookup_closed", None)],
)
def test_unreachable_provider_refuses_for_now(
    repair: Repair, call: str, reference: str | None
) -> None:
    world = world_with_review_job()
    world.payments.fail_next(call, NOT_DONE)
    before = world.job(KEY)

    outcome = repair_job(world, repair, reference=reference)

    assert isinstance(outcome, ProviderUnavailable)
    assert outcome.reason.endswith("nothing was changed: try again")
    assert is_unchanged(world, before)


def test_mark_failed_refuses_reference_of_other_payment() -> None:
    world = world_with_review_job(NOT_DONE)
    world.payments.complete("pi_1", status="canceled")

    outcome = repair_job(world, Repair.MARK_FAILED, reference="re_9")

    assert isinstance(outcome, Contradicted)
    assert "the provider knows pi_1: name that" in outcome.reason
    assert isinstance(repair_job(world, Repair.MARK_FAILED, reference="pi_1"), Repaired)


def test_mark_failed_refuses_other_reference_before_it_closes() -> None:
    world = world_with_review_job(NOT_DONE)
    assert isinstance(repair_job(world, Repair.MARK_FAILED, reference="re_9"), Contradicted)
    assert world.outbox.sent == []


@pytest.mark.parametrize("repair", [Repair.MARK_FINISHED, Repair.MARK_FAILED])
def test_reference_that_row_lost_is_found_first(repair: Repair) -> None:
    world = world_with_review_job()
    forge_reference(world, None)

    outcome = repair_job(world, repair, reference="pi_1")

    assert isinstance(outcome, Repaired)
    assert "pi_1 was found and saved" in str(outcome.details)
    job = world.job(KEY)
    assert (job.status, job.provider_ref) == (Status.NEEDS_REVIEW, "pi_1")
    refused = isinstance(repair_job(world, Repair.MARK_FAILED), Contradicted)
    assert refused, "the payment succeeded"


def forge_victim(world: InMemoryStack) -> None:
    own = world.payments.intents["pi_1"].payment
    other = replace(own, job_key=JobKey("payment.charge:order_9"))
    world.payments.intents["pi_victim"] = StripeIntent("pi_victim", other, "canceled")
    forge_reference(world, "pi_victim")


@pytest.mark.parametrize("forge", [forge_victim, lambda world: forge_reference(world, "pi_none")])
def test_forged_reference_does_not_fail_paid_job(forge: Callable[[InMemoryStack], None]) -> None:
    world = world_with_review_job()
    forge(world)

    outcome = repair_job(world, Repair.MARK_FAILED)

    assert isinstance(outcome, Repaired)
    assert (world.job(KEY).status, world.job(KEY).provider_ref) == (Status.NEEDS_REVIEW, "pi_1")
    assert isinstance(repair_job(world, Repair.MARK_FAILED), Contradicted), "it was charged"


def test_forged_reference_does_not_keep_unpaid_job_open() -> None:
    world = InMemoryStack()
    world.run_to_review()
    world.add_order()
    forge_reference(world, "pi_invented")

    assert isinstance(repair_job(world, Repair.MARK_FAILED), Repaired)
    assert world.job(KEY).status is Status.FAILED
    assert "the customer has no payment of this job" in world.job(KEY).evidence[-1].reason


@pytest.mark.parametrize("forge", [forge_victim, lambda world: forge_reference(world, "pi_none")])
def test_mark_failed_does_not_record_foreign_reference(
    forge: Callable[[InMemoryStack], None],
) -> None:
    world = world_with_review_job(NOT_DONE)
    forge(world)
    own = world.payments.intents["pi_1"]
    of_other = replace(own.payment, job_key=JobKey("payment.charge:order_9"))
    world.payments.intents["pi_1"] = replace(own, payment=of_other)
    named = world.job(KEY).provider_ref

    assert isinstance(repair_job(world, Repair.MARK_FAILED, reference=named), Contradicted)
    assert isinstance(repair_job(world, Repair.MARK_FAILED), Repaired)


def test_payment_of_other_deployment_is_not_ours_whatever_the_row_says() -> None:
    world = world_with_review_job()
    own = replace(world.payments.intents["pi_1"].payment, deployment="staging")
    world.payments.intents["pi_1"] = StripeIntent("pi_1", own, "succeeded")
    world.store.jobs[KEY] = replace(world.job(KEY), deployment="staging")
    world.deployment = "dev"

    assert isinstance(repair_job(world, Repair.MARK_FINISHED, reference="pi_1"), Contradicted)
    assert world.order()["status"] == "payment_pending"
    assert isinstance(repair_job(world, Repair.MARK_FAILED), Repaired)
    assert world.job(KEY).status is Status.FAILED


def test_forged_reference_is_not_believed_without_order() -> None:
    world = world_with_review_job()
    forge_reference(world, "pi_invented")
    world.rows.clear()
    assert isinstance(repair_job(world, Repair.MARK_FAILED), BusinessRowConflict)


def test_reopen_with_unknown_reference_is_refused() -> None:
    world = world_with_review_job()
    forge_reference(world, "pi_invented")
    assert isinstance(repair_job(world, Repair.REOPEN), NotAllowed)


def errand_world(outcome: LookupOutcome, safety: RetrySafety = RetrySafety.LOOKUP) -> InMemoryStack:
    world = InMemoryStack(contracts=(errand_type(safety, asks=lambda _: outcome),))
    named = {"job_key": ERRAND, "job_type": "errand.run", "message": MESSAGE}
    world.store.create(make_job(**named, status=Status.NEEDS_REVIEW, fingerprint=None))
    return world


def mark_errand(world: InMemoryStack, repair: Repair) -> object:
    reference = "run_1" if repair is Repair.MARK_FINISHED else None
    return repair_job(world, repair, key=ERRAND, reference=reference)


@pytest.mark.parametrize(
    ("outcome", "finished", "failed"),
    [
        (Succeeded("run", "run_1"), Repaired, Contradicted),
        (Succeeded("run, and it has no id"), Repaired, Contradicted),
        (Succeeded("run", "run_2"), Contradicted, Contradicted),
        (Declined("no", code="no"), Contradicted, Repaired),
        (NotFound("none", conclusive=True), Contradicted, Repaired),
        (NotFound("none yet"), Contradicted, Contradicted),
        (Pending("soon"), Contradicted, Contradicted),
        (Anomalous("two of them", "run_1"), Contradicted, Contradicted),
        (Anomalous("two of them"), Contradicted, Contradicted),
        (LookupFailed("down"), ProviderUnavailable, ProviderUnavailable),
        (LookupUnsupported(), Repaired, Repaired),
    ],
)
def test_answer_decides_what_can_be_marked(
    outcome: LookupOutcome, finished: type, failed: type
) -> None:
    assert isinstance(mark_errand(errand_world(outcome), Repair.MARK_FINISHED), finished)
    assert isinstance(mark_errand(errand_world(outcome), Repair.MARK_FAILED), failed)


def test_absence_fails_job_after_last_possible_request() -> None:
    world = errand_world(NotFound("none"))
    refused = mark_errand(world, Repair.MARK_FAILED)
    world.clock.advance(seconds=100)

    assert isinstance(refused, Contradicted)
    assert "a request may still be in flight: try again after 2026-11-16 03:01 UTC" in refused.fix
    assert isinstance(mark_errand(world, Repair.MARK_FAILED), Repaired)


def receipt_world() -> InMemoryStack:
    world = InMemoryStack()
    world.add_order(status="paid")
    message = {"job": "receipt.send", "v": 1, "order_id": "18452"}
    named = {"job_key": RECEIPT, "job_type": "receipt.send", "message": message}
    world.store.create(make_job(**named, status=Status.NEEDS_REVIEW, fingerprint=None))
    return world


@pytest.mark.parametrize(
    ("repair", "mark"), [(Repair.MARK_FINISHED, "sent"), (Repair.MARK_FAILED, "failed")]
)
@pytest.mark.parametrize("reference", [None, "0100-mail"])
def test_mail_is_marked_in_operators_name(repair: Repair, mark: str, reference: str | None) -> None:
    world = receipt_world()

    outcome = repair_job(world, repair, key=RECEIPT, reference=reference)

    assert isinstance(outcome, Repaired)
    assert str(outcome.details) == f"marked as {mark} by {OPERATOR}; Amazon SES cannot be asked"
    job = world.job(RECEIPT)
    assert (job.marked_by, (job.result or {})["code"]) == (OPERATOR, MARKED_BY_OPERATOR)
    view = world.inspector().get(RECEIPT)
    assert view is not None
    shown: Any = view.to_json()
    assert shown["headline"] == f"Marked as {mark} by {OPERATOR}. The provider did not confirm it."
    assert shown["timeline"][-1]["event_label"] == f"marked as {mark} by {OPERATOR}"
    assert "once" not in str(shown["timeline"]).lower()
    assert "accepted" not in shown["headline"]
