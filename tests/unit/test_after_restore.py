"""After a restore, a job whose history may be lost is looked up before it executes anything."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from oncely.core.ask_and_record import lookup_effect
from oncely.core.effect_outcomes import LookupUnsupported, Succeeded
from oncely.core.job_row import EventMark, EventRecord, new_job
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.core.profiles import RetrySafety
from oncely.core.repairs import Repair
from oncely.core.table_guard import TableBlocked, TableOpen
from oncely.history.lines import history_line
from oncely.history.restore import restore_row
from oncely.operate.repair_request import (
    Contradicted,
    NotAllowed,
    ProviderUnavailable,
    Repaired,
    RepairOutcome,
    RepairRequest,
)
from tests.support.fakes import START, FakeTableGuard
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import awaits_resolution, is_failed, is_finished
from tests.support.provider_fault import ProviderFault
from tests.support.stripe_account import StripeAccount
from tests.unit.errand_job import make_errand
from tests.unit.samples import NOW, make_job

KEY = JobKey("payment.charge:order_18452")


def world_after_restore(payments: StripeAccount) -> InMemoryStack:
    """The row is lost, but Stripe still has the payment."""
    world = InMemoryStack(payments=payments, deployment="dev")
    until = world.clock.now() + timedelta(days=18)
    world.guard = FakeTableGuard(TableOpen(deployment="dev", replays_until=until))
    world.add_order()
    return world


def payments_charged_before(**faults: ProviderFault) -> StripeAccount:
    before = InMemoryStack(deployment="dev")
    before.add_order()
    for step, fault in faults.items():
        before.payments.fail_next(step, fault)
    before.run(charge_message())
    payments: StripeAccount = before.payments
    payments.model.honors_idempotency_keys = False  # Stripe has removed them
    payments.forget_calls()
    return payments


def test_replay_of_lost_job_finds_payment_without_charging() -> None:
    world = world_after_restore(payments_charged_before())

    outcome = world.run(charge_message())

    assert is_finished(outcome)
    assert outcome.result["charge_id"] == "ch_1"
    assert world.payments.charges == ["pi_1"]
    assert world.job(KEY).provider_ref == "pi_1"
    assert world.order()["status"] == "paid"


def test_replay_continues_with_prepared_payment() -> None:
    world = world_after_restore(payments_charged_before(execute=ProviderFault.REFUSED_CONNECTION))
    assert is_finished(world.run(charge_message()))
    assert [*world.payments.intents] == ["pi_1"]
    assert world.payments.charges == ["pi_1"]


@pytest.mark.parametrize(("days", "lookups"), [(0, ["find"]), (19, [])])
def test_new_job_is_looked_up_only_in_replay_window(days: int, lookups: list[str]) -> None:
    world = world_after_restore(StripeAccount())
    world.clock.advance(days=days)
    assert is_finished(world.run(charge_message()))
    assert [step for step, _ in world.payments.calls] == [*lookups, "prepare", "execute"]


def test_job_retries_later_when_payments_cannot_be_listed() -> None:
    world = world_after_restore(StripeAccount())
    world.payments.fail_next("find", ProviderFault.TIMEOUT_BEFORE)

    world.run(charge_message())

    assert world.job(KEY).status is Status.READY
    assert world.payments.intents == {}
    assert world.run_until_idle(KEY).status is Status.FINISHED
    assert world.payments.charges == ["pi_1"]


def test_receipt_needs_review_as_lookup_is_unsupported() -> None:
    world = world_after_restore(StripeAccount())
    world.add_order(status="paid", charge_id="ch_1")

    world.run({"job": "receipt.send", "v": 1, "order_id": "18452"})

    assert world.job("receipt.send:order_18452").status is Status.NEEDS_REVIEW
    assert world.mail.sent == []


def test_declined_job_fails_on_replay() -> None:
    before = InMemoryStack(deployment="dev", payments=StripeAccount(declines=True))
    before.add_order()
    assert is_failed(before.run(charge_message()))
    world = world_after_restore(before.payments)

    assert is_failed(world.run(charge_message()))
    assert world.payments.charges == []


def test_two_payments_of_one_job_need_review() -> None:
    payments = payments_charged_before()
    payments.intents["pi_2"] = replace(payments.intents["pi_1"], ref="pi_2")
    payments.charges.append("pi_2")
    world = world_after_restore(payments)

    world.run(charge_message())

    assert world.job(KEY).status is Status.NEEDS_REVIEW
    assert len(payments.charges) == 2


IN_REVIEW = {"status": Status.NEEDS_REVIEW, "due_at": None}


def add_restored_row(world: InMemoryStack, **changes: object) -> None:
    """As `oncely restore-proofs` writes it: unknown, due now, perhaps without its claim."""
    message: Any = charge_message()
    sent: Any = {"now": START, "due_at": START, "actor": "producer", "reason": "sent"}
    row = new_job(KEY, "payment.charge", message, **sent)
    restored: Any = {"deployment": "dev", "status": Status.UNKNOWN, **changes}
    world.store.jobs[KEY] = replace(row, **restored)


def test_reconciler_finds_payment_of_row_without_reference() -> None:
    world = world_after_restore(payments_charged_before())
    add_restored_row(world)

    world.reconcile(KEY)

    job = world.job(KEY)
    assert (job.status, job.provider_ref) == (Status.FINISHED, "pi_1")
    assert world.order()["status"] == "paid"


@pytest.mark.parametrize(
    ("charge_id", "status"), [("ch_1", Status.FINISHED), ("ch_by_hand", Status.NEEDS_REVIEW)]
)
def test_surviving_order_keeps_its_payment(charge_id: str, status: Status) -> None:
    world = world_after_restore(payments_charged_before())
    world.add_order(status="paid", charge_id=charge_id)
    add_restored_row(world)

    world.reconcile(KEY)

    assert world.job(KEY).status is status
    assert world.order()["charge_id"] == charge_id


def test_reconciler_saves_reference_of_prepared_payment() -> None:
    world = world_after_restore(payments_charged_before(execute=ProviderFault.REFUSED_CONNECTION))
    add_restored_row(world, fence=1)

    world.reconcile(KEY)
    assert world.job(KEY).provider_ref == "pi_1"
    assert world.run_until_idle(KEY).status is Status.FINISHED
    assert world.payments.charges == ["pi_1"]
    assert [*world.payments.intents] == ["pi_1"]


def test_declined_payment_is_closed_before_restored_row_fails() -> None:
    payments = payments_charged_before(execute=ProviderFault.REFUSED_CONNECTION)
    payments.complete("pi_1", status="declined")
    world = world_after_restore(payments)
    add_restored_row(world, fence=1)

    assert world.run_until_idle(KEY).status is Status.FAILED
    assert payments.intents["pi_1"].status == "canceled"


def test_closing_payment_is_not_charged_after_restore() -> None:
    payments = payments_charged_before(execute=ProviderFault.REFUSED_CONNECTION)
    world = world_after_restore(payments)
    closing = {"reason": "paid by hand", "code": "resolved_by_operator", "result": {}}
    add_restored_row(world, fence=1, provider_ref="pi_1", closing=closing)

    assert world.run_until_idle(KEY).status is Status.FAILED
    assert payments.charges == []
    assert payments.intents["pi_1"].status == "canceled"


def test_message_for_restored_row_waits_for_reconciler() -> None:
    world = world_after_restore(payments_charged_before())
    add_restored_row(world)
    assert awaits_resolution(world.run(charge_message()))


def test_restored_row_is_looked_up_after_replay_window() -> None:
    world = world_after_restore(payments_charged_before())
    add_restored_row(world)
    world.clock.advance(days=400)

    world.reconcile(KEY)

    assert world.job(KEY).status is Status.FINISHED


REPLAYS_OPEN = TableOpen(deployment="dev", replays_until=START + timedelta(days=18))


@pytest.mark.parametrize(
    ("safety", "stop"), [(RetrySafety.KEYED, True), (RetrySafety.NATURAL, False)]
)
def test_unsupported_lookup_retries_only_natural_effects(
    safety: RetrySafety, *, stop: bool
) -> None:
    contract = make_errand(safety, asks=lambda _: LookupUnsupported())
    found = lookup_effect(make_job(created_at=START), contract, REPLAYS_OPEN)
    assert isinstance(found.outcome, LookupUnsupported) is not stop


def repair_job(world: InMemoryStack, repair: Repair) -> RepairOutcome:
    version = world.job(KEY).version
    request = RepairRequest(key=KEY, repair=repair, version=version, reason="lost", actor="ada")
    return world.repairer().repair(request)


def test_lookup_of_row_without_its_claim_searches_in_our_deployment() -> None:
    world = world_after_restore(payments_charged_before())
    add_restored_row(world, fence=1, deployment=None, **IN_REVIEW)
    table = TableOpen(deployment="dev", replays_until=world.clock.now() + timedelta(days=18))
    row = world.job(KEY)
    job = world.registry.parse_row(row).with_tools(world.tools, "stripe")

    found = lookup_effect(row, job, table)

    assert isinstance(found.outcome, Succeeded)
    assert found.restored_fields["deployment"] == "dev"


@pytest.mark.parametrize("is_blocked", [False, True], ids=["restored", "blocked"])
def test_verdict_lookup_finds_payment_whose_reference_was_lost(*, is_blocked: bool) -> None:
    """Without a search, support would read that nothing was charged."""
    world = world_after_restore(payments_charged_before())
    add_restored_row(world, fence=1, **IN_REVIEW)
    if is_blocked:
        world.guard = FakeTableGuard(TableBlocked("the table was restored"))
    answer = str(world.app().provider_queries.look_up(KEY))
    assert answer == "Stripe lookup: succeeded, charged 12.50 EUR as ch_1"


@pytest.mark.parametrize("repair", [Repair.REOPEN, Repair.MARK_FAILED])
def test_repair_saves_lost_reference_first(repair: Repair) -> None:
    world = world_after_restore(payments_charged_before())
    add_restored_row(world, fence=1, deployment=None, **IN_REVIEW)

    first = repair_job(world, repair)
    job = world.job(KEY)

    assert isinstance(first, Repaired)
    assert "pi_1 was found" in str(first.details)
    assert (job.status, job.provider_ref) == (Status.NEEDS_REVIEW, "pi_1")
    refused = NotAllowed if repair is Repair.REOPEN else Contradicted
    assert isinstance(repair_job(world, repair), refused), "it was charged"


def test_repair_applies_when_job_never_reached_provider() -> None:
    world = world_after_restore(StripeAccount())
    add_restored_row(world, fence=1, **IN_REVIEW)
    assert isinstance(repair_job(world, Repair.MARK_FAILED), Repaired)
    assert world.job(KEY).status is Status.FAILED


def test_repair_changes_nothing_when_provider_is_unreachable() -> None:
    world = world_after_restore(payments_charged_before())
    add_restored_row(world, fence=1, **IN_REVIEW)
    world.payments.fail_next("find", ProviderFault.TIMEOUT_BEFORE)

    assert isinstance(repair_job(world, Repair.MARK_FAILED), ProviderUnavailable)
    assert world.job(KEY).status is Status.NEEDS_REVIEW


@pytest.mark.parametrize("same_run", [True, False], ids=["same run", "earlier run"])
def test_proof_on_the_row_survives_a_newer_history_line(*, same_run: bool) -> None:
    """The history holds no events. A tag has no time, so a later run could match it."""
    proof = EventRecord(
        at=NOW, provider="Amazon SES", name="Send", mark=EventMark.PROOF, fence=1, ref="ses_1"
    )
    row = make_job(status=Status.STARTED, version=2, fence=1, provider_events=(proof,))
    created_at = NOW if same_run else NOW + timedelta(days=1)
    after = replace(row, status=Status.UNKNOWN, version=3, created_at=created_at)
    line = history_line(row, after, generation="T1", at=NOW)

    restored = restore_row(replace(row, created_at=NOW), line, deployment="dev", now=NOW)

    assert restored is not None
    assert restored.status is Status.UNKNOWN
    assert restored.proofs == ((proof,) if same_run else ())
