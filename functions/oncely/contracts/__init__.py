"""The job types of this deployment: one file each, and one line here."""

from typing import Final

from oncely.contract import AnyContract
from oncely.contracts.payment_charge import PaymentCharge
from oncely.contracts.receipt_send import ReceiptSend
from oncely.contracts.sync_contact import SyncContact
from oncely.contracts.sync_import import SyncImport
from oncely.contracts.sync_push import SyncPush

CONTRACTS: Final[tuple[type[AnyContract], ...]] = (
    PaymentCharge,
    ReceiptSend,
    SyncContact,
    SyncImport,
    SyncPush,
)
