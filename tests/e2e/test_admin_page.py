"""The admin page on the deployed stack: search, lists, jobs and accessibility."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.admin_browser import AdminBrowser
from tests.e2e.admin_jobs import HOSTILE, hostile_job
from tests.e2e.deployed_stack import StackClient
from tests.e2e.scenarios import charge_message, duplicate_message
from tests.e2e.unresolved_jobs import create_unresolved_job

PAID = "payment.charge:order_18452"


@pytest.fixture(scope="module")
def reference(deployment: StackClient) -> str:
    return str(deployment.once(duplicate_message)["provider_ref"])


@pytest.fixture
def admin_browser(support: AdminBrowser) -> Iterator[AdminBrowser]:
    support.open_hash("#/list/needs_review")
    yield support
    # Among other things: whatever the content policy had to refuse.
    assert support.browser_errors == []


def test_order_customer_and_reference_find_same_job(
    admin_browser: AdminBrowser, reference: str
) -> None:
    for text, way in {
        "18452": "order",
        "order_18452": "order",
        "customer_18452": "customer",
        reference: "provider reference",
        PAID: "job key",
    }.items():
        admin_browser.search(text)
        expect(admin_browser.entries.filter(has_text=PAID)).to_contain_text(f"found by {way}")

    admin_browser.entries.filter(has_text=PAID).get_by_role("link").click()
    expect(admin_browser.heading).to_contain_text("Charged once")


def test_heading_says_customer_was_charged_once(
    admin_browser: AdminBrowser, reference: str
) -> None:
    admin_browser.open_job(PAID)

    expect(admin_browser.heading).to_contain_text("Charged once: 49.00 EUR")
    expect(admin_browser.detail("Amount")).to_have_text("49.00 EUR")
    expect(admin_browser.detail("Customer")).to_have_text("customer_18452")
    expect(admin_browser.detail("Provider reference")).to_contain_text(reference)
    expect(admin_browser.detail("Request ID")).to_contain_text("req_")
    expect(admin_browser.page.locator(".contract")).to_contain_text(
        "charged the order's amount, at most once"
    )


def test_timeline_is_in_order_and_in_local_time(
    admin_browser: AdminBrowser, reference: str
) -> None:
    admin_browser.open_job(PAID)

    timeline = admin_browser.page.locator(".timeline > li")
    expect(timeline.filter(has_text="Claimed by a worker")).to_be_visible()
    expect(timeline.filter(has_text="Confirmed by the provider")).to_contain_text(
        "started → finished"
    )
    stamps = [str(one.get_attribute("datetime")) for one in timeline.locator("> time").all()]
    assert stamps == sorted(stamps)
    first = timeline.locator("> time").first
    assert str(first.get_attribute("title")).endswith("UTC")
    local, utc = (re.search(r"(\d\d):\d\d", text) for text in (first.inner_text(), stamps[0]))
    assert local
    assert utc
    assert int(local[1]) - int(utc[1]) in {1, 2, -22, -23}  # Berlin


def test_script_in_customer_name_is_shown_as_text(
    admin_browser: AdminBrowser, deployment: StackClient
) -> None:
    key = deployment.once(hostile_job)
    admin_browser.search(HOSTILE)
    expect(admin_browser.entries).to_contain_text(HOSTILE)

    admin_browser.open_job(key)

    expect(admin_browser.detail("Customer")).to_have_text(HOSTILE)
    expect(admin_browser.detail("Last error")).to_have_text(HOSTILE)
    assert admin_browser.page.locator("main :is(img, script)").count() == 0
    assert admin_browser.page.title() == f"needs review: {key} · Oncely"


def test_empty_list_and_failed_search_say_what_to_do(admin_browser: AdminBrowser) -> None:
    admin_browser.open_hash("#/list/failed?type=sync.import")
    expect(admin_browser.page.locator("main").get_by_text("Widen them")).to_be_visible()

    admin_browser.search("no such order")
    expect(admin_browser.page.get_by_text("Check the text for typos")).to_be_visible()

    admin_browser.open_job("payment.charge:order_never")
    expect(admin_browser.heading).to_have_text("Job not found")


@pytest.mark.parametrize(
    ("place", "heading"),
    [
        ("#/list/constructor", "Needs review"),
        ("#/constructor/x", "Needs review"),
        ("#/list/failed?when=constructor", "Failed"),
    ],
)
def test_builtin_name_in_route_is_treated_as_unknown(
    admin_browser: AdminBrowser, place: str, heading: str
) -> None:
    admin_browser.open_hash(place)
    expect(admin_browser.heading).to_have_text(heading)


def test_link_cannot_inject_text_into_page(chromium: Browser, admin_browser: AdminBrowser) -> None:
    visitor = AdminBrowser(chromium, admin_browser.url)
    visitor.page.goto(f"{admin_browser.url}/?error=x&error_description=Call+0900+123&state=y")

    expect(visitor.page.get_by_role("alert")).to_contain_text("did not start that sign-in")
    expect(visitor.page.locator("body")).not_to_contain_text("0900")
    assert visitor.browser_errors == []
    visitor.context.close()


def test_filter_is_kept_in_url_across_reload(
    admin_browser: AdminBrowser, deployment: StackClient
) -> None:
    deployment.once(hostile_job)
    admin_browser.open_hash("#/list/needs_review")
    admin_browser.page.get_by_label("Job type").select_option("payment.charge")
    expect(admin_browser.entries.first).to_contain_text("payment.charge:")
    admin_browser.page.get_by_label("When").select_option("Last hour")
    admin_browser.wait_for_view()

    assert admin_browser.page.url.endswith("#/list/needs_review?type=payment.charge&when=hour")
    admin_browser.page.reload()
    expect(admin_browser.entries.first).to_contain_text("payment.charge:")
    expect(admin_browser.page.get_by_label("When")).to_have_value("hour")


def test_page_is_usable_by_keyboard_alone(admin_browser: AdminBrowser, reference: str) -> None:
    page = admin_browser.page
    page.reload()
    admin_browser.wait_for_view()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()

    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("order_18452")
    page.keyboard.press("Enter")
    expect(admin_browser.heading).to_be_focused()
    expect(page.get_by_role("status")).to_have_text(re.compile(r"\d jobs? found"))
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page).to_have_title(re.compile(r"order_18452 · Oncely"))
    expect(admin_browser.heading).to_be_focused()


def test_every_view_is_accessible_in_themes_and_sizes(
    operator: AdminBrowser, deployment: StackClient, reference: str
) -> None:
    unknown = create_unresolved_job(deployment, "page-looks")
    deployment.send("PaymentsQueueUrl", charge_message("18452"))
    views = [
        "#/list/needs_review",
        "#/list/finished?when=dates&from=2026-01-01&to=2030-01-01",
        "#/list/failed?type=sync.import",
        "#/find/18452",
        "#/find/nothing",
        f"#/job/{PAID}",
        f"#/job/{unknown.key}",
        f"#/job/{deployment.once(hostile_job)}",
        "#/job/no",
    ]
    found: list[str] = []
    for view in views:
        operator.open_hash(view)
        found += [f"{view} {fault}" for fault in operator.layout_violations()]
    assert (found, operator.browser_errors) == ([], [])


def test_repair_dialog_is_accessible_in_every_state(
    operator: AdminBrowser, deployment: StackClient
) -> None:
    operator.open_job(create_unresolved_job(deployment, "page-dialog", method="pm_processing").key)
    dialog = operator.open_repair_dialog("Look up at the provider")
    found = [f"empty {fault}" for fault in operator.layout_violations()]

    dialog.get_by_role("button", name="Look up at the provider").click()
    expect(dialog.get_by_role("alert")).to_be_visible()
    found += [f"refused {fault}" for fault in operator.layout_violations()]
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog.get_by_text("nothing was changed")).to_be_visible()
    found += [f"foretold {fault}" for fault in operator.layout_violations()]
    operator.page.keyboard.press("Escape")

    assert (found, operator.browser_errors) == ([], [])


def test_signed_out_views_are_accessible(chromium: Browser, operator: AdminBrowser) -> None:
    visitor = AdminBrowser(chromium, operator.url)
    visitor.page.goto(operator.url)
    expect(visitor.heading).to_have_text("Look up a job")
    found = [f"first {fault}" for fault in visitor.layout_violations()]

    visitor.page.goto(f"{operator.url}/?error=access_denied&state=another")
    expect(visitor.page.get_by_role("alert")).to_be_visible()
    found += [f"refused {fault}" for fault in visitor.layout_violations()]
    visitor.page.evaluate("""() => sessionStorage.setItem("oncely.tokens", '{"token": null}')""")
    visitor.page.goto(f"{operator.url}/#/list/failed")
    expect(visitor.heading).to_have_text("Your session has expired")
    found += [f"ended {fault}" for fault in visitor.layout_violations()]

    assert (found, visitor.browser_errors) == ([], [])
    visitor.context.close()
