"""Least privilege: functions used every permission that they have, with listed exceptions."""

import fnmatch
from dataclasses import replace
from datetime import timedelta

import pytest

from oncely.core.table_guard import IDENTITY_KEY
from oncely_local.account import STACK_NAME
from tests.e2e import scenarios
from tests.e2e.admin_api import OPERATOR, AdminApiClient, with_users
from tests.e2e.deployed_stack import StackClient, wait_for
from tests.e2e.recorded_permissions import recorded_requests, unknown_calls
from tests.e2e.stripe_webhook import post, sign, succeeded_event
from tests.infra.assembly import Assembly
from tests.infra.policies import Permission, Request, is_allowed, permissions

pytestmark = pytest.mark.timeout(900)  # the first test waits for all scenarios

# Allowed and not seen here, as patterns over "role action resource keys", each with its reason.
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
    "* dynamodb:ConditionCheckItem Tables/Jobs *": "any contract may ask that another job failed",
    "AdminPage/Repair dynamodb:Execute* *": "the engine's own names for PartiQL; AWS has none",
    "Stream/Publish sqs:SendMessage *": "a contract's follow-up may go to any queue",
    "DeadLetters/Receive sqs:ChangeMessageVisibility *": "only if DynamoDB or SNS fails",
    "Rejects/Archive sqs:ChangeMessageVisibility *": "only if S3 fails",
    "Reconciler/Resolve dynamodb:UpdateItem Tables/ImportEvents": "imports run again instead",
    "AdminPage/Read s3:GetObject Archive/Bucket/audits/*": "no daily audit has run here",
    "AdminPage/Repair dynamodb:Query Tables/Jobs/index/by_reference": "it found the key itself",
    "Reconciler/Resolve dynamodb:* Tables/Refunds": "no refund was unknown here",
    # An operator may repair a job of any type; here it was a payment without a reference.
    "AdminPage/Repair dynamodb:* Tables/Refund*": "a job of another type would",
    "AdminPage/Repair dynamodb:* Tables/ImportEvents": "a job of another type would",
    "AdminPage/Repair dynamodb:* Tables/Records": "the same",
    "AdminPage/Repair secretsmanager:GetSecretValue ProviderSecrets/*": "the same",
    "AdminPage/Repair sqs:SendMessage *": "the same",
}
PRODUCER = "Policies/PaymentsProducer"
# The same, but some runs do see it.
RARELY_RECORDED = {
    "AdminPage/Repair s3:* Archive/Bucket/bulk/*": "tests of the page start bulk runs",
    "AdminPage/Repair s3:* Archive/Bucket/rejects/*": "and resend a reject",
    "* dynamodb:GetItem Tables/Jobs *": "a write whose reply was lost is read back",
    "* dynamodb:UpdateItem Tables/Jobs alerts:*": "alerts are counted",
    "Reconciler/Resolve dynamodb:GetItem Tables/RefundRequests": "if a refund waits for longer",
    "EventIntake/* *": "one event arrives here, test_events has the others",
    "Reconciler/Finish states:StartExecution *": "a sweep that found more than a page goes on",
}


@pytest.fixture(scope="module")
def stack(deployment: StackClient) -> StackClient:
    used = (use_admin_page, scenarios.enqueue_as_producer, use_events)
    for scenario in (*scenarios.ALL_SCENARIOS, *used):
        deployment.once(scenario)
    return deployment


def use_events(stack: StackClient) -> None:
    """A late and wrong event about a paid order, which is looked up and changes nothing."""
    paid = stack.once(scenarios.successful_payment)
    body = succeeded_event(stack, str(paid["provider_ref"]))
    late = body.replace("payment_intent.succeeded", "payment_intent.payment_failed")
    lookups = len(stack.sandbox.ledger.requests)
    assert post(stack, late, sign(late)) == 200
    wait_for(lambda: len(stack.sandbox.ledger.requests) > lookups, "the end was looked up")


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
    for path in ("/api/gates", "/api/overview", "/api/metrics", "/api/rejects", "/api/audits"):
        assert view.get(path, token=token).status == 200
    paid = stack.once(scenarios.successful_payment)
    assert view.get("/api/resolve", token=token, q=str(paid["provider_ref"])).status == 200
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
def used(stack: StackClient, local: Assembly) -> set[Request]:
    producer = stack.once(scenarios.enqueue_as_producer)["AWS_ACCESS_KEY_ID"]
    return recorded_requests(stack, local, {PRODUCER: producer})


