"""Rows of the shop's own tables: an order that can be charged, and a request to refund it."""


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


def refund_request(**changes: object) -> dict[str, object]:
    return {
        "amount": 1250,
        "currency": "eur",
        "requested_by": "agent_3",
        "requested_at": "2026-11-01T09:00:00Z",
        **changes,
    }
