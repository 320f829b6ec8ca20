"""A refund through the shipped handler: DynamoDB holds the ledger, Stripe's SDK makes the call."""

import json

from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.jobs.refund_ledger import RefundLedger, RefundState
from tests.support.in_memory_stack import charge_message
from tests.support.worker import WorkerHarness, invoke_handler


def send(rig: WorkerHarness, **message: object) -> None:
    invoke_handler(rig.deliver(json.dumps(message)))


def refund(rig: WorkerHarness, refund_id: str, amount: int) -> Status:
    send(rig, **rig.world().request_refund(refund_id, amount=amount))
    return rig.world().job(JobKey(f"payment.refund:order_18452:{refund_id}")).status


def test_refunds_are_reserved_made_and_limited(rig: WorkerHarness) -> None:
    rig.put_secret()
    rig.world().add_order()
    send(rig, **charge_message())
    sandbox = rig.sandbox
    sandbox.faults.add("accept_then_drop", method="POST", path="/v1/refunds", times=1)

    statuses = [refund(rig, *each) for each in (("rma_1", 700), ("rma_2", 500), ("rma_3", 100))]

    assert statuses == [Status.FINISHED, Status.FINISHED, Status.NEEDS_REVIEW]
    assert [one.amount for one in sandbox.stripe.ledger.refunds] == [700, 500]
    charge_id = str(rig.world().order()["charge_id"])
    row = rig.world().rows.get("refunds", {"charge_id": charge_id})
    ledger = RefundLedger.from_row(charge_id, row)
    assert list(ledger.states.values()) == [RefundState.DONE] * 2
    assert (ledger.reservations, ledger.total(RefundState.DONE)) == (2, 1200)
