"""The machine's Chromium for the tests of the admin page. None is downloaded."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from typing import Final

from playwright.sync_api import Browser, sync_playwright

from tests.support.engines import skip_or_fail

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
# A container has no user namespaces, no graphics card and a small /dev/shm.
_ARGUMENTS: Final = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")


@contextlib.contextmanager
def running_chromium() -> Iterator[Browser]:
    """A headless browser. `CHROMIUM` sets another executable."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        skip_or_fail("no Chromium: install it, or set CHROMIUM to its path")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=_ARGUMENTS)
        yield browser
        browser.close()
