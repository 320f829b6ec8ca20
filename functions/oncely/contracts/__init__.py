"""The job types of this deployment: one file each, and one line here."""

from typing import Final

from oncely.contract import AnyContract
from oncely.contracts.payment_charge import PaymentCharge

CONTRACTS: Final[tuple[type[AnyContract], ...]] = (PaymentCharge,)
