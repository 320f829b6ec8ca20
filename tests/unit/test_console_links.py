"""Links to the consoles of providers and of AWS, built from checked parts."""

import json

import pytest

from oncely.contracts.settings import Settings
from oncely.core.keys import JobKey
from oncely.jobs.payment_refund import PaymentRefund
from oncely.jobs.sync_push import SyncPush
from oncely.operate.audit_book import AuditBook
from oncely.operate.console_links import ConsoleLinks
from oncely.providers.hubspot import HUBSPOT
from oncely.providers.hubspot.plugin import HubSpotSettings
from oncely.providers.stripe import STRIPE
from tests.support.audited_shop import PERIOD, AuditedShop, plant_dispute
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.unit.samples import make_job
from tests.unit.test_access_log import Page

KEY = JobKey("payment.charge:order_18452")
LINKS = ConsoleLinks()
TEST = "stripe:test:abc"
DASHBOARD = "https://dashboard.stripe.com"


@pytest.mark.parametrize(
    ("reference", "scope", "url"),
    [
        ("pi_1", TEST, f"{DASHBOARD}/test/payments/pi_1"),
        ("pi_1", "stripe:live:abc", f"{DASHBOARD}/payments/pi_1"),
        ("ch_1", TEST, f"{DASHBOARD}/test/payments/ch_1"),
        ("py_1", TEST, f"{DASHBOARD}/test/payments/py_1"),
        ("re_1", TEST, f"{DASHBOARD}/test/refunds/re_1"),
        ("pyr_1", TEST, f"{DASHBOARD}/test/refunds/pyr_1"),
        ("dp_1", TEST, f"{DASHBOARD}/test/disputes/dp_1"),
        ("du_1", TEST, f"{DASHBOARD}/test/disputes/du_1"),
        ("cus_1", "", f"{DASHBOARD}/customers/cus_1"),
        ("req_1", TEST, None),
        ("pi_1/../../x", TEST, None),
        ("javascript:alert(1)", TEST, None),
    ],
)
def test_every_id_of_stripe_has_its_page(reference: str, scope: str, url: str | None) -> None:
    assert LINKS.of_plugin(STRIPE, reference, key_scope=scope) == url


def test_contact_needs_the_id_of_the_account() -> None:
    known = ConsoleLinks(settings={"hubspot": HubSpotSettings(portal_id="42")})
    assert LINKS.of_plugin(HUBSPOT, "7001", key_scope="") is None
    assert known.of_plugin(HUBSPOT, "../7001", key_scope="") is None
    url = "https://app.hubspot.com/contacts/42/record/0-1/7001"
    assert known.of_plugin(HUBSPOT, "7001", key_scope="") == url
    job = make_job(job_type="sync.push", provider_ref="7001")
    assert [link.url for link in known.of_job(job, SyncPush)] == [url]
    with pytest.raises(ValueError, match="portal_id"):
        HubSpotSettings(portal_id="42/x")


def test_refund_links_to_itself_and_to_its_charge() -> None:
    result = {"refund": "re_1", "charge_id": "ch_1", "request_id": "req_1"}
    job = make_job(job_type="payment.refund", provider_ref="re_1", result=result, key_scope=TEST)
    found = LINKS.of_job(job, PaymentRefund)
    assert [(one.provider, one.reference) for one in found] == [
        ("Stripe", "re_1"),
        ("Stripe", "ch_1"),
    ]


@pytest.mark.parametrize(
    ("changes", "has_link"),
    [
        ({}, True),
        ({"aws_region": None}, False),
        ({"aws_region": "cn-north-1"}, False),
        ({"aws_endpoint_url": "http://127.0.0.1:4566"}, False),
    ],
)
def test_row_has_a_link_in_aws_only(changes: dict[str, str | None], *, has_link: bool) -> None:
    settings = Settings.model_validate(
        {"aws_region": "eu-central-1", "jobs_table": "Jobs-1", **changes}
    )
    url = ConsoleLinks.from_settings(settings).of_row("payment.charge:order_1&table=x")
    assert (url is not None) == has_link
    assert url is None or url.startswith(
        "https://eu-central-1.console.aws.amazon.com/dynamodbv2/home?region=eu-central-1#edit-item?"
    )
    assert url is None or url.endswith(
        "pk=payment.charge%3Aorder_1%26table%3Dx&route=ROUTE_ITEM_EXPLORER&sk=&table=Jobs-1"
    )


def test_only_operators_see_names_of_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    world = InMemoryStack()
    world.add_order()
    world.run(charge_message())
    page = Page(world, monkeypatch)
    links = ConsoleLinks(region="eu-central-1", jobs_table="Jobs-1")
    monkeypatch.setitem(vars(page.app.job_queries), "links", links)

    operator, support = (
        json.loads(page.call("GET /api/job", groups, key=KEY)["body"])
        for groups in ("[operator]", "[support]")
    )

    assert "Jobs-1" in operator["row_url"]
    assert "Jobs-1" not in str(support)


def test_difference_links_to_what_the_provider_lists() -> None:
    shop = AuditedShop()
    plant_dispute(shop, "1", "stripe")
    with AuditBook(":memory:", PERIOD) as book:
        result = shop.auditor.run(book)
        (line, *_) = shop.auditor.report_lines(book, result)
    urls = line["provider_urls"]
    assert isinstance(urls, dict)
    assert [str(url).partition(".com/")[2].split("/")[-2] for url in urls.values()] == ["disputes"]
