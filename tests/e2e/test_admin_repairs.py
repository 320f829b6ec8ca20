"""Repairs on the admin page of the deployed stack, by operators and by support agents."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta

from playwright.sync_api import Browser, Route, expect

from oncely.core.job_row import operator_actor
from oncely.core.lifecycle import Status
from oncely.core.text import format_time
from tests.e2e.admin_api import OPERATOR
from tests.e2e.admin_browser import AdminBrowser
from tests.e2e.admin_jobs import bulk_reviews
from tests.e2e.deployed_stack import StackClient, wait_for
from tests.e2e.scenarios import charge_message, count_charges, put_order
from tests.e2e.unresolved_jobs import create_unresolved_job, get_job

ASK = "Look up the outcome"
SECOND_PART = 3  # the first request describes the run
# The server gets the request; what it answers does not arrive.
LOSE_ONE_ANSWER = """() => {
    const original = window.fetch;
    window.fetch = async (...request) => {
        await original(...request);
        window.fetch = original;
        throw new TypeError("the connection was cut");
    };
}"""


def test_unknown_job_is_finished_from_page(operator: AdminBrowser, deployment: StackClient) -> None:
    left = create_unresolved_job(deployment, "page-unknown")
    operator.open_job(left.key)
    expect(operator.heading).to_contain_text("Unknown whether it was charged")
    dialog = operator.open_repair_dialog(ASK)

    dialog.get_by_label("Reason").fill("The customer is on the phone")
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog.get_by_text("nothing was changed")).to_be_visible()
    expect(dialog.locator(".comparison")).to_contain_text("StripeSucceeded: charged 49.00 EUR")
    assert get_job(deployment, left.key).status is Status.UNKNOWN
    dialog.get_by_role("button", name=ASK).click()

    expect(operator.page.get_by_role("heading", name=f"{ASK}: done")).to_be_focused()
    expect(operator.heading).to_contain_text("Charged once")
    expect(operator.page.locator(".outcome")).to_contain_text("StripeSucceeded: charged 49.00 EUR")
    ended = get_job(deployment, left.key)
    assert ended.status is Status.FINISHED
    assert any(
        entry.actor == operator_actor(OPERATOR) and "The customer is on the phone" in entry.reason
        for entry in ended.evidence
    )
    assert count_charges(deployment, "page-unknown") == 1
    action = operator.page.locator(".timeline .operator")
    expect(action.filter(has_text="The customer is on the phone")).to_contain_text("operator")
    expect(operator.page.locator(".periods li").last).to_have_text("finished")


def test_page_shows_both_sides_of_contradicted_repair(
    operator: AdminBrowser, deployment: StackClient
) -> None:
    left = create_unresolved_job(deployment, "page-contradicted", status=Status.NEEDS_REVIEW)
    operator.open_job(left.key)
    dialog = operator.open_repair_dialog("Mark as done")
    dialog.get_by_label("Reason").fill("I saw it")
    dialog.get_by_label("Provider reference").fill("pi_invented")
    dialog.get_by_role("button", name="Mark as done").click()

    sides = dialog.get_by_role("alert")
    expect(sides).to_contain_text("Nothing was changed.")
    expect(sides).to_contain_text("YouThat it is done, as pi_invented.")
    expect(sides).to_contain_text("StripeSucceeded: charged 49.00 EUR")
    expect(sides).to_contain_text(f"{left.ref}: check which one you saw")
    assert operator.layout_violations() == []
    dialog.get_by_label("Provider reference").fill(left.ref)
    dialog.get_by_role("button", name="Mark as done").click()
    expect(operator.heading).to_contain_text("Charged once")


def test_page_sets_another_time(operator: AdminBrowser, deployment: StackClient) -> None:
    key, label = "receipt.send:order_page-later", "Set another time"
    month = datetime.now(tz=UTC).replace(second=0, microsecond=0) + timedelta(days=30)
    receipt = {"job": "receipt.send", "v": 1, "order_id": "page-later"}
    deployment.send("MailQueueUrl", {**receipt, "run_at": format_time(month)})
    deployment.wait_for_job(key, "ready")
    operator.open_job(key)
    expect(operator.heading).to_contain_text("Not sent yet. It runs at")
    dialog = operator.open_repair_dialog(label)
    dialog.get_by_label("Reason").fill("Moved")
    dialog.get_by_role("button", name=label).click()
    expect(dialog.get_by_role("alert")).to_contain_text("Enter the new time")

    week = month - timedelta(days=23)
    dialog.get_by_label("New time (UTC)").fill(f"{week:%Y-%m-%dT%H:%M}")
    dialog.get_by_role("button", name=label).click()

    expect(operator.page.get_by_role("heading", name=f"{label}: done")).to_be_focused()
    assert get_job(deployment, key).run_at == week


def test_repair_without_reason_is_not_sent(operator: AdminBrowser, deployment: StackClient) -> None:
    left = create_unresolved_job(deployment, "page-no-reason")
    operator.open_job(left.key)
    dialog = operator.open_repair_dialog(ASK)

    dialog.get_by_role("button", name=ASK).click()

    expect(dialog.get_by_role("alert")).to_contain_text("Enter a reason")
    expect(dialog.get_by_label("Reason")).to_be_focused()
    operator.page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(operator.button(ASK)).to_be_focused()
    assert get_job(deployment, left.key).status is Status.UNKNOWN


def test_stale_repair_conflicts_and_keeps_typed_reason(
    operator: AdminBrowser, deployment: StackClient
) -> None:
    left = create_unresolved_job(deployment, "page-stale", method="pm_processing")
    operator.open_job(left.key)
    dialog = operator.open_repair_dialog(ASK)
    dialog.get_by_label("Reason").fill("Nothing came for an hour")
    deployment.reconcile(key=left.key)

    dialog.get_by_role("button", name=ASK).click()

    expect(dialog.get_by_role("alert")).to_contain_text("changed since you opened it")
    # A worker may have changed it since, but nothing is recorded in the operator's name.
    assert operator_actor(OPERATOR) not in {
        entry.actor for entry in get_job(deployment, left.key).evidence
    }
    dialog.get_by_role("button", name="Reload").click()
    expect(dialog).to_be_hidden()
    operator.wait_for_view()
    again = operator.open_repair_dialog(ASK)
    expect(again.get_by_label("Reason")).to_have_value("Nothing came for an hour")
    operator.page.go_back()
    expect(again).to_be_hidden()  # leaving the job closes its dialog


def test_lost_reply_says_repair_may_be_done(
    operator: AdminBrowser, deployment: StackClient
) -> None:
    operator.open_job(create_unresolved_job(deployment, "page-lost").key)
    operator.page.evaluate(LOSE_ONE_ANSWER)
    dialog = operator.open_repair_dialog(ASK)
    dialog.get_by_label("Reason").fill("To be sure")
    dialog.get_by_role("button", name=ASK).click()
    expect(dialog.get_by_role("alert")).to_contain_text("may have been applied")
    dialog.get_by_role("button", name="Reload").click()

    expect(operator.heading).to_contain_text("Charged once")


def test_support_agent_cannot_repair(support: AdminBrowser, deployment: StackClient) -> None:
    left = create_unresolved_job(deployment, "page-support")
    support.open_job(left.key)

    repairs = support.page.locator(".repairs")
    expect(repairs).to_contain_text("You have read-only access")
    expect(repairs.get_by_role("button")).to_have_count(0)
    order = f'{{"key": "{left.key}", "repair": "lookup", "version": 2, "reason": "me"}}'
    assert support.fetch_json("/api/repair", method="POST", body=order)[0] == 403
    assert support.fetch_json("/api/export?status=needs_review")[0] == 403
    assert get_job(deployment, left.key).status is Status.UNKNOWN


def test_expired_sign_in_returns_to_same_page_and_reason(
    chromium: Browser, deployment: StackClient, operator: AdminBrowser
) -> None:
    left = create_unresolved_job(deployment, "page-expired")
    service = AdminBrowser(chromium, operator.url)
    service.sign_in(OPERATOR, f"#/job/{left.key}")
    expect(service.heading).to_contain_text("Unknown whether it was charged")
    dialog = service.open_repair_dialog(ASK)
    dialog.get_by_label("Reason").fill("Half a thought")
    over = '{"token": "over", "until": 0}'
    service.page.evaluate("over => sessionStorage.setItem('oncely.tokens', over)", over)

    dialog.get_by_role("button", name=ASK).click()
    dialog.get_by_role("button", name="Sign in again").click()
    service.type_password(OPERATOR)

    expect(service.heading).to_contain_text("Unknown whether it was charged")
    expect(service.open_repair_dialog(ASK).get_by_label("Reason")).to_have_value("Half a thought")
    service.page.keyboard.press("Escape")
    service.button("Sign out").click()
    expect(service.heading).to_have_text("Look up a job")
    assert service.page.evaluate("() => sessionStorage.length") == 0
    assert service.browser_errors == []
    service.context.close()


def test_bulk_run_is_confirmed_interrupted_and_continued(
    operator: AdminBrowser, deployment: StackClient
) -> None:
    keys = bulk_reviews(deployment, "bulk-page", 12)
    page = operator.page
    operator.open_hash("#/list/needs_review?error=bulk-page")
    expect(operator.entries).to_have_count(12)
    page.get_by_label(f"Select {keys[0]}", exact=True).check()
    page.get_by_label(f"Select {keys[1]}", exact=True).check()
    expect(page.locator(".bulk output")).to_have_text("2 selected")
    found = [f"list {fault}" for fault in operator.layout_violations()]

    page.get_by_label("All that match").check()
    operator.button("Cancel…").click()
    dialog = page.get_by_role("dialog", name="Cancel: multiple jobs")
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Enter a reason")
    dialog.get_by_label("Reason").fill("They were tests")
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog).to_contain_text("12 jobs can be repaired.")
    expect(dialog.locator(".examples li")).to_have_count(5)
    found += [f"preview {fault}" for fault in operator.layout_violations()]
    assert {get_job(deployment, key).status for key in keys} == {Status.NEEDS_REVIEW}

    # The second part of the run does not arrive.
    parts: list[Route] = []

    def lose_second_part(route: Route) -> None:
        parts.append(route)
        if len(parts) == SECOND_PART:
            route.abort()
        else:
            route.continue_()

    page.route("**/api/bulk/continue", lose_second_part)
    dialog.get_by_role("button", name="Cancel: 12 jobs").click()
    expect(operator.heading).to_have_text("Cancel the job: 12 jobs")
    expect(page.get_by_role("alert")).to_contain_text("Nothing is done twice")
    expect(page.locator(".progress-text")).to_have_text("10 of 12 jobs processed")
    page.unroute("**/api/bulk/continue")
    page.reload()
    expect(page.locator(".progress-text")).to_have_text("10 of 12 jobs processed")
    operator.button("Continue").click()
    expect(page.locator(".progress-text")).to_have_text("12 of 12 jobs processed")
    found += [f"run {fault}" for fault in operator.layout_violations()]
    operator.button("Check all again").click()
    expect(page.locator(".outcomes")).to_have_text("12 already done")

    assert (found, operator.browser_errors) == ([], [])
    for key in keys:
        job = get_job(deployment, key)
        assert job.status is Status.CANCELLED
        assert sum("They were tests" in entry.reason for entry in job.evidence) == 1


def test_filtered_list_is_exported_as_csv_and_json(
    operator: AdminBrowser, deployment: StackClient
) -> None:
    keys = {*bulk_reviews(deployment, "export-page", 3)}
    operator.open_hash("#/list/needs_review?error=export-page")
    saved: dict[str, str] = {}
    for form in ("CSV", "JSON"):
        with operator.page.expect_download() as download:
            operator.button(f"Download {form}").click()
        saved[form] = download.value.path().read_text()

    unreadable = {"payment.charge:order_edited"}  # of another test; it cannot be filtered
    assert {one["job_key"] for one in json.loads(saved["JSON"])} - unreadable == keys
    assert {
        row["job_key"] for row in csv.DictReader(io.StringIO(saved["CSV"]))
    } - unreadable == keys


def test_reject_is_edited_and_resent_once(operator: AdminBrowser, deployment: StackClient) -> None:
    put_order(deployment, "page-reject")
    deployment.send("PaymentsQueueUrl", charge_message("page-reject", amount=9900))
    deployment.send("PaymentsQueueUrl", charge_message("page-unreadable", amount="4900"))
    entry = operator.page.locator(".reject", has_text="page-reject")
    unreadable = operator.page.locator(".reject", has_text="page-unreadable")

    def is_listed() -> bool:
        operator.open_hash("#/report/rejects")
        return entry.count() == unreadable.count() == 1

    wait_for(is_listed, "the rejects are listed")
    resend = entry.get_by_role("button", name="Edit and resend")
    name = resend.get_attribute("aria-label")
    expect(unreadable.get_by_role("button", name="Edit and resend")).to_have_count(0)
    found = [f"list {fault}" for fault in operator.layout_violations()]
    resend.click()
    dialog = operator.page.get_by_role("dialog", name="Edit and resend")
    dialog.get_by_label("Reason").fill("The order has another amount")
    message = dialog.get_by_label("Message")
    rejected = message.input_value()
    message.fill(rejected.replace("page-reject", "page-reject-2"))
    dialog.get_by_role("button", name="Resend").click()
    expect(dialog.get_by_role("alert")).to_contain_text("A field of the job key was edited")
    found += [f"refused {fault}" for fault in operator.layout_violations()]
    message.fill(rejected.replace("9900", "4900"))
    dialog.get_by_role("button", name="Resend").click()
    expect(dialog).to_contain_text("payment.charge:order_page-reject was created and sent")
    dialog.get_by_role("button", name="Close").click()

    expect(entry).to_contain_text("resent")
    expect(resend).to_have_count(0)
    again = {"name": str(name).split()[-1], "message": rejected, "reason": "again"}
    status, answer = operator.fetch_json(
        "/api/rejects/resend", method="POST", body=json.dumps(again)
    )
    assert (status, "already resent" in answer["error"]) == (400, True)
    key = "payment.charge:order_page-reject"
    deployment.wait_for_job(key, "finished")
    first = get_job(deployment, key).evidence[0]
    assert (first.actor, "The order has another amount" in first.reason) == (
        operator_actor(OPERATOR),
        True,
    )
    assert count_charges(deployment, "page-reject") == 1
    assert (found, operator.browser_errors) == ([], [])
