"""Repairs on the admin page of the deployed stack, by operators and by support agents."""

from playwright.sync_api import Browser, expect

from oncely.domain.actors import operator_actor
from oncely.domain.lifecycle import Status
from tests.e2e.admin_api import OPERATOR
from tests.e2e.admin_browser import AdminBrowser
from tests.e2e.deployed_stack import StackClient
from tests.e2e.scenarios import count_charges
from tests.e2e.unresolved_jobs import create_unresolved_job, get_job

ASK = "Look up at the provider"
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

    dialog.get_by_role("button", name="Preview").click()
    expect(dialog.get_by_text("nothing was changed")).to_be_visible()
    expect(dialog.locator(".comparison")).to_contain_text("StripeSucceeded: charged 49.00 EUR")
    assert get_job(deployment, left.key).status is Status.UNKNOWN
    dialog.get_by_label("Reason").fill("The customer is on the phone")
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
    # A worker may have moved it on meanwhile; nothing of it is in the person's name.
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
    desk = AdminBrowser(chromium, operator.url)
    desk.sign_in(OPERATOR, f"#/job/{left.key}")
    expect(desk.heading).to_contain_text("Unknown whether it was charged")
    dialog = desk.open_repair_dialog(ASK)
    dialog.get_by_label("Reason").fill("Half a thought")
    over = '{"token": "over", "until": 0}'
    desk.page.evaluate("over => sessionStorage.setItem('oncely.tokens', over)", over)

    dialog.get_by_role("button", name=ASK).click()
    dialog.get_by_role("button", name="Sign in again").click()
    desk.type_password(OPERATOR)

    expect(desk.heading).to_contain_text("Unknown whether it was charged")
    expect(desk.open_repair_dialog(ASK).get_by_label("Reason")).to_have_value("Half a thought")
    desk.page.keyboard.press("Escape")
    desk.button("Sign out").click()
    expect(desk.heading).to_have_text("Look up a job")
    assert desk.page.evaluate("() => sessionStorage.length") == 0
    assert desk.browser_errors == []
    desk.context.close()
