"""The admin page of a stack with more jobs than one page shows or counts."""

import time

import pytest
from playwright.sync_api import expect

from oncely.operate.job_queries import MAX_COUNT
from tests.e2e.admin_browser import AdminBrowser
from tests.e2e.admin_jobs import many_jobs
from tests.e2e.deployed_stack import StackClient

# The local engine reads the whole table for each query of a list, which takes seconds.
# AWS reads what is shown; tests/integration counts it.
AT_ONCE = 15.0


@pytest.mark.mass
def test_many_jobs_are_listed_and_searched_quickly(
    support: AdminBrowser, deployment: StackClient
) -> None:
    deployment.once(many_jobs)
    support.open_hash("#/list/needs_review?type=sync.contact")
    expect(support.entries).to_have_count(25)
    began = time.monotonic()

    support.button("Show more").click()
    expect(support.entries).to_have_count(50)
    support.search("hubspot#many-777")
    expect(support.entries).to_have_count(1)

    assert time.monotonic() - began < AT_ONCE
    expect(support.entries).to_contain_text("sync.contact:hubspot:many-777:1")
    support.open_hash("#/list/needs_review")
    expect(support.page.locator(".counts")).to_contain_text(f"{MAX_COUNT:,}+")
    links = [link.get_attribute("href") for link in support.entries.locator("a").all()]
    assert len(set(links)) == len(links) > 20
