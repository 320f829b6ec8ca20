"""Two deployments on one provider account: neither ever replays the other's payment."""

from dataclasses import replace
from typing import Any

import pytest

from oncely.core.keys import MAX_KEY_LENGTH, JobKey, idempotency_key
from oncely.core.lifecycle import Status
from oncely.core.money import Money
from oncely.core.outcomes import NeedsReview
from oncely.providers.interfaces import CrmRecord, Payment
from tests.support.crm import InProcessCrm
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_finished
from tests.support.provider_fault import ProviderFault
from tests.support.stripe_account import StripeAccount, StripeIntent
from tests.unit.test_sync_push import RECORD, push_message, put_record, record_row
from tests.unit.test_sync_push import key as push_key

KEY = JobKey("payment.charge:order_18452")


def make_world(identity: str, payments: StripeAccount, **order: Any) -> InMemoryStack:  # noqa: ANN401  # columns
    world = InMemoryStack(payments=payments, deployment=identity)
    world.add_order(**order)
    return world


def test_order_is_charged_once_in_each_deployment() -> None:
    payments = StripeAccount()
    staging, dev = make_world("staging", payments), make_world("dev", payments)

    outcomes = [staging.run(charge_message()), dev.run(charge_message())]

    assert all(is_finished(outcome) for outcome in outcomes)
    assert payments.charges == ["pi_1", "pi_2"]
    assert staging.order()["charge_id"] != dev.order()["charge_id"]


def test_idempotency_keys_and_payments_carry_deployment() -> None:
    world = make_world("dev", StripeAccount())

    world.run(charge_message())

    prepared, executed = world.payments.calls
    assert prepared == ("prepare", f"dev:{KEY}:create:1")
    assert executed == ("execute", f"dev:{KEY}:confirm:1")
    assert world.payments.intents["pi_1"].payment.deployment == "dev"
    assert world.job(KEY).deployment == "dev"


def test_row_keeps_deployment_of_first_claim() -> None:
    world = make_world("dev", StripeAccount())
    world.payments.fail_next("execute", ProviderFault.TIMEOUT_BEFORE)
    world.run(charge_message())

    job = world.run_until_idle(KEY)

    assert (job.status, job.deployment) == (Status.FINISHED, "dev")
    assert world.payments.calls[-1] == ("execute", f"dev:{KEY}:confirm:2")


def copy_world(world: InMemoryStack) -> InMemoryStack:
    copy = make_world("copy", world.payments)
    copy.store.jobs[KEY] = world.job(KEY)
    copy.clock.time = world.clock.time
    return copy


@pytest.mark.parametrize("step", ["prepare", "execute"])
def test_row_of_other_deployment_needs_review(step: str) -> None:
    """Otherwise both would replay one payment: one charge, and two orders marked paid."""
    world = make_world("dev", StripeAccount())
    world.payments.fail_next(step, ProviderFault.REFUSED_CONNECTION)
    world.run(charge_message())
    copy = copy_world(world)

    assert is_finished(world.run(charge_message()))
    outcome = copy.run(charge_message())

    assert isinstance(outcome, NeedsReview)
    assert "another deployment" in outcome.reason
    assert copy.order()["status"] == "payment_pending"
    assert copy.job(KEY).deployment == "dev"
    assert world.payments.charges == ["pi_1"]


def test_open_send_of_other_deployment_is_not_resent() -> None:
    world = make_world("dev", StripeAccount())
    world.payments.fail_next("prepare", ProviderFault.REFUSED_CONNECTION)
    world.run(charge_message())
    sent = replace(world.job(KEY), first_sent_at=world.clock.now(), key_scope="test")
    world.store.jobs[KEY] = sent
    copy = copy_world(world)
    copy.clock.advance(minutes=1)

    assert isinstance(copy.run(charge_message()), NeedsReview)
    assert world.payments.charges == []


def test_reconciler_escalates_row_of_other_deployment() -> None:
    world = make_world("dev", StripeAccount())
    world.payments.fail_next("execute", ProviderFault.TIMEOUT_AFTER)
    world.run(charge_message())
    copy = copy_world(world)

    job = copy.run_until_idle(KEY)

    assert job.status is Status.NEEDS_REVIEW
    assert "another deployment" in (job.last_error or "")
    assert copy.order()["status"] == "payment_pending"
    assert copy.alerts.sent


