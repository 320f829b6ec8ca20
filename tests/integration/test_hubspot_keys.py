"""HubSpot checks an API key: one authenticated request that changes nothing."""

import pytest

from oncely.cli.stack_connection import StackConnection, StackSelector
from oncely.plugins.provider import ApiKeyCheck
from oncely.providers.hubspot import HUBSPOT
from oncely.providers.hubspot.paths import CONTACTS
from oncely.providers.hubspot.plugin import HubSpotSettings
from oncely.providers.stripe import STRIPE
from oncely.testing.sandbox import FaultKind
from oncely_local.engine import free_port
from tests.support.shipped_sandbox import ShippedSandbox


def check(key: str, api_base: str) -> ApiKeyCheck:
    found = HUBSPOT.check_api_key(key, HubSpotSettings(api_base=api_base))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("key", "accepted"),
    [("pat-test-1", True), ("pat-test-read", True), ("gP4x-random", False), ("", False)],
)
def test_api_key_check_is_one_read(sandbox: ShippedSandbox, key: str, *, accepted: bool) -> None:
    assert check(key, sandbox.url).accepted is accepted
    assert sandbox.ledger.paths == {f"GET {CONTACTS}": 1}


@pytest.mark.parametrize("key", ["pat-\ntest", "pat-test-é", "pat-test-1\r\nx: y"])
def test_malformed_api_key_is_rejected_without_request(sandbox: ShippedSandbox, key: str) -> None:
    answer = check(key, sandbox.url)
    assert answer.accepted is False
    assert key not in answer.reason
    assert sandbox.ledger.requests == ()


def test_api_key_is_accepted_when_daily_limit_is_spent(sandbox: ShippedSandbox) -> None:
    sandbox.hubspot.rules.is_daily_limit_reached = True
    assert check("pat-test-1", sandbox.url).accepted is True


@pytest.mark.parametrize("fault", [FaultKind.OUTAGE, FaultKind.DROP_BEFORE, FaultKind.GARBLED])
def test_failed_api_key_check_is_inconclusive(sandbox: ShippedSandbox, fault: FaultKind) -> None:
    sandbox.faults.add(fault)
    assert check("pat-test-1", sandbox.url).accepted is None


def test_api_key_check_is_inconclusive_when_unreachable() -> None:
    answer = check("pat-test-1", f"http://127.0.0.1:{free_port()}")
    assert answer.accepted is None
    assert "pat-test-1" not in answer.reason


def test_api_key_is_checked_at_hubspot_of_stack(
    sandbox: ShippedSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = StackConnection(StackSelector())
    monkeypatch.setattr(StackConnection, "outputs", {"HubspotApiBase": sandbox.url})

    asked = place.check_api_key(HUBSPOT, "pat-test-1")
    assert asked is not None
    assert asked.accepted is True
    assert place.check_api_key(STRIPE, "sk_test_1") is None
