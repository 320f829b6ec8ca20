"""The admin page on the deployed stack: search, lists, jobs and accessibility."""

import re
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.admin_browser import AdminBrowser
from tests.e2e.admin_jobs import HOSTILE, hostile_job
from tests.e2e.deployed_stack import StackClient, wait_for
from tests.e2e.scenarios import charge_message
from tests.e2e.unresolved_jobs import create_unresolved_job

PAID = "payment.charge:order_18452"


@pytest.mark.usefixtures("reference")
def test_order_and_customer_find_jobs_below_a_verdict(admin_browser: AdminBrowser) -> None:
    for text, way in {
        "18452": "order",
        "order_18452": "order",
        "customer_18452": "customer",
    }.items():
        admin_browser.search(text)
        expect(admin_browser.entries.filter(has_text=PAID)).to_contain_text(f"found by {way}")
        verdict = admin_browser.page.locator(".verdict").first
        expect(verdict).to_contain_text("Order 18452: ")
        # Another test may have asked for a refund whose outcome is not known yet.
        expect(verdict).to_contain_text("charged once, 49.00 EUR on ")

    admin_browser.page.get_by_role("button", name="Look up Order 18452 at the provider").click()
    expect(admin_browser.page.locator(".answers")).to_contain_text("succeeded")
    admin_browser.entries.filter(has_text=PAID).get_by_role("link").click()
    expect(admin_browser.heading).to_contain_text("Charged once")


def test_exact_hit_opens_the_job(admin_browser: AdminBrowser, reference: str) -> None:
    for text in (reference, PAID):
        admin_browser.open_hash("#/list/needs_review")
        admin_browser.type_search(text)
        expect(admin_browser.page.locator(".key")).to_have_text(PAID)


def test_id_of_the_charge_is_resolved_at_the_provider(
    admin_browser: AdminBrowser, reference: str
) -> None:
    _, job = admin_browser.fetch_json(f"/api/job?key={quote(PAID)}")
    assert job["provider_ref"] == reference
    admin_browser.type_search(job["result"]["charge_id"])
    expect(admin_browser.page.locator(".key")).to_have_text(PAID)


def test_pages_of_rejects_and_audits_say_what_will_appear(admin_browser: AdminBrowser) -> None:
    for name, title in {"rejects": "Rejected messages", "audits": "Payment audits"}.items():
        admin_browser.open_hash(f"#/report/{name}")
        expect(admin_browser.heading).to_have_text(title)
        assert admin_browser.layout_violations() == []


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


def test_timeline_shows_durations_and_runs_and_folds_the_contract(
    admin_browser: AdminBrowser, reference: str
) -> None:
    admin_browser.open_job(PAID)

    periods = admin_browser.page.locator(".periods li")
    expect(periods.filter(has_text="started")).to_have_text(re.compile(r"started[\d.]+ (ms|s)"))
    expect(periods.last).to_have_text("finished")
    expect(admin_browser.page.locator(".timeline .run .chip")).to_have_text("run 1")
    expect(admin_browser.page.locator(".history > .meta")).to_contain_text("from start to end")
    expect(admin_browser.page.locator(".contract dl")).to_be_hidden()
    admin_browser.page.locator(".contract summary").click()
    expect(admin_browser.page.locator(".contract dl")).to_be_visible()


def test_conflicting_message_is_on_the_timeline(
    admin_browser: AdminBrowser, deployment: StackClient, reference: str
) -> None:
    deployment.send("PaymentsQueueUrl", charge_message("18452", amount=1))
    rejected = admin_browser.page.locator(".timeline .reject").first

    def is_shown() -> bool:
        admin_browser.open_job(PAID)
        return rejected.is_visible()

    wait_for(is_shown, "the conflict is on the timeline")
    expect(rejected).to_contain_text("A message was rejected")
    expect(rejected).to_contain_text("amount")


def test_job_links_to_the_consoles_and_shows_ages(
    admin_browser: AdminBrowser, reference: str
) -> None:
    admin_browser.open_job(PAID)

    links = admin_browser.page.locator(".links a")
    expect(links.first).to_have_text(f"Stripe ({reference})")
    expect(links.first).to_have_attribute(
        "href", f"https://dashboard.stripe.com/test/payments/{reference}"
    )
    expect(links.nth(1)).to_contain_text("Stripe (ch_")
    expect(admin_browser.detail("Created")).to_contain_text(re.compile(r" (CET|GMT\+1) \(.+ ago\)"))
    for text in ("None", "undefined", "null"):
        expect(admin_browser.page.locator("main")).not_to_contain_text(text, use_inner_text=True)


def test_script_in_customer_name_is_shown_as_text(
    admin_browser: AdminBrowser, deployment: StackClient
) -> None:
    key = deployment.once(hostile_job)
    admin_browser.search(HOSTILE)
    expect(admin_browser.entries).to_contain_text(HOSTILE)

    admin_browser.open_job(key)

    expect(admin_browser.detail("Customer")).to_have_text(HOSTILE)
    expect(admin_browser.detail("Last error")).to_contain_text(HOSTILE)
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
        ("#/constructor/x", "Overview"),
        ("#/overview/constructor", "Overview"),
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

    expect(visitor.page.get_by_role("alert")).to_contain_text("was not started in this tab")
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
    admin_browser.page.get_by_label("Error contains").fill("onerror")
    admin_browser.page.keyboard.press("Enter")
    expect(admin_browser.entries).to_have_count(1)
    assert admin_browser.page.url.endswith("&when=hour&error=onerror")
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
    for _ in ("Refresh", "Look up at the provider", "the first job"):
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
        "#/overview/7d",
        "#/overview/24h",
        "#/gates/all",
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
        if "24h" in view:
            operator.show_figures()
        found += [f"{view} {fault}" for fault in operator.layout_violations()]
    assert (found, operator.browser_errors) == ([], [])


def test_repair_dialog_is_accessible_in_every_state(
    operator: AdminBrowser, deployment: StackClient
) -> None:
    operator.open_job(create_unresolved_job(deployment, "page-dialog", method="pm_processing").key)
    dialog = operator.open_repair_dialog("Look up the outcome")
    found = [f"empty {fault}" for fault in operator.layout_violations()]

    dialog.get_by_role("button", name="Look up the outcome").click()
    expect(dialog.get_by_role("alert")).to_be_visible()
    found += [f"refused {fault}" for fault in operator.layout_violations()]
    dialog.get_by_label("Reason").fill("To be sure")
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