def test_payment_of_other_deployment_is_not_canceled() -> None:
    world = make_world("dev", StripeAccount(declines=True))
    world.payments.fail_next("close", ProviderFault.REFUSED_CONNECTION)
    world.run(charge_message())

    assert isinstance(copy_world(world).run(charge_message()), NeedsReview)
    assert world.payments.intents["pi_1"].status == "declined"


def test_unclaimed_row_of_other_deployment_needs_review() -> None:
    world = make_world("dev", StripeAccount())
    world.enqueuer().enqueue(charge_message())
    world.store.jobs[KEY] = replace(world.job(KEY), deployment="staging")

    assert isinstance(world.run(charge_message()), NeedsReview)
    assert world.payments.calls == []


REFUND_KEY = JobKey("payment.refund:order_18452:rma_1")
RESERVED = {"reservations": 1, f"state:{REFUND_KEY}": "reserved", f"amount:{REFUND_KEY}": 500}


@pytest.mark.parametrize(
    ("ledger", "ref"),
    [
        pytest.param({}, None, id="orders were copied"),
        pytest.param(RESERVED, None, id="orders and refunds were copied"),
        pytest.param(RESERVED, "re_forged", id="and its row was forged"),
    ],
)
def test_charge_of_other_deployment_is_not_refunded(
    ledger: dict[str, Any], ref: str | None
) -> None:
    """Otherwise each deployment would refund one and the same charge."""
    dev = make_world("dev", StripeAccount())
    dev.run(charge_message())
    copy = make_world("copy", dev.payments, **dev.order())
    copy.rows.put("refunds", {"charge_id": "ch_1"}, ledger)
    copy.enqueuer().enqueue(copy.request_refund(amount=500))
    copy.store.jobs[REFUND_KEY] = replace(copy.job(REFUND_KEY), provider_ref=ref)

    assert is_finished(dev.run(dev.request_refund(amount=500)))
    assert isinstance(copy.run(copy.request_refund(amount=500)), NeedsReview)

    assert [one.metadata["deployment"] for one in dev.payments.refunds.values()] == ["dev"]


def test_charge_made_before_oncely_is_refunded() -> None:
    world = make_world("dev", StripeAccount(), status="paid", charge_id="ch_1")
    payment = Payment(
        money=Money(1250, "eur"), customer="cus_7", method="pm_1", job_key=KEY, order_id="18452"
    )
    world.payments.intents["pi_1"] = StripeIntent("pi_1", payment, "succeeded")

    assert is_finished(world.run(world.request_refund(amount=500)))


@pytest.mark.parametrize("identity", ["dev", "x" * 16])
def test_longest_job_key_fits_stripe_key_limit(identity: str) -> None:
    key = idempotency_key(JobKey("k" * MAX_KEY_LENGTH), "confirm", 999, deployment=identity)
    assert key.startswith(f"{identity}:")
    assert len(key) <= 255


@pytest.mark.parametrize("fault", [ProviderFault.TIMEOUT_BEFORE, ProviderFault.TIMEOUT_AFTER])
def test_deployments_with_own_id_properties_read_own_versions_only(fault: ProviderFault) -> None:
    """Otherwise the one at version 1 believes the other's version 7, and never pushes its own."""
    dev_crm, staging_crm = InProcessCrm(), InProcessCrm(id_property="staging_id")
    dev_crm.rules.unique_properties = ("email", "oncely_id", "staging_id")
    staging_crm.sandbox, staging_crm.model = dev_crm.sandbox, dev_crm.model
    dev, staging = InMemoryStack(crm=dev_crm), InMemoryStack(crm=staging_crm)
    properties = {"email": "grace@example.com"}
    put_record(dev, {"version": 7, "record": {"properties": {**properties, "phone": "7"}}})
    put_record(staging, {"version": 1, "record": {"properties": {**properties, "phone": "1"}}})

    assert is_finished(dev.run(push_message(7)))
    (contact_id,) = dev_crm.contacts
    put_record(staging, {**record_row(staging), "crm_id": contact_id})
    staging_crm.fail_next("upsert_contact", fault)
    staging.run(push_message(1))
    staging.reconcile(push_key(1))
    job = staging.run_until_idle(push_key(1))

    assert (job.status, (job.result or {}).get("superseded_by")) == (Status.FINISHED, None)
    (contact,) = dev_crm.model.ledger.contacts
    assert contact.properties == {
        **properties,
        "phone": "1",
        "oncely_id": RECORD,
        "oncely_version": "7",
        "staging_id": RECORD,
        "oncely_version_staging_id": "1",
    }
    found = dev_crm.client.find_by_external_id(RECORD)
    assert isinstance(found, CrmRecord)
    assert found.version == 7
