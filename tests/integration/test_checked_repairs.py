"""Repairs ask Stripe's API with a key that can only read."""

from oncely.core.lifecycle import Status
from oncely.core.repairs import Repair
from oncely.operate.repair_request import Contradicted, Repaired
from oncely.providers.stripe.payments import StripePayments
from oncely.providers.stripe.sandbox.api import READ_ONLY_KEY
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.repairs import KEY, repair_job
from tests.support.shipped_sandbox import ShippedSandbox

CONFIRM = "/v1/payment_intents/*/confirm"


def world_in_review(sandbox: ShippedSandbox, fault: str) -> InMemoryStack:
    """The confirmation got no answer, and neither did any lookup for a day."""
    world = InMemoryStack()
    world.payments = StripePayments.from_api_key("sk_test_1", api_base=sandbox.url)
    world.add_order()
    sandbox.faults.add(fault, path=CONFIRM)
    sandbox.faults.add("outage", method="GET", path="/v1/payment_intents/*")
    world.run(charge_message())
    world.clock.advance(hours=25)
    sandbox.faults.add("outage", method="GET", path="/v1/payment_intents")
    world.reconcile(KEY)
    assert world.job(KEY).status is Status.NEEDS_REVIEW
    world.payments = StripePayments.from_api_key(READ_ONLY_KEY, api_base=sandbox.url)
    return world


def test_read_only_key_is_enough_to_check_payment(sandbox: ShippedSandbox) -> None:
    world = world_in_review(sandbox, "accept_then_drop")
    ref = str(world.job(KEY).provider_ref)

    invented = repair_job(world, Repair.MARK_FINISHED, reference="pi_invented")
    failed = repair_job(world, Repair.MARK_FAILED)
    done = repair_job(world, Repair.MARK_FINISHED, reference=ref)

    assert isinstance(invented, Contradicted)
    assert f"or {ref}: check which one you saw" in invented.reason
    assert isinstance(failed, Contradicted)
    assert f"{ref} has taken the money" in failed.reason
    assert isinstance(done, Repaired)
    assert (world.job(KEY).result or {})["payment_intent"] == ref
    assert world.order()["status"] == "paid"


def test_read_only_key_does_not_close_payment(sandbox: ShippedSandbox) -> None:
    world = world_in_review(sandbox, "drop_before")
    ref = str(world.job(KEY).provider_ref)

    finished = repair_job(world, Repair.MARK_FINISHED, reference=ref)
    failed = repair_job(world, Repair.MARK_FAILED)

    assert isinstance(finished, Contradicted)
    assert finished.lookup.outcome == "not done"
    assert isinstance(failed, Repaired), "a worker closes it"
    assert world.job(KEY).status is Status.READY
