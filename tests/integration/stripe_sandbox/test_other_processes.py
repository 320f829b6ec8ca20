"""Another process sets faults and reads the ledger over HTTP."""

import json
import signal
import subprocess
import sys
import urllib.request
from typing import Any

import pytest
import stripe

from oncely_local.engine import REPOSITORY
from tests.integration.stripe_sandbox.sandbox_client import CHARGE


def call(url: str, *, method: str = "GET", body: object = None) -> Any:  # noqa: ANN401 - JSON
    request = urllib.request.Request(  # noqa: S310 - the address is the sandbox's own
        url,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310 - the same
        return json.load(answer)


def test_other_process_sets_faults_and_reads_ledger() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "oncely.providers.sandbox", "--port", "0"],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        intents = stripe.StripeClient(
            "sk_test_1", max_network_retries=0, base_addresses={"api": url}
        ).v1.payment_intents

        call(f"{url}/_sandbox/faults", method="POST", body={"kind": "outage"})
        with pytest.raises(stripe.APIError):
            intents.create(CHARGE)
        call(f"{url}/_sandbox/faults", method="DELETE")
        intent = intents.create({**CHARGE, "payment_method": "pm_processing"})
        completed = {"intent_id": intent.id, "succeeded": True}
        call(f"{url}/_sandbox/complete", method="POST", body=completed)
        ledger = call(f"{url}/_sandbox/ledger")
        process.send_signal(signal.SIGTERM)

    assert process.returncode == 0
    assert [request["fault"] for request in ledger["requests"]] == ["outage", None]
    assert [charge["intent_id"] for charge in ledger["charges"]] == [intent.id]
