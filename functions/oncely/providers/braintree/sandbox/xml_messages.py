"""Braintree's XML: requests to mappings, and responses from them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from xml.etree import ElementTree as ET  # reads the requests of our own tests

from oncely.providers.braintree.sandbox.ledger import RecordedTransaction
from oncely.testing.sandbox.http_messages import SandboxResponse


def parse_xml(body: bytes) -> dict[str, Any]:
    """Parse a request. Returns an empty mapping if it has no body."""
    if not body.strip():
        return {}
    root = ET.fromstring(body)  # noqa: S314  # as above
    return {root.tag: _value(root)}


def _value(node: ET.Element) -> Any:  # noqa: ANN401  # text, list or mapping
    if node.get("type") == "array":
        return [_value(inner) for inner in node]
    return {inner.tag: _value(inner) for inner in node} if len(node) else node.text or ""


def xml_response(name: str, content: object, *, status: int = 200) -> SandboxResponse:
    """Build a response with one root element."""
    root = _element(name, content)
    text = ET.tostring(root, encoding="unicode")
    return SandboxResponse(status, {}, text=text, content_type="application/xml")


def empty_response(status: int) -> SandboxResponse:
    """Build a response without a body: the SDK reads only the status of an error."""
    return SandboxResponse(status, {}, text="", content_type="application/xml")


def error_response(
    message: str, *, code: str | None = None, transaction: RecordedTransaction | None = None
) -> SandboxResponse:
    """Build the response to an invalid request or a declined transaction."""
    errors = [] if code is None else [{"code": code, "attribute": "base", "message": message}]
    content: dict[str, object] = {
        "errors": {"errors": [], "transaction": {"errors": errors}},
        "message": message,
    }
    if transaction is not None:
        content["transaction"] = transaction_content(transaction)
    return xml_response("api-error-response", content, status=422)


def transaction_content(one: RecordedTransaction) -> dict[str, object]:
    """The fields of a transaction that Oncely reads, with Braintree's names."""
    return {
        "id": one.transaction_id,
        "type": one.type,
        "amount": str(one.amount),
        "status": one.status,
        "order-id": one.order_id,
        "currency-iso-code": one.currency.upper(),
        "merchant-account-id": one.merchant_account,
        "customer": {"id": one.customer},
        "gateway-rejection-reason": one.gateway_rejection_reason,
        "processor-response-code": one.processor_code,
        "processor-response-text": one.processor_text,
        "processor-response-type": one.processor_type,
        "created-at": one.created,
        "refund-ids": list(one.refund_ids),
        "refunded-transaction-id": one.refunded_id,
        "disputes": [],
    }


def dispute_content(one: RecordedTransaction, dispute_id: str, at: datetime) -> dict[str, object]:
    """The fields of a dispute that Oncely reads, with Braintree's names."""
    return {
        "id": dispute_id,
        "amount-disputed": str(one.amount),
        "currency-iso-code": one.currency.upper(),
        "created-at": at,
        "transaction": {"id": one.transaction_id, "order-id": one.order_id},
    }


def _element(name: str, content: object) -> ET.Element:
    node = ET.Element(name)
    match content:
        case None:
            node.set("nil", "true")
        case bool() | int():
            node.set("type", "integer")
            node.text = str(content)
        case str():
            node.text = content
        case datetime():
            node.set("type", "datetime")
            node.text = f"{content:%Y-%m-%dT%H:%M:%SZ}"
        case Mapping():
            node.extend(_element(str(key), value) for key, value in content.items())
        case Sequence():
            node.set("type", "array")
            node.extend(_element("item", value) for value in content)
        case _:
            raise TypeError(f"{name} is {type(content).__name__}")
    return node
