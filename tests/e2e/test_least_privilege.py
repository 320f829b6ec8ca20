"""Neither short nor long: what functions may do is what they did, but for a few, with reasons."""

import fnmatch
from datetime import timedelta

import pytest

from oncely_local.account import STACK_NAME
from tests.e2e import scenarios
from tests.e2e.admin_api import OPERATOR, AdminApiClient, with_users
from tests.e2e.deployed_stack import StackClient, wait_for
from tests.e2e.recorded_permissions import recorded_permissions
from tests.infra.assembly import Assembly
from tests.infra.policies import Permission, permissions

pytestmark = pytest.mark.timeout(900)  # the first test waits for all that happens

# Allowed and not seen here, as patterns over "role action resource", each with its reason.
NEVER_RECORDED = {
    "* logs:* *": "Lambda and Step Functions write logs themselves",
    "* xray:* *": "the tracing daemon of Lambda and Step Functions sends these",
    "* sqs:ReceiveMessage *": "Lambda polls the queue in the function's name",
    "* sqs:DeleteMessage *": "the same",
    "* sqs:GetQueueAttributes *": "the same",
    "Stream/Publish dynamodb:*Stream* *": "Lambda reads the stream in the function's name",
    "Stream/Publish dynamodb:GetRecords *": "the same",
    "Stream/Publish dynamodb:GetShardIterator *": "the same",
    "Stream/Publish sqs:SendMessage* Stream/Missed": "Lambda tells there what it gave up on",
    "History/Write dynamodb:*Stream* *": "Lambda reads the stream in the function's name",
    "History/Write dynamodb:GetRecords *": "the same",
    "History/Write dynamodb:GetShardIterator *": "the same",
    "History/Write sqs:SendMessage* History/Gaps": "Lambda reports there what it gave up on",
    "* kms:* Alerts/Key": "SNS uses the key for whoever publishes",
    "* sqs:SendMessageBatch *": "the engine's own name for sending; AWS has none",
    "Reconciler lambda:InvokeFunction *": "the engine calls functions without asking",
    "Reconciler/ScheduleRole lambda:InvokeFunction *": "the same, for the schedule",
    "MailWorker/Worker ses:SendEmail *": "SES is a sandbox here; one mail was sent all the same",
    "FirstSetup/SetUp *": "it ran while the stack was deployed, before calls were looked up",
    "* dynamodb:ConditionCheckItem Tables/Jobs": "any contract may ask that another job has failed",
    "Stream/Publish sqs:SendMessage *": "a contract's follow-up may go to any queue",
    # Contracts name their tables, not whether they read them or write them.
    "MailWorker/Worker dynamodb:UpdateItem Tables/Orders": "receipts only read orders",
    "* dynamodb:GetItem Tables/ImportEvents": "events are only written",
    "Reconciler/Resolve dynamodb:UpdateItem Tables/ImportEvents": "imports run again instead",
    # A person may repair a job of any type; here it was a payment without a reference.
    "AdminPage/Repair dynamodb:* Tables/ImportEvents": "a job of another type would",
    "AdminPage/Repair dynamodb:* Tables/Records": "the same",
    "AdminPage/Repair secretsmanager:GetSecretValue ProviderSecrets/*": "the same",
    "AdminPage/Repair sqs:SendMessage *": "the same",
}
# The same, but some runs do see it.
RARELY_RECORDED = {
    "* dynamodb:GetItem Tables/Jobs": "a write whose reply was lost is read back",
    "Reconciler/Finish states:StartExecution *": "a sweep that found more than a page goes on",
}


@pytest.fixture(scope="module")
def stack(deployment: StackClient) -> StackClient:
    for scenario in (*scenarios.ALL_SCENARIOS, use_admin_page):
        deployment.once(scenario)
    return deployment


def use_admin_page(stack: StackClient) -> None:
    view = with_users(stack)
    token = view.token(OPERATOR)
    key = str(stack.once(scenarios.worker_crashed_without_order)["job_key"])
    for path in ("/api/counts", "/api/jobs", "/api/export"):
        assert view.get(path, token=token).status == 200
        assert view.get(path, token=token, status="in_progress").status == 200
    for path in ("/api/jobs", "/api/export"):
        wait_for(
            lambda path=path: (
                "payment.charge:" in view.get(path, token=token, status="finished").text
            ),  # type: ignore[misc]  # bound now
            f"{path} shows what is done, from the history",
        )
    for text in (key, "never-seen", "customer_none"):
        assert view.get("/api/find", token=token, q=text).status == 200
    # An order comes back, the review is closed, and its payment is tried once more.
    scenarios.put_order(stack, "gone")
    for repair, status in (
        ("lookup", "needs_review"),
        ("mark-failed", "failed"),
        ("resubmit", "failed"),
    ):
        version = view.get("/api/job", token=token, key=key).json["version"]
        asked = {"key": key, "repair": repair, "version": version, "reason": "the order is back"}
        done = view.post("/api/repair", asked, token=token)
        assert (done.status, done.json["job"]["status"]) == (200, status), done.text
        if status == "failed":
            wait_for(lambda: view.get("/api/job", token=token, key=key).json["expires_at"], key)
    stack.wait_for_job(f"{key}:2", "finished")
    assert any(_look_up_crashed_job(stack, view, number) for number in range(5))


def _look_up_crashed_job(stack: StackClient, view: AdminApiClient, number: int) -> bool:
    order_id = f"asked-{number}"
    key = f"payment.charge:order_{order_id}"
    scenarios.put_order(stack, order_id)
    scenarios.claim_as_other_worker(
        stack, key, scenarios.charge_message(order_id), lease=-timedelta(minutes=1)
    )
    asked = {"key": key, "repair": "lookup", "version": 1, "reason": "its worker is gone"}
    done = view.post("/api/repair", asked, token=view.token(OPERATOR))
    stack.wait_for_job(key, "finished")
    return done.status == 200


@pytest.fixture(scope="module")
def local(stack: StackClient) -> Assembly:
    return Assembly(stack.assembly, STACK_NAME)


@pytest.fixture(scope="module")
def used(stack: StackClient, local: Assembly) -> set[Permission]:
    return recorded_permissions(stack, local)


def test_every_call_is_allowed_by_policy(used: set[Permission], local: Assembly) -> None:
    assert used - permissions(local) == set()
    # The first setup ran before calls were looked up; some runs still see it.
    assert len({permission.role for permission in used} - {"FirstSetup/SetUp"}) == 12


def test_no_call_is_denied(stack: StackClient) -> None:
    log = stack.engine.log.read_text(encoding="utf-8", errors="replace")
    assert [line for line in log.splitlines() if "not authorized to perform" in line] == []


@pytest.fixture(scope="module")
def unused(used: set[Permission], local: Assembly) -> list[str]:
    return [f"{one.role} {one.action} {one.resource}" for one in sorted(permissions(local) - used)]


def test_no_unused_permission_is_granted(unused: list[str]) -> None:
    patterns = (*NEVER_RECORDED, *RARELY_RECORDED)
    excused = {one for pattern in patterns for one in fnmatch.filter(unused, pattern)}
    long = [one for one in unused if one not in excused]
    assert not long, "\n".join(long)


def test_every_exception_is_still_needed(unused: list[str]) -> None:
    assert [one for one in NEVER_RECORDED if not fnmatch.filter(unused, one)] == []


def test_mail_is_sent_with_unchecked_permission(stack: StackClient) -> None:
    assert any("18452@example.com" in mail.to for mail in stack.sandbox.ledger.mails)
