"""Another process sets faults and reads the ledger over HTTP."""

import json
import urllib.request
from typing import Any

import pytest
import stripe

from tests.integration.stripe_sandbox.sandbox_client import CHARGE, Intents
from tests.support.shipped_sandbox import ShippedSandbox


def call(url: str, *, method: str = "GET", body: object = None) -> Any:  # noqa: ANN401 - JSON
    request = urllib.request.Request(  # noqa: S310 - the address is the sandbox's own
        url,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310 - the same
        return json.load(answer)


def test_other_process_sets_faults_and_reads_ledger(
    sandbox: ShippedSandbox, intents: Intents
) -> None:
    call(f"{sandbox.url}/_sandbox/faults", method="POST", body={"kind": "outage"})
    with pytest.raises(stripe.APIError):
        intents.create(CHARGE)
    call(f"{sandbox.url}/_sandbox/faults", method="DELETE")
    intent = intents.create(CHARGE)
    ledger = call(f"{sandbox.url}/_sandbox/ledger")

    assert [request["fault"] for request in ledger["requests"]] == ["outage", None]
    (effect,) = ledger["effects"]
    names = ("provider", "kind", "key", "reference", "amount")
    assert [effect[name] for name in names] == [
        *("stripe", "charges", "payment.charge:order_18452", intent.latest_charge, 4900)
    ]
