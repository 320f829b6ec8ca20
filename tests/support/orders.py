"""An order that can be charged, as the shop's own table holds it."""


def order_row(**changes: object) -> dict[str, object]:
    return {
        "customer_id": "customer_7",
        "amount": 1250,
        "currency": "eur",
        "payment_customer": "cus_7",
        "payment_method": "pm_card_visa",
        "receipt_email": "seven@example.com",
        "status": "payment_pending",
        "charge_requested_at": "2026-11-16T02:59:00Z",
        "charge_shard": "7",
        **changes,
    }
