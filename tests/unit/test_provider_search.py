"""Search by provider ids, a customer's email or the CRM's id, and clear notes for the rest."""

import pytest

from oncely.operate.job_queries import SearchResults
from tests.support.audited_shop import AuditedShop
from tests.support.cli import FakeStackConnection, run_cli
from tests.support.in_memory_stack import InMemoryStack
from tests.support.provider_fault import ProviderFault


@pytest.fixture
def shop() -> AuditedShop:
    shop = AuditedShop()
    shop.stripe.model.set_email("cus_7", "seven@example.com")
    return shop


def search(shop: AuditedShop, text: str) -> SearchResults:
    return shop.world.app().provider_queries.search(text)


@pytest.mark.parametrize("text", ["pi_1", "ch_1", "re_1", "dp_1", "cus_7", " pi_1 "])
def test_id_of_provider_leads_to_the_job(shop: AuditedShop, text: str) -> None:
    ref = shop.charge("18452")
    shop.stripe.model.refund(ref)
    shop.stripe.model.dispute(ref)

    (view,) = search(shop, text).jobs

    assert (view.job.job_key, view.matched_by) == ("payment.charge:order_18452", "Stripe")


def test_email_leads_to_all_jobs_of_the_customer(shop: AuditedShop) -> None:
    shop.charge("1")
    shop.charge("2")
    assert len(search(shop, "seven@example.com").jobs) == 2


@pytest.mark.parametrize("deployment", [None, "staging"])
def test_payment_of_another_stack_is_not_shown_and_says_so(
    shop: AuditedShop, deployment: str | None
) -> None:
    ref = shop.plant(shop.charge("1"), deployment=deployment)
    shop.world.other_payments = {}

    found = search(shop, ref)

    assert (found.jobs, found.notes) == (
        (),
        ("Stripe knows it, but it is not a payment of this stack.",),
    )


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("pi_404", "Stripe does not know it."),
        ("no such thing", "it is not an id or email that a payment provider knows."),
    ],
)
def test_what_cannot_be_resolved_says_so(shop: AuditedShop, text: str, note: str) -> None:
    shop.world.other_payments = {}
    assert search(shop, text).notes[0].endswith(note)
    result = run_cli("find", text, connection=FakeStackConnection(shop.world))
    assert result.exit_code == 1
    assert note in result.stderr


def test_provider_that_does_not_answer_says_so(shop: AuditedShop) -> None:
    shop.stripe.fail_next("list", ProviderFault.TIMEOUT_BEFORE)
    (note,) = (one for one in search(shop, "pi_1").notes if "Stripe" in one)
    assert note.startswith("Stripe could not be asked: reading pi_1 failed")


def test_command_finds_job_by_charge_id(shop: AuditedShop) -> None:
    shop.charge("18452")
    result = run_cli("find", "ch_1", connection=FakeStackConnection(shop.world))
    assert result.exit_code == 0
    assert "payment.charge:order_18452" in result.stdout


def test_id_of_the_crm_leads_to_the_jobs_of_its_record() -> None:
    world = InMemoryStack()
    message = {"job": "sync.contact", "v": 1, "source": "hubspot", "source_id": "4419"}
    world.run({**message, "event_id": "evt-1"})

    (view,) = world.inspector().search("4419").jobs

    assert view.matched_by == "HubSpot id"
