"""The HubSpot API of the sandbox, with an independent client."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from oncely.core.effect_outcomes import Prepared, Succeeded
from oncely.core.keys import IdempotencyKey, JobKey
from oncely.providers.hubspot.crm import HubSpotCrm
from oncely.providers.hubspot.paths import CONTACTS
from oncely.providers.interfaces import Email
from oncely.providers.stripe.payments import StripePayments
from tests.conformance.payment_harnesses import make_payment
from tests.support.fakes import FakeClock
from tests.support.mail import ses_mailer
from tests.support.shipped_sandbox import ShippedSandbox

ROOT = Path(__file__).parents[2]
TOKEN = {"Authorization": "Bearer pat-test-1"}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def sandbox(clock: FakeClock) -> Iterator[ShippedSandbox]:
    with ShippedSandbox(clock=clock.now) as running:
        yield running


def search(sandbox: ShippedSandbox, **wanted: object) -> requests.Response:
    document: Any = {"filterGroups": [], "sorts": [], "properties": [], "limit": 10, **wanted}
    return requests.post(f"{sandbox.url}{CONTACTS}/search", json=document, headers=TOKEN, timeout=5)


def upsert_contacts(sandbox: ShippedSandbox, *values: str) -> requests.Response:
    inputs: Any = [{"id": one, "idProperty": "oncely_id", "properties": {}} for one in values]
    url = f"{sandbox.url}{CONTACTS}/batch/upsert"
    return requests.post(url, json={"inputs": inputs}, headers=TOKEN, timeout=5)


def test_search_pages_by_offset_up_to_10_000(sandbox: ShippedSandbox) -> None:
    sandbox.hubspot.contacts.add_contacts(10_001)
    last = search(sandbox, limit=100, after="9900")
    beyond = search(sandbox, limit=100, after=last.json()["paging"]["next"]["after"])
    assert (last.json()["total"], len(last.json()["results"])) == (10_001, 100)
    assert (beyond.status_code, beyond.json()["category"]) == (400, "VALIDATION_ERROR")


def test_search_compares_numbers_and_times(sandbox: ShippedSandbox, clock: FakeClock) -> None:
    ids = sandbox.hubspot.contacts.add_contacts(11)
    clock.advance(seconds=1)
    sandbox.hubspot.contacts.update(ids[1], firstname="Grace")
    sandbox.hubspot.contacts.update(ids[9], firstname="Grace")
    later = {"operator": "GTE", "value": str(round(clock.now().timestamp() * 1000))}
    above = {"operator": "GT", "value": "1"}

    found = search(
        sandbox,
        filterGroups=[
            {
                "filters": [
                    {"propertyName": "lastmodifieddate", **later},
                    {"propertyName": "hs_object_id", **above},
                ]
            }
        ],
        sorts=[{"propertyName": "hs_object_id", "direction": "ASCENDING"}],
    )

    assert [one["id"] for one in found.json()["results"]] == ["2", "10"]


def test_upsert_distinguishes_new_from_existing_contacts(sandbox: ShippedSandbox) -> None:
    answers = [upsert_contacts(sandbox, *values) for values in ("a", "ab", "a")]
    assert [one.status_code for one in answers] == [200, 200, 200]
    assert [[new["new"] for new in one.json()["results"]] for one in answers] == [
        [True],
        [False, True],
        [False],
    ]
    assert {one.contact_id: one.writes for one in sandbox.hubspot.ledger.contacts} == {
        "1": 3,
        "2": 1,
    }


@pytest.mark.parametrize("named", [False, True])
def test_existing_contact_conflicts_by_format(sandbox: ShippedSandbox, *, named: bool) -> None:
    sandbox.hubspot.rules.reports_conflicting_property = named
    record_id = sandbox.hubspot.contacts.add(email="seven@example.com")
    other = sandbox.hubspot.contacts.add(email="eight@example.com")

    answer = requests.patch(
        f"{sandbox.url}{CONTACTS}/{other}",
        json={"properties": {"email": "seven@example.com"}},
        headers=TOKEN,
        timeout=5,
    )

    body = answer.json()
    assert answer.status_code == 409
    assert body["message"] == f"Contact already exists. Existing ID: {record_id}"
    assert body["category"] == ("OBJECT_ALREADY_EXISTS" if named else "CONFLICT")
    assert ("status" in body, "errors" in body) == (named, named)


def test_too_large_request_is_rejected(sandbox: ShippedSandbox) -> None:
    long = requests.get(f"{sandbox.url}{CONTACTS}/{'7' * 9_000}", headers=TOKEN, timeout=5)
    large = search(sandbox, properties=["x" * 3_000_000])
    assert (long.status_code, large.status_code) == (414, 413)
    assert "category" not in large.json()


def test_rate_limit_returns_retry_after(sandbox: ShippedSandbox) -> None:
    sandbox.faults.add("rate_limit")
    sandbox.faults.add("rate_limit", seconds=3)
    answers = [search(sandbox), search(sandbox)]
    assert [one.headers["Retry-After"] for one in answers] == ["10", "3"]
    assert {one.json()["category"] for one in answers} == {"RATE_LIMITS"}


def test_spent_daily_limit_names_policy_without_retry_after(sandbox: ShippedSandbox) -> None:
    sandbox.hubspot.rules.is_daily_limit_reached = True
    spent = search(sandbox)
    sandbox.hubspot.rules.is_daily_limit_reached = False

    assert (spent.status_code, spent.json()["policyName"]) == (429, "DAILY")
    assert "Retry-After" not in spent.headers
    assert search(sandbox).status_code == 200


def test_archived_contacts_are_returned_only_on_request(sandbox: ShippedSandbox) -> None:
    record_id = sandbox.hubspot.contacts.add(email="seven@example.com")
    sandbox.hubspot.contacts.archive(record_id)
    url = f"{sandbox.url}{CONTACTS}/{record_id}"

    plain = requests.get(url, headers=TOKEN, timeout=5)
    archived = requests.get(url, params={"archived": "true"}, headers=TOKEN, timeout=5)

    assert (plain.status_code, archived.status_code) == (404, 200)
    assert archived.json()["archived"] is True


def test_one_address_serves_all_providers(sandbox: ShippedSandbox) -> None:
    key = IdempotencyKey("dev:receipt.send:order_7:send:1")
    mail = Email(to="seven@example.com", subject="-", text="-")
    sandbox.hubspot.add_samples(2)
    payments = StripePayments.from_api_key("sk_test_1", api_base=sandbox.url)
    charged = payments.prepare(make_payment("pm_card_visa"), idempotency_key=key)
    crm = HubSpotCrm.from_token("pat-test-1", api_base=sandbox.url)
    pushed = crm.upsert_contact("a", {}, crm_id="2")
    mailed = ses_mailer(sandbox.url).send(
        mail, idempotency_key=key, job_key=JobKey("receipt.send:order_1"), tag="tag"
    )

    assert [type(one) for one in (charged, pushed, mailed)] == [Prepared, Succeeded, Succeeded]
    assert [(one.provider, one.kind, one.key) for one in sandbox.effects()] == [
        ("hubspot", "contacts", "a"),
        ("ses", "emails", "receipt.send:order_7"),
    ]
    assert sandbox.ledger.paths[f"PATCH {CONTACTS}/2"] == 1
