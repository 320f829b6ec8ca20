"""HubSpot's client in a worker: configured by the environment and the secret only."""

from collections.abc import Iterator

import pytest
from moto import mock_aws

from oncely.aws.clients import AwsClients
from oncely.contracts.settings import Settings
from oncely.core.effect_outcomes import Succeeded
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.ports import Ports
from oncely.providers.hubspot import HUBSPOT
from oncely.providers.hubspot.crm import HubSpotCrm
from oncely.providers.interfaces import CrmRecord
from tests.support.shipped_sandbox import ShippedSandbox

SECRET = "oncely/hubspot"


@pytest.fixture
def clients(no_profile: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[AwsClients]:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    with mock_aws():
        made = AwsClients()
        made.secrets.create_secret(Name=SECRET, SecretString="pat-test-1")
        yield made
        made.secrets.close()


def crm(sandbox: ShippedSandbox, clients: AwsClients, **more: str) -> HubSpotCrm:
    environment = {"GATES_TABLE": "gates", "HUBSPOT_SECRET": SECRET, **more}
    environment["HUBSPOT_API_BASE"] = sandbox.url
    return Ports(Settings.from_env(environment, SHIPPED_JOBS), clients).provider(HUBSPOT)


def test_crm_reads_configured_properties(sandbox: ShippedSandbox, clients: AwsClients) -> None:
    record_id = sandbox.hubspot.contacts.add(email="seven@example.com", company="Oncely", phone="7")

    record = crm(sandbox, clients, HUBSPOT_PROPERTIES="email, company").get_contact(record_id)
    assert isinstance(record, CrmRecord)
    properties = record.body["properties"]
    assert isinstance(properties, dict)
    assert {"email", "company"} < set(properties)
    assert "phone" not in properties


def test_every_endpoint_has_same_properties(sandbox: ShippedSandbox, clients: AwsClients) -> None:
    record_id = sandbox.hubspot.contacts.add(email="seven@example.com")
    hubspot = HubSpotCrm.from_token("pat-test-1", api_base=sandbox.url)

    fetched = hubspot.get_contact(record_id)
    page = hubspot.list_contacts(after=None)
    changed = hubspot.list_changed(since=sandbox.hubspot.ledger.contacts[0].updated, after=None)

    assert isinstance(fetched, CrmRecord)
    assert page == changed
    assert getattr(page, "records", None) == (fetched,)


def test_crm_pushes_by_id_property_of_env(sandbox: ShippedSandbox, clients: AwsClients) -> None:
    hubspot = crm(sandbox, clients, HUBSPOT_ID_PROPERTY="email")
    answer = hubspot.upsert_contact("seven@example.com", {"firstname": "Grace"})
    assert isinstance(answer, Succeeded)
    (contact,) = sandbox.hubspot.ledger.contacts
    assert contact.properties == {"email": "seven@example.com", "firstname": "Grace"}


def test_crm_client_is_reused(sandbox: ShippedSandbox, clients: AwsClients) -> None:
    environment = {"GATES_TABLE": "gates", "HUBSPOT_SECRET": SECRET}
    environment["HUBSPOT_API_BASE"] = sandbox.url
    ports = Ports(Settings.from_env(environment, SHIPPED_JOBS), clients)
    assert ports.provider(HUBSPOT) is ports.provider(HUBSPOT)
