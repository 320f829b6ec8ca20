"""Our ledger of a charge's refunds: one row for each charge, with one entry for each job.

The refund id alone is no entry: two orders may name one charge, and use the same refund id.
An entry is reserved before the refund is sent, and ends as done or failed. Reservations exclude
each other, so refunds that run at the same time never add up to more than was captured.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Self

from oncely import Anomalous, BusinessWrite, Money, NotSent, Precondition
from oncely.jobs.tables import REFUNDS
from oncely.providers.interfaces import ChargeState, Refund

_RESERVATIONS: Final = "reservations"  # how many were made so far
_STATE, _AMOUNT = "state:", "amount:"  # followed by the job key


class RefundState(StrEnum):
    """The state of a refund in the ledger. The values are stored, so never rename them."""

    RESERVED = "reserved"
    DONE = "done"
    FAILED = "failed"  # its amount can be refunded again


@dataclass(frozen=True, kw_only=True)
class RefundLedger:
    """The ledger of one charge, as it was read."""

    charge_id: str
    reservations: int = 0
    states: Mapping[str, str] = field(default_factory=dict)  # by job key
    amounts: Mapping[str, int] = field(default_factory=dict)  # by job key

    @classmethod
    def from_row(cls, charge_id: str, row: Mapping[str, object] | None) -> Self:
        """Parse a row. Without a row, nothing was refunded yet."""
        row = row or {}
        return cls(
            charge_id=charge_id,
            reservations=int(str(row.get(_RESERVATIONS, 0))),
            states={key: str(value) for key, value in _entries(row, _STATE)},
            amounts={key: int(str(value)) for key, value in _entries(row, _AMOUNT)},
        )

    def total(self, state: RefundState) -> int:
        """Return the sum of the refunds in this state."""
        return sum(self.amounts.get(key, 0) for key, one in self.states.items() if one == state)

    def objection_to(self, refund: Refund, charge: ChargeState) -> Anomalous | NotSent | None:
        """Return why this amount cannot be reserved. Returns None if it can."""
        name, captured = self.charge_id, charge.captured
        left = captured.amount - max(charge.refunded, self.total(RefundState.DONE))
        if refund.money.amount > left:
            rest = Money(left, captured.currency)
            return Anomalous(f"{refund.money} is too much: {rest} of {captured} can be refunded")
        if refund.money.amount > left - self.total(RefundState.RESERVED):
            return NotSent(f"other refunds of {name} are not decided, and may leave too little")
        return None

    def reserve(self, refund: Refund) -> BusinessWrite:
        """Reserve the amount, unless the charge's ledger changed since it was read."""
        before = Precondition(_RESERVATIONS, (self.reservations,), or_absent=not self.reservations)
        state = Precondition(_STATE + refund.job_key, (RefundState.FAILED,), or_absent=True)
        write = end_entry(refund, RefundState.RESERVED)
        return BusinessWrite(
            table=write.table,
            key=write.key,
            set={**write.set, _RESERVATIONS: self.reservations + 1},
            preconditions=(before, state),
            may_create=True,
        )


def charge_objection(refund: Refund, charge: ChargeState) -> Anomalous | None:
    """Return why nothing of this charge may be refunded by this job. Returns None if it may."""
    name, captured = refund.charge_id, charge.captured
    if charge.deployment not in {None, refund.deployment}:
        return Anomalous(f"{name} is a charge of the deployment {charge.deployment}")
    if charge.order_id not in {None, refund.order_id}:
        return Anomalous(f"{name} is the charge of order {charge.order_id}")
    if captured.currency != refund.money.currency:
        return Anomalous(f"{name} was charged in {captured.currency}, not {refund.money}")
    if charge.disputed:
        return Anomalous(f"{name} is disputed: a refund could pay the customer twice")
    return None


def end_entry(refund: Refund, state: RefundState) -> BusinessWrite:
    """Set the state of a refund's entry, if the entry has this refund's amount."""
    state_name, amount_name = _STATE + refund.job_key, _AMOUNT + refund.job_key
    return BusinessWrite(
        table=REFUNDS.name,
        key={"charge_id": refund.charge_id},
        set={state_name: state, amount_name: refund.money.amount},
        preconditions=(Precondition(amount_name, (refund.money.amount,), or_absent=True),),
        may_create=True,  # an operator may end a refund that was never reserved
    )


def _entries(row: Mapping[str, object], prefix: str) -> list[tuple[str, object]]:
    return [
        (name.removeprefix(prefix), value) for name, value in row.items() if name.startswith(prefix)
    ]
