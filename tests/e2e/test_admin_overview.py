"""The overview of the admin page on the deployed stack: charts, states, refresh."""

import re

import pytest
from playwright.sync_api import Browser, expect

from oncely_local.logs import LogStream
from oncely_local.metrics import MetricForwarder
from tests.e2e.admin_api import SUPPORT
from tests.e2e.admin_browser import AdminBrowser
from tests.e2e.admin_jobs import hostile_job
from tests.e2e.deployed_stack import StackClient


@pytest.mark.usefixtures("reference")
def test_overview_charts_what_the_functions_counted(
    admin_browser: AdminBrowser, deployment: StackClient
) -> None:
    forward_metrics(deployment)
    admin_browser.open_hash("#/overview/24h")

    page = admin_browser.page
    for series in ("Finished", "Duplicates"):
        chart = page.get_by_role("img", name=re.compile(f"^{series} by hour: [1-9]"))
        expect(chart.locator("rect")).not_to_have_count(0)
    expect(page.locator(".rates")).to_contain_text(re.compile(r"[1-9]\S* jobs per hour"))
    expect(page.locator(".rates")).to_contain_text(re.compile(r"\d% of messages"))
    for label in ("Needs review", "Oldest unresolved", "Failed today"):
        expect(page.get_by_label("Now").get_by_text(label)).to_be_visible()


def test_overview_shows_queues_providers_and_reviews(
    admin_browser: AdminBrowser, deployment: StackClient
) -> None:
    deployment.once(hostile_job)
    admin_browser.open_hash("#/overview/24h")

    page = admin_browser.page
    queues = page.get_by_role("region", name="Queues").get_by_role("rowheader")
    expect(queues).to_have_text(["mail", "payments", "sync", "dead letters", "rejects"])
    stripe = page.get_by_role("row").filter(has_text="Stripe")
    expect(stripe).to_contain_text(re.compile(r"Closed\s*[\d.]+/s"))
    reviews = page.get_by_role("region", name="Reviews by reason")
    charges = reviews.get_by_role("link", name="payment.charge", exact=True).first
    expect(charges).to_have_attribute("href", "#/list/needs_review?type=payment.charge")


def test_overview_has_a_table_of_its_charts_for_both_ranges(admin_browser: AdminBrowser) -> None:
    for name, hours in {"24h": 24, "7d": 168}.items():
        admin_browser.open_hash(f"#/overview/{name}")
        table = admin_browser.show_figures()
        expect(table.get_by_role("columnheader")).to_have_count(9)
        expect(table.get_by_role("rowheader")).to_have_count(hours)
        lists = admin_browser.page.get_by_role("navigation", name="Lists")
        expect(lists.locator("[aria-current]")).to_have_text("Overview")


def test_overview_refreshes_each_minute_only_while_visible(
    chromium: Browser, admin_browser: AdminBrowser
) -> None:
    visitor = AdminBrowser(chromium, admin_browser.url)
    page, asked = visitor.page, list[str]()
    page.clock.install()
    page.on("request", lambda request: asked.append(request.url.partition("/api/")[2]))
    visitor.sign_in(SUPPORT)
    expect(page.locator("#updated")).to_be_visible()

    def forward(seconds: int) -> int:
        asked.clear()
        page.clock.run_for(seconds * 1000)
        page.wait_for_timeout(300)
        return sum(path.startswith("metrics") for path in asked)

    page.locator("#refresh").focus()
    page.clock.pause_at(page.evaluate("Date.now() / 1000") + 1)
    assert (forward(50), forward(15)) == (0, 1)
    expect(page.locator("#refresh")).to_be_focused()
    show = """state => {
        Object.defineProperty(document, "visibilityState", { value: state, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    page.evaluate(show, "hidden")
    assert forward(600) == 0
    page.evaluate(show, "visible")
    assert forward(1) == 1
    page.get_by_label("Refresh every minute").uncheck()
    assert forward(600) == 0
    visitor.open_hash("#/list/failed")
    assert forward(600) == 0
    assert visitor.browser_errors == []
    visitor.context.close()


def forward_metrics(stack: StackClient) -> None:
    """As `make local` does it."""
    metrics = MetricForwarder(stack.account)
    LogStream(stack.account, on_metrics=metrics.add).poll()
    metrics.flush()