@pytest.fixture(scope="module")
def granted(local: Assembly) -> set[Permission]:
    return permissions(local)


def test_every_call_is_allowed_by_policy(used: set[Request], granted: set[Permission]) -> None:
    assert [one for one in sorted(used) if not is_allowed(granted, one)] == []


def test_calls_of_every_function_are_evaluated(
    stack: StackClient, local: Assembly, used: set[Request]
) -> None:
    # The first setup ran before calls were looked up; some runs still see it.
    assert {one.role for one in used} | {"FirstSetup/SetUp"} == {*local.functions, PRODUCER}
    unknown = unknown_calls(stack, local)
    assert len(unknown) >= len(local.functions) - 1
    assert {name for names in unknown.values() for name in names} == set()


def test_removed_right_denies_recorded_call(used: set[Request], granted: set[Permission]) -> None:
    """Every permission of a role is needed by one of its calls, on each resource it used."""
    roles = {one.role for one in used}
    for role in roles:
        calls = {one for one in used if one.role == role}
        rights = {one for one in granted if one.role == role}
        needed = {
            right
            for right in rights
            if any(right.allows(one) and not is_allowed(rights - {right}, one) for one in calls)
        }
        assert {one.resource for one in calls} == {
            call.resource for call in calls if any(right.allows(call) for right in needed)
        }, role


def test_no_worker_may_make_job_table_calls_of_another(
    used: set[Request], granted: set[Permission]
) -> None:
    workers = {one.role for one in used if one.role.endswith("Worker/Worker")}
    on_jobs = {
        one for one in used if one.role in workers and one.resource == "Tables/Jobs" and one.keys
    }
    forged = {
        replace(one, role=role)
        for one in on_jobs
        if one.keys != (IDENTITY_KEY,)
        for role in workers - {one.role}
    }

    assert len(workers) == 3
    assert forged
    assert [one for one in sorted(forged) if is_allowed(granted, one)] == []


def test_producer_may_not_replace_or_delete_what_it_enqueued(
    used: set[Request], granted: set[Permission]
) -> None:
    inserted = {
        one for one in used if (one.role, one.action) == (PRODUCER, "dynamodb:PartiQLInsert")
    }
    keys = {key for one in inserted for key in one.keys}
    names = ("PutItem", "UpdateItem", "DeleteItem", "PartiQLUpdate", "PartiQLDelete")
    forged = [
        replace(one, action=f"dynamodb:{name}")
        for one in inserted
        if not one.keys[0].startswith("unique:")
        for name in names
    ]

    key = "payment.charge:order_produced"
    assert keys >= {key, f"unique:payment.charge:{key}"}
    assert [one for one in forged if is_allowed(granted, one)] == []


def test_no_call_is_denied(stack: StackClient) -> None:
    log = stack.engine.log.read_text(encoding="utf-8", errors="replace")
    assert [line for line in log.splitlines() if "not authorized to perform" in line] == []


@pytest.fixture(scope="module")
def unused(used: set[Request], granted: set[Permission]) -> list[str]:
    by_action: dict[tuple[str, str], list[Request]] = {}
    for request in used:
        by_action.setdefault((request.role, request.action), []).append(request)
    return [
        " ".join((one.role, one.action, one.resource, *one.leading_keys))
        for one in sorted(granted)
        # The others are for users; test_cli.py runs with one of them.
        if not one.role.startswith("Policies/")
        and not any(map(one.allows, by_action.get((one.role, one.action), ())))
    ]


def test_no_unused_permission_is_granted(unused: list[str]) -> None:
    patterns = (*NEVER_RECORDED, *RARELY_RECORDED)
    excused = {one for pattern in patterns for one in fnmatch.filter(unused, pattern)}
    long = [one for one in unused if one not in excused]
    assert not long, "\n".join(long)


def test_every_exception_is_still_needed(unused: list[str]) -> None:
    assert [one for one in NEVER_RECORDED if not fnmatch.filter(unused, one)] == []


def test_mail_is_sent_with_unchecked_permission(stack: StackClient) -> None:
    assert any("18452@example.com" in mail.to for mail in stack.sandbox.ses.ledger.mails)
