"""A row that was edited by hand, on the admin page of the deployed stack."""

import csv
import io

from playwright.sync_api import expect

from tests.e2e.admin_api import OPERATOR, with_users
from tests.e2e.admin_browser import AdminBrowser
from tests.e2e.admin_jobs import hostile_job, unreadable_job
from tests.e2e.deployed_stack import StackClient


def test_unreadable_row_is_listed_beside_others(
    deployment: StackClient, operator: AdminBrowser
) -> None:
    key, other = deployment.once(unreadable_job), deployment.once(hostile_job)
    api = with_users(deployment)
    token = api.token(OPERATOR)

    filters = {"status": "needs_review", "type": "payment.charge", "limit": "100"}
    listed = api.get("/api/jobs", token=token, **filters)
    shown = api.get("/api/job", token=token, key=key)
    exported = api.get("/api/export", token=token, status="needs_review")
    operator.open_hash("#/list/needs_review?type=payment.charge")

    assert listed.status == 200
    assert [row["job_key"] for row in listed.json["unreadable"]] == [key]
    assert other in {job["job_key"] for job in listed.json["jobs"]}
    assert (shown.status, key in shown.json["error"]) == (422, True)
    rows = csv.DictReader(io.StringIO(exported.text))
    assert {row["status"] for row in rows if row["job_key"] == key} == {"unreadable"}
    expect(operator.page.locator(".unreadable")).to_contain_text("1 job cannot be shown")
    expect(operator.entries.filter(has_text=other)).to_be_visible()
    assert operator.layout_violations() == []
