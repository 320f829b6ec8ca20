"""A few orders and contacts to try things with, on a stack that was just started."""

from typing import Final

from oncely_local.stack import LocalStack
from oncely_local.table_writes import put_rows
from oncely_local.workload import DECLINED, PAID

FIRST_ORDER: Final = 1001
DECLINED_ORDER: Final = 1013
_ORDERS: Final = 20
_CONTACTS: Final = 5


def write_sample_data(stack: LocalStack) -> None:
    """Orders wait for their payment, and the CRM has some contacts."""
    orders = (
        {
            "order_id": str(number),
            "customer_id": f"customer_{number}",
            "amount": 4900,
            "currency": "eur",
            "payment_customer": f"cus_{number}",
            "payment_method": DECLINED if number == DECLINED_ORDER else PAID,
            "receipt_email": f"order-{number}@example.com",
            "status": "payment_pending",
        }
        for number in range(FIRST_ORDER, FIRST_ORDER + _ORDERS)
    )
    put_rows(stack, "OrdersTableName", orders)
    stack.sandbox.hubspot.add_contacts(_CONTACTS)
