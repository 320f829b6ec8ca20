"""The order row and messages about it: the statuses of its payment, and types of fields."""

from typing import Annotated, Final

from pydantic import AfterValidator, Field

from oncely import BusinessWrite, InvalidInputError, JobRow, Money

PAID: Final = "paid"
PAYMENT_FAILED: Final = "payment_failed"
PAYMENT_PENDING: Final = "payment_pending"
PAYMENT_PROCESSING: Final = "payment_processing"  # some payment methods take days
UNPAID: Final = (PAYMENT_PENDING, PAYMENT_PROCESSING, PAYMENT_FAILED)

Amount = Annotated[int, Field(gt=0, description="in minor units: 1250 is 12.50")]
Currency = Annotated[
    str,
    Field(pattern=r"^[A-Za-z]{3}$", description="three letters, such as eur"),
    AfterValidator(str.lower),
]


def amount_label(job: JobRow) -> str:
    """Return the amount of a job for a support agent."""
    # From the claim or, if it is missing there, from the provider's response.
    result = job.result or {}
    amount, currency = job.amount or result.get("amount"), job.currency or result.get("currency")
    try:
        return str(Money.parse(amount, currency))
    except InvalidInputError:
        return "the order's amount"


def withdraw_request(order_id: str) -> BusinessWrite:
    """Withdraw the request to charge an order."""
    key = {"order_id": order_id}
    return BusinessWrite(table="orders", key=key, set={}, remove=("charge_requested_at",))
