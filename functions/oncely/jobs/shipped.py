"""The job types that this repository deploys. Each has its own file and one line here."""

from typing import Any, Final

from oncely import Job
from oncely.jobs.payment_charge import PaymentCharge
from oncely.jobs.payment_refund import PaymentRefund
from oncely.jobs.receipt_send import ReceiptSend
from oncely.jobs.sync_contact import SyncContact
from oncely.jobs.sync_import import SyncImport
from oncely.jobs.sync_push import SyncPush

SHIPPED_JOBS: Final[tuple[type[Job[Any]], ...]] = (
    PaymentCharge,
    PaymentRefund,
    ReceiptSend,
    SyncContact,
    SyncImport,
    SyncPush,
)
