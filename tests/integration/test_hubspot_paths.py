"""No id can change the path of a request to HubSpot, or its API version."""

import pytest

from oncely.core.effect_outcomes import Anomalous, Succeeded
from oncely.providers.hubspot.crm import HubSpotCrm
from oncely.providers.hubspot.paths import API_VERSION, CONTACTS
from oncely.providers.interfaces import CrmRecord, RecordNotFound
from tests.support.shipped_sandbox import ShippedSandbox

GRACE = {"firstname": "Grace"}
MINE = "shop#7"
DOTS = [".", "..", "%2e%2e", "%2E.", "../7", "a/../b", "a\\..\\b", "..%2f7", "%252e%252e", ""]
ODD_IDS = [*DOTS, "7/associations", "7?archived=true", "7#x", "7 ", "\uff17", "-7", "batch"]
ODD_IDS += ["7" * 40]


@pytest.fixture
def crm(sandbox: ShippedSandbox) -> HubSpotCrm:
    return HubSpotCrm.from_token("pat-test-1", api_base=sandbox.url)


@pytest.mark.parametrize("crm_id", ODD_IDS)
def test_odd_crm_id_is_not_sent(sandbox: ShippedSandbox, crm: HubSpotCrm, crm_id: str) -> None:
    assert crm.get_contact(crm_id) == RecordNotFound()
    assert isinstance(crm.upsert_contact(MINE, GRACE, crm_id=crm_id), Anomalous)
    assert isinstance(crm.find_by_external_id(MINE, crm_id=crm_id), Anomalous)
    assert sandbox.ledger.requests == ()


@pytest.mark.parametrize("external_id", DOTS)
def test_external_id_with_dot_segment_is_not_sent(
    sandbox: ShippedSandbox, crm: HubSpotCrm, external_id: str
) -> None:
    for crm_id in (None, "7"):
        assert isinstance(crm.upsert_contact(external_id, GRACE, crm_id=crm_id), Anomalous)
    assert isinstance(crm.find_by_external_id(external_id), Anomalous)
    assert sandbox.ledger.requests == ()


@pytest.mark.parametrize("external_id", ["a/b?x", "a#b", "a%2Fb", "...", "a..b", "x@e.org", "käse"])
def test_id_is_a_path_segment(sandbox: ShippedSandbox, crm: HubSpotCrm, external_id: str) -> None:
    pushed, found = crm.upsert_contact(external_id, GRACE), crm.find_by_external_id(external_id)

    assert isinstance(pushed, Succeeded)
    assert isinstance(found, CrmRecord)
    assert found.external_id == external_id
    (_, asked) = sandbox.ledger.requests
    assert asked.path.rpartition("/")[0] == CONTACTS


def test_every_request_uses_same_api_version(sandbox: ShippedSandbox, crm: HubSpotCrm) -> None:
    record_id = sandbox.hubspot.contacts.add(email="seven@example.com")
    crm.get_contact(record_id)
    crm.list_contacts(after=None)
    crm.list_contacts(after="0")
    crm.list_changed(since=sandbox.hubspot.ledger.contacts[0].updated, after=None)
    crm.upsert_contact(MINE, GRACE)
    crm.upsert_contact(MINE, GRACE, crm_id=record_id)
    crm.find_by_external_id(MINE)

    assert API_VERSION in CONTACTS
    assert len(sandbox.ledger.requests) == 7
    assert all(one.path.startswith(CONTACTS) for one in sandbox.ledger.requests)
