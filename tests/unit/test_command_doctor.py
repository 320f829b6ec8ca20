"""`oncely doctor`: a healthy stack has no findings, and each fault is named with its fix."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from oncely.cli.health_checks.queues import VISIBILITY_FACTOR as CHECKED_FACTOR
from oncely.cli.health_checks.tables import INDEXES
from oncely.domain.keys import JobKey
from oncely.operate.job_queries import MAX_COUNT
from oncely.provider import ApiKeyCheck
from oncely_cdk.guardrails import VISIBILITY_FACTOR
from oncely_cdk.table_schemas import TABLE_SCHEMAS
from tests.support.cli import run_cli
from tests.support.fake_aws_account import FakeAwsAccount, client_error, queue_arn
from tests.support.in_memory_stack import charge_message


def test_healthy_stack_has_nothing_to_fix() -> None:
    said = run_cli("doctor", connection=FakeAwsAccount().connection())

    assert said.exit_code == 0, said.output
    assert "broken" not in said.stdout
    assert "warning" not in said.stdout
    assert "sk_live" not in said.output


def stack_failed(account: FakeAwsAccount) -> None:
    account.stack["StackStatus"] = "ROLLBACK_COMPLETE"


def short_visibility(account: FakeAwsAccount) -> None:
    account.queues["payments"]["VisibilityTimeout"] = "719"


def no_dead_letters(account: FakeAwsAccount) -> None:
    account.queues["mail"]["RedrivePolicy"] = ""


def short_dead_letter_retention(account: FakeAwsAccount) -> None:
    account.queues["dead_letter"]["MessageRetentionPeriod"] = "345600"


def stopped_source(account: FakeAwsAccount) -> None:
    account.mappings[queue_arn("sync")]["State"] = "Disabled"


def no_source(account: FakeAwsAccount) -> None:
    del account.mappings[queue_arn("payments")]


def whole_batches(account: FakeAwsAccount) -> None:
    account.mappings[queue_arn("payments")]["FunctionResponseTypes"] = []


def no_stream(account: FakeAwsAccount) -> None:
    del account.mappings["arn:table/jobs/stream/1#publish_ended"]


def no_history(account: FakeAwsAccount) -> None:
    account.mappings["arn:table/jobs/stream/1#archive_history"]["State"] = "Disabled"


def no_concurrency(account: FakeAwsAccount) -> None:
    account.concurrency["payments"] = 0


def failed_function(account: FakeAwsAccount) -> None:
    account.functions["payments"]["LastUpdateStatus"] = "Failed"


def short_function(account: FakeAwsAccount) -> None:
    account.functions["payments"]["Timeout"] = 20


def no_expiry(account: FakeAwsAccount) -> None:
    account.expiry["TimeToLiveStatus"] = "DISABLED"


def other_expiry(account: FakeAwsAccount) -> None:
    account.expiry["AttributeName"] = "ttl"


def no_index(account: FakeAwsAccount) -> None:
    account.tables["jobs"]["GlobalSecondaryIndexes"].pop()


def index_being_created(account: FakeAwsAccount) -> None:
    account.tables["orders"]["GlobalSecondaryIndexes"][0]["IndexStatus"] = "CREATING"


def table_without_stream(account: FakeAwsAccount) -> None:
    account.tables["jobs"]["StreamSpecification"] = {}


def stream_of_new_rows(account: FakeAwsAccount) -> None:
    account.tables["jobs"]["StreamSpecification"]["StreamViewType"] = "NEW_IMAGE"


def history_with_a_gap(account: FakeAwsAccount) -> None:
    gap = {"name": "a", "recorded_at": "2026-05-17T12:00:00Z"}
    account.objects["history/gaps/a.gap.json"] = json.dumps(gap).encode()


def rows_expire_early(account: FakeAwsAccount) -> None:
    account.functions["publish_ended"]["Environment"]["Variables"]["RETENTION_DAYS"] = "18"


def no_recovery(account: FakeAwsAccount) -> None:
    account.recovery = "DISABLED"


def no_identity(account: FakeAwsAccount) -> None:
    account.identity = {}


def restored_table(account: FakeAwsAccount) -> None:
    account.tables["jobs"]["TableId"] = "T2"


def empty_key(account: FakeAwsAccount) -> None:
    account.secrets["stripe"] = " "


def key_never_set(account: FakeAwsAccount) -> None:
    account.secrets["stripe"] = client_error("ResourceNotFoundException")


def key_of_two_lines(account: FakeAwsAccount) -> None:
    account.secrets["stripe"] = "sk_live_secret\nsk_live_secret"


def invalid_key(account: FakeAwsAccount) -> None:
    account.hubspot = ApiKeyCheck(accepted=False, reason="HTTP 401 INVALID_AUTHENTICATION")


def no_schedule(account: FakeAwsAccount) -> None:
    account.schedule = "DISABLED"


def failing_reconciler(account: FakeAwsAccount) -> None:
    account.sweeps = [{"status": "FAILED", "startDate": datetime.now(UTC)}] * 3


def no_alarms(account: FakeAwsAccount) -> None:
    account.alarms.clear()


def alarm_without_action(account: FakeAwsAccount) -> None:
    account.alarms["oldest"]["AlarmActions"] = []


def deleted_alarm(account: FakeAwsAccount) -> None:
    account.missing_alarms = {"oldest"}


def no_subscribers(account: FakeAwsAccount) -> None:
    account.subscriptions.clear()


def unverified_sender(account: FakeAwsAccount) -> None:
    account.identities.clear()


def pending_sender(account: FakeAwsAccount) -> None:
    account.identities["example.com"] = {
        "VerifiedForSendingStatus": False,
        "VerificationStatus": "PENDING",
    }


def paused_mail(account: FakeAwsAccount) -> None:
    assert isinstance(account.mail, dict)
    account.mail["SendingEnabled"] = False


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (unverified_sender, "neither it nor its domain is registered with SES"),
        (pending_sender, "example.com is not verified yet (PENDING): no receipts are sent"),
        (paused_mail, "SES sending is paused for this account"),
        (stack_failed, "ROLLBACK_COMPLETE"),
        (short_visibility, "needs at least 720 s"),
        (no_dead_letters, "does not point to the stack's dead letter queue"),
        (
            short_dead_letter_retention,
            "the dead letter queue keeps messages 4 days from the first send",
        ),
        (stopped_source, "event source mapping is disabled"),
        (no_source, "has no event source mapping"),
        (whole_batches, "one failure redelivers the whole batch"),
        (no_stream, "has no event source mapping"),
        (no_history, "event source mapping is disabled"),
        (no_concurrency, "reserved concurrency is 0"),
        (failed_function, "not running"),
        (
            short_function,
            "a payment.charge job may take 48 s, but the function times out after 20 s",
        ),
        (no_expiry, "rows never expire"),
        (other_expiry, "rows expire by ttl, not by expires_at"),
        (no_index, "is missing"),
        (index_being_created, "index charge_requested is CREATING"),
        (table_without_stream, "stream does not show old and new rows"),
        (stream_of_new_rows, "so the history is not written"),
        (history_with_a_gap, "1 open gaps since 2026-05-17: job changes are missing"),
        (rows_expire_early, "rows are kept 18 days, but a job could run again for 18 days"),
        (empty_key, "not set: its jobs cannot run"),
        (key_never_set, "not set: its jobs cannot run"),
        (no_recovery, "has no point-in-time recovery"),
        (no_identity, "has no identity item"),
        (restored_table, "names the table id T1, and DynamoDB says T2"),
        (key_of_two_lines, "an invalid character"),
        (invalid_key, "HubSpot rejects it: HTTP 401 INVALID_AUTHENTICATION"),
        (no_schedule, "disabled: unknown jobs are not resolved"),
        (failing_reconciler, "the last 3 sweeps failed"),
        (no_alarms, "the stack has no alarms"),
        (alarm_without_action, "send no notification: oldest"),
        (deleted_alarm, "missing: oldest"),
        (no_subscribers, "alerts are not delivered"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_broken_part_is_reported_with_fix(
    spoil: Callable[[FakeAwsAccount], None], sentence: str
) -> None:
    account = FakeAwsAccount()
    spoil(account)

    said = run_cli("doctor", "--json", connection=account.connection())

    found = [json.loads(line) for line in said.stdout.splitlines()]
    fault, *_ = (one for one in found if sentence in one["message"])
    assert (said.exit_code, fault["status"]) == (4, "broken")
    assert fault["fix"]


def test_idle_reconciler_is_healthy() -> None:
    account = FakeAwsAccount()
    account.sweeps.clear()

    assert run_cli("doctor", connection=account.connection()).exit_code == 0


def rolled_back(account: FakeAwsAccount) -> None:
    account.stack["StackStatus"] = "UPDATE_ROLLBACK_COMPLETE"


def no_versions(account: FakeAwsAccount) -> None:
    account.versioning = "Suspended"


def unread_key(account: FakeAwsAccount) -> None:
    account.secrets["stripe"] = client_error("DecryptionFailure")


def key_in_test_mode(account: FakeAwsAccount) -> None:
    account.secrets["stripe"] = "sk_test_secret"


def ringing_alarm(account: FakeAwsAccount) -> None:
    account.alarms["oldest"]["StateValue"] = "ALARM"


def unconfirmed(account: FakeAwsAccount) -> None:
    account.subscriptions.append(
        {"SubscriptionArn": "PendingConfirmation", "Endpoint": "new@example.com"}
    )


def waiting_rejects(account: FakeAwsAccount) -> None:
    account.queues["rejects"]["ApproximateNumberOfMessages"] = "2"


def some_sweeps_fail(account: FakeAwsAccount) -> None:
    account.sweeps.append({"status": "TIMED_OUT", "startDate": datetime.now(UTC)})


def unsharded_orders(account: FakeAwsAccount) -> None:
    account.unsharded_orders = [[], ["1001", "1002"]]


def job_in_review(account: FakeAwsAccount) -> None:
    account.world.run(charge_message("nobody"))


def many_jobs_in_review(account: FakeAwsAccount) -> None:
    account.world.run(charge_message("nobody"))
    (review,) = account.world.store.jobs.values()
    keys = [JobKey(f"payment.charge:order_{number}") for number in range(MAX_COUNT)]
    account.world.store.jobs |= {key: replace(review, job_key=key) for key in keys}


def forgotten_job(account: FakeAwsAccount) -> None:
    account.world.clock.time = datetime.now(UTC) - timedelta(hours=2, minutes=15)
    run_cli("send", "payment.charge", "order_id=1", connection=account.connection())
    account.world.clock.time = datetime.now(UTC)


def mail_on_probation(account: FakeAwsAccount) -> None:
    assert isinstance(account.mail, dict)
    account.mail["EnforcementStatus"] = "PROBATION"


def mail_not_readable(account: FakeAwsAccount) -> None:
    account.mail = client_error("AccessDeniedException")


def sender_not_readable(account: FakeAwsAccount) -> None:
    account.identities["receipts@mail.example.com"] = client_error("AccessDeniedException")


def small_account(account: FakeAwsAccount) -> None:
    account.concurrency_limit = 10


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (rolled_back, "the last deployment was rolled back"),
        (mail_on_probation, "AWS is reviewing this account's email and may pause it"),
        (mail_not_readable, "check failed: Access denied"),
        (sender_not_readable, "check failed: Access denied"),
        (small_account, "--quota-code L-B99A9384 --desired-value 1000"),
        (no_versions, "versioning is off"),
        (unread_key, "check failed: AWS rejected GetSecretValue (DecryptionFailure)"),
        (key_in_test_mode, "a test key is used in production"),
        (ringing_alarm, "in alarm: oldest is bad."),
        (unconfirmed, "new@example.com has not confirmed"),
        (waiting_rejects, "2 messages wait for their function"),
        (some_sweeps_fail, "1 of the last 2 sweeps failed"),
        (unsharded_orders, "2 of 2000 sampled orders have charge_requested_at without charge_"),
        (job_in_review, "1 job needs review Fix: oncely list --status needs_review"),
        (many_jobs_in_review, "1,000+ jobs need review"),
        (forgotten_job, "unresolved for 2 hours"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_degraded_part_is_warning_with_exit_code_zero(
    spoil: Callable[[FakeAwsAccount], None], sentence: str
) -> None:
    account = FakeAwsAccount()
    spoil(account)

    said = run_cli("doctor", connection=account.connection(name="Oncely-prod"))

    assert said.exit_code == 0, said.output
    assert "warning" in said.stdout
    assert sentence in " ".join(said.stdout.split())


def test_doctor_reads_bounded_number_of_orders() -> None:
    account = FakeAwsAccount()
    account.unsharded_orders = [[]] * 5 + [["never read"]]

    said = run_cli("doctor", connection=account.connection())

    assert "never read" not in said.stdout
    assert "5000 sampled" in " ".join(said.stdout.split())


@pytest.mark.parametrize(
    ("stack", "status", "exit_code"), [("Oncely-dev", "warning", 0), ("Oncely-prod", "broken", 4)]
)
def test_ses_sandbox_is_broken_in_production_only(stack: str, status: str, exit_code: int) -> None:
    account = FakeAwsAccount(mail={"SendingEnabled": True, "ProductionAccessEnabled": False})

    said = run_cli("doctor", "--json", connection=account.connection(name=stack))

    (finding,) = [
        one for one in map(json.loads, said.stdout.splitlines()) if one["check"] == "mail"
    ]
    assert finding["status"] == status
    assert "SES sandbox" in finding["message"]
    assert "request production access" in finding["fix"]
    assert said.exit_code == exit_code


@pytest.mark.parametrize(
    "identity", ["receipts@mail.example.com", "mail.example.com", "example.com"]
)
def test_sender_is_verified_through_address_or_parent_domain(identity: str) -> None:
    pending = {"VerifiedForSendingStatus": False, "VerificationStatus": "PENDING"}
    verified = {"VerifiedForSendingStatus": True, "VerificationStatus": "SUCCESS"}
    account = FakeAwsAccount(identities={"receipts@mail.example.com": pending, identity: verified})

    said = run_cli("doctor", connection=account.connection())

    assert f"verified through {identity}" in " ".join(said.stdout.split())
    assert "broken" not in said.stdout


@pytest.mark.parametrize("local", [False, True])
def test_ses_is_not_checked_when_no_mail_is_sent(*, local: bool) -> None:
    account = FakeAwsAccount(mail=client_error("AccessDeniedException"), identities={})
    if not local:
        del account.functions["mail"]["Environment"]["Variables"]["SES_SENDER_ADDRESS"]

    said = run_cli("doctor", connection=account.connection(is_local=local))

    assert said.exit_code == 0, said.output
    assert "sender" not in said.stdout


@pytest.mark.parametrize("key", ["pat-eu1-1", "a-service-key", "CiQ3MDVk"])
def test_hubspot_api_key_is_checked_by_hubspot_not_by_prefix(key: str) -> None:
    account = FakeAwsAccount()
    account.secrets["hubspot"] = key

    said = run_cli("doctor", connection=account.connection())

    assert said.exit_code == 0, said.output
    assert "HubSpot accepts it" in said.stdout


def test_hubspot_api_key_is_not_broken_when_check_fails() -> None:
    account = FakeAwsAccount()
    account.hubspot = ApiKeyCheck(accepted=None, reason="HTTP 503")

    said = run_cli("doctor", connection=account.connection())

    assert said.exit_code == 0, said.output
    assert "HubSpot could not check it: HTTP 503" in " ".join(said.stdout.split())


def test_unreadable_api_key_counts_as_present() -> None:
    account = FakeAwsAccount()
    account.secrets["stripe"] = client_error("AccessDeniedException")

    assert (
        "set (you do not have permission to read it)"
        in run_cli("doctor", connection=account.connection()).stdout
    )


def test_local_stack_needs_no_alert_subscriber() -> None:
    account = FakeAwsAccount()
    account.subscriptions.clear()

    assert run_cli("doctor", connection=account.connection(is_local=True)).exit_code == 0


def test_missing_stack_outputs_are_named() -> None:
    place = FakeAwsAccount().connection()
    place.outputs = {name: value for name, value in place.outputs.items() if "Hubspot" not in name}

    said = run_cli("doctor", connection=place)

    assert said.exit_code == 4
    assert "missing: HubspotSecretArn" in said.stdout


def test_doctor_constants_match_infrastructure() -> None:
    planned = {name: {index.name for index in plan.indexes} for name, plan in TABLE_SCHEMAS.items()}

    assert CHECKED_FACTOR == VISIBILITY_FACTOR
    assert {name: set(indexes) for name, indexes in INDEXES.items()} == {
        name: indexes for name, indexes in planned.items() if indexes
    }
