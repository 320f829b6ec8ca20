"""A declined payment is still open: the job fails only after it is closed."""

import pytest

from oncely.core.lifecycle import Event, Status
from oncely.core.outcomes import Unknown
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_duplicate, is_failed, is_finished, is_retried
from tests.support.provider_fault import ProviderFault

KEY = "payment.charge:order_18452"


@pytest.fixture
def world(world: InMemoryStack) -> InMemoryStack:
    world.payments.declines = True
    return world


@pytest.fixture
def found_declined(unknown_charge: InMemoryStack) -> InMemoryStack:
    """The response was lost, and then the reconciler found the decline."""
    assert unknown_charge.job(KEY).status is Status.UNKNOWN
    unknown_charge.reconcile(KEY)
    return unknown_charge


def test_declined_payment_is_closed_before_job_fails(world: InMemoryStack) -> None:
    outcome = world.run(charge_message())

    assert is_failed(outcome)
    assert outcome.result["code"] == "card_declined"
    assert world.payments.intents["pi_1"].status == "canceled"
    assert [step for step, _ in world.payments.calls] == ["prepare", "execute", "lookup", "close"]
    assert world.order()["status"] == "payment_failed"
    assert is_duplicate(world.run(charge_message()))


@pytest.mark.parametrize("fault", [ProviderFault.TIMEOUT_BEFORE, ProviderFault.TIMEOUT_AFTER])
def test_ambiguous_close_leaves_job_unknown(world: InMemoryStack, fault: ProviderFault) -> None:
    world.payments.fail_next("close", fault)

    assert isinstance(world.run(charge_message()), Unknown)
    assert world.order()["status"] == "payment_pending"
    assert world.run_until_idle(KEY).status is Status.FAILED
    assert world.payments.intents["pi_1"].status == "canceled"
    assert world.order()["status"] == "payment_failed"


def test_unsent_close_is_retried_by_next_run(world: InMemoryStack) -> None:
    world.payments.fail_next("close", ProviderFault.REFUSED_CONNECTION)

    outcome = world.run(charge_message())
    row = world.job(KEY)
    job = world.run_until_idle(KEY)

    assert is_retried(outcome)
    assert row.status is Status.READY
    assert row.closing
    assert job.status is Status.FAILED
    assert (job.result or {})["code"] == "card_declined"
    assert [step for step, _ in world.payments.calls].count("execute") == 1, "it only closes"
    assert job.closing is None


def test_decline_found_by_reconciler_is_closed_by_worker(found_declined: InMemoryStack) -> None:
    world = found_declined
    row = world.job(KEY)
    assert (row.status, row.evidence[-1].event) == (Status.READY, Event.REQUEUE)
    assert world.payments.intents["pi_1"].status == "declined", "the reconciler closes nothing"

    outcome = world.run(world.outbox.sent.pop())

    assert is_failed(outcome)
    assert outcome.result["code"] == "card_declined"
    assert [step for step, _ in world.payments.calls].count("execute") == 1


def test_payment_that_succeeds_after_decline_finishes_job(found_declined: InMemoryStack) -> None:
    found_declined.payments.complete("pi_1", status="succeeded")
    assert is_finished(found_declined.run(found_declined.outbox.sent.pop()))
    assert found_declined.order()["status"] == "paid"


def test_pending_payment_delays_close_until_definite(found_declined: InMemoryStack) -> None:
    world = found_declined
    world.payments.complete("pi_1", status="processing")

    assert isinstance(world.run(world.outbox.sent.pop()), Unknown)
    world.payments.complete("pi_1", status="succeeded")
    assert world.run_until_idle(KEY).status is Status.FINISHED


def test_closing_job_is_closed_after_key_scope_changes(found_declined: InMemoryStack) -> None:
    found_declined.payments.account = "another"
    assert is_failed(found_declined.run(found_declined.outbox.sent.pop()))
