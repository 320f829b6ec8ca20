"""The kinds of violations that a customer or an accountant would notice."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from oncely.providers.stripe.sandbox.api import StripeSandbox
from oncely.testing.base_simulation import BaseSimulation


class ViolationKind(StrEnum):
    DOUBLE_CHARGE = "charged twice"
    NOT_PAID = "charged, and the order is not paid"
    FAILED = "charged, and the order is marked as failed"
    NO_CHARGE = "marked as paid without a charge"
    INCONSISTENT_REPLY = "a repeat gets another result"
    LOST = "given up without an alert"


def charge_ids(ground: BaseSimulation) -> list[str]:
    """The charges that moved money."""
    model: StripeSandbox = ground.providers["stripe"]
    return [one.charge_id for one in model.ledger.charges]


def find_violations(
    ground: BaseSimulation, answers: Sequence[Mapping[str, Any]], *, escalated: bool, lost: bool
) -> Iterator[ViolationKind]:
    """The violations at the end of a schedule. An order with an alert is not lost."""
    (order,) = (row for table, row in ground.rows.all() if table == "orders")
    charges = charge_ids(ground)
    status = order["status"]
    if len(charges) > 1:
        yield ViolationKind.DOUBLE_CHARGE
    if charges and status == "payment_pending" and not escalated:
        yield ViolationKind.NOT_PAID
    if charges and status == "payment_failed" and not escalated:
        yield ViolationKind.FAILED
    if status == "paid" and order.get("charge_id") not in charges:
        yield ViolationKind.NO_CHARGE
    if any(answer != answers[0] for answer in answers):
        yield ViolationKind.INCONSISTENT_REPLY
    if lost and not charges and not escalated:
        yield ViolationKind.LOST
