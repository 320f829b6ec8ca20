"""The admin page in a real browser."""

import re
from typing import Any, Final, Literal
from urllib.parse import quote

from playwright.sync_api import Browser, ConsoleMessage, Locator, ViewportSize, expect

from oncely_local.engine import REPOSITORY
from tests.e2e.admin_api import PASSWORD

AXE: Final = REPOSITORY / "node_modules" / "axe-core" / "axe.min.js"
WIDE: Final = ViewportSize(width=1280, height=900)
NARROW: Final = ViewportSize(width=390, height=844)
NARROWEST: Final = ViewportSize(width=320, height=640)
THEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
# Covers cold functions on a busy machine.
TIMEOUT_MS: Final = 30_000

expect.set_options(timeout=TIMEOUT_MS)


class AdminBrowser:
    def __init__(self, browser: Browser, url: str, **options: Any) -> None:  # noqa: ANN401  # playwright's own
        settings = {"viewport": WIDE, "locale": "en-GB", "timezone_id": "Europe/Berlin", **options}
        self.url = url.rstrip("/")
        self.context = browser.new_context(reduced_motion="reduce", **settings)
        self.context.set_default_timeout(TIMEOUT_MS)
        self.page = self.context.new_page()
        self.browser_errors: list[str] = []
        self.page.on("pageerror", lambda error: self.browser_errors.append(str(error)))
        self.page.on("console", self._record_console_error)

    def sign_in(self, name: str, hash_path: str = "") -> None:
        self.page.goto(f"{self.url}/{hash_path}")
        self.button("Sign in").click()
        self.type_password(name)
        expect(self.page.get_by_role("button", name="Sign out")).to_be_visible()

    def type_password(self, name: str) -> None:
        self.page.locator("[name=username]").fill(name)
        self.page.locator("[name=password]").fill(PASSWORD)
        self.button("Sign in").click()

    def open_hash(self, hash_path: str) -> None:
        # The page's listener runs first, so the view is loading when ours is called.
        script = """hash => new Promise(resolve => {
            addEventListener("hashchange", resolve, { once: true });
            if (location.hash === hash) dispatchEvent(new HashChangeEvent("hashchange"));
            else location.hash = hash;
        })"""
        self.page.evaluate(f"hash => ({script})(hash).then(() => null)", hash_path)
        self.wait_for_view()

    def open_job(self, key: str) -> None:
        self.open_hash(f"#/job/{quote(key, safe='')}")

    def search(self, text: str) -> None:
        """Search for several jobs, or for none. An exact hit opens the job instead."""
        self.type_search(text)
        expect(self.heading).to_have_text(f"Results for “{text}”")

    def type_search(self, text: str) -> None:
        self.page.get_by_role("searchbox").fill(text)
        self.page.keyboard.press("Enter")

    def wait_for_view(self) -> None:
        expect(self.heading).to_be_visible()
        expect(self.page.locator("main")).not_to_have_attribute("aria-busy", "true")

    def open_repair_dialog(self, label: str) -> Locator:
        self.button(label).click()
        return self.page.get_by_role("dialog", name=label)

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    @property
    def heading(self) -> Locator:
        return self.page.get_by_role("heading", level=1)

    @property
    def entries(self) -> Locator:
        return self.page.locator(".entry")

    def detail(self, label: str) -> Locator:
        return self.page.locator(
            ".facts dl > div", has=self.page.get_by_text(label, exact=True)
        ).locator("dd")

    def fetch_json(self, path: str, **options: object) -> tuple[int, Any]:
        script = """async ([path, options]) => {
            const { token } = JSON.parse(sessionStorage.getItem("oncely.tokens"));
            const headers = { authorization: `Bearer ${token}` };
            const response = await fetch(path, { ...options, headers });
            return [response.status, await response.json().catch(() => null)];
        }"""
        status, body = self.page.evaluate(script, [path, options])
        return status, body

    def accessibility_violations(self) -> list[str]:
        if not self.page.evaluate("() => Boolean(window.axe)"):
            self.page.evaluate(AXE.read_text())
        # Only violations: what passed is most of the page.
        script = """() => axe.run({ resultTypes: ["violations"] }).then(({ violations }) =>
            violations
                .filter(({ impact }) => ["serious", "critical"].includes(impact))
                .map(({ id, nodes }) => `${id}: ${nodes[0].html}`))"""
        found: list[str] = self.page.evaluate(script)
        return found

    def layout_violations(self) -> list[str]:
        found: list[str] = []
        for theme in THEMES:
            self.page.emulate_media(color_scheme=theme)
            found += [f"{theme}: {fault}" for fault in self.accessibility_violations()]
        for size in (WIDE, NARROW, NARROWEST):
            self.page.set_viewport_size(size)
            if self.scrolls_sideways():
                found.append(f"scrolls sideways at {size['width']}")
        self.page.set_viewport_size(WIDE)
        return found

    def scrolls_sideways(self) -> bool:
        return bool(self.page.evaluate("() => document.documentElement.scrollWidth > innerWidth"))

    def _record_console_error(self, message: ConsoleMessage) -> None:
        # Some tests expect an error response. The page shows it.
        if message.type == "error" and not re.search("Failed to load resource", message.text):
            self.browser_errors.append(message.text)

    def show_figures(self) -> Locator:
        """Open the table of the overview's charts."""
        table = self.page.get_by_role("region", name="Figures by hour")
        if not table.is_visible():
            self.page.get_by_text("Show the figures as a table").click()
        expect(table).to_be_visible()
        return table
