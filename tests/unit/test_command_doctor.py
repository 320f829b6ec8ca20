"""`oncely doctor`: a healthy stack has no findings, and each fault is named with its fix."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from oncely.cli.health_checks.queues import VISIBILITY_FACTOR as CHECKED_FACTOR
from oncely.cli.health_checks.tables import JOB_INDEXES
from oncely.domain.keys import JobKey
from oncely.operate.job_queries import MAX_COUNT
from oncely.provider import ApiKeyCheck
from oncely_cdk.guardrails import VISIBILITY_FACTOR
from oncely_cdk.table_schemas import JOBS_SCHEMA
from tests.support.cli import run_cli
from tests.support.fake_aws_account import FakeAwsAccount, client_error, queue_arn
from tests.support.in_memory_stack import charge_message


def test_healthy_stack_has_nothing_to_fix() -> None:
    result = run_cli("doctor", connection=FakeAwsAccount().connection())

    assert result.exit_code == 0, result.output
    assert "broken" not in result.stdout
    assert "warning" not in result.stdout
    assert "sk_live" not in result.output


Spoil = Callable[[FakeAwsAccount], object]


def put(**fields: object) -> Spoil:
    return lambda account: account.__dict__.update(fields)


def history_with_a_gap(account: FakeAwsAccount) -> None:
    gap = {"name": "a", "recorded_at": "2026-05-17T12:00:00Z"}
    account.objects["history/gaps/a.gap.json"] = json.dumps(gap).encode()


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
        (lambda a: a.identities.clear(), "neither it nor its domain is registered with SES"),
        (pending_sender, "example.com is not verified yet (PENDING): no receipts are sent"),
        (paused_mail, "SES sending is paused for this account"),
        (lambda a: a.stack.update(StackStatus="ROLLBACK_COMPLETE"), "ROLLBACK_COMPLETE"),
        (lambda a: a.queues["payments"].update(VisibilityTimeout="719"), "needs at least 720 s"),
        (
            lambda a: a.queues["mail"].update(RedrivePolicy=""),
            "does not point to the stack's dead letter queue",
        ),
        (
            lambda a: a.queues["dead_letter"].update(MessageRetentionPeriod="345600"),
            "the dead letter queue keeps messages 4 days from the first send",
        ),
        (
            lambda a: a.mappings[queue_arn("sync")].update(State="Disabled"),
            "event source sync: event source mapping is disabled",
        ),
        (
            lambda a: a.mappings.pop(queue_arn("payments")),
            "event source payments: has no event source mapping",
        ),
        (
            lambda a: a.mappings[queue_arn("payments")].update(FunctionResponseTypes=[]),
            "one failure redelivers the whole batch",
        ),
        (
            lambda a: a.mappings.pop("arn:table/jobs/stream/1#publish_ended"),
            "event source stream, publisher: has no event source mapping",
        ),
        (
            lambda a: a.mappings["arn:table/jobs/stream/1#archive_history"].update(
                State="Disabled"
            ),
            "event source stream, history: event source mapping is disabled",
        ),
        (lambda a: a.concurrency.update(payments=0), "reserved concurrency is 0"),
        (lambda a: a.functions["payments"].update(LastUpdateStatus="Failed"), "not running"),
        (
            lambda a: a.functions["payments"].update(Timeout=20),
            "a payment.charge job may take 48 s, but the function times out after 20 s",
        ),
        (lambda a: a.expiry.update(TimeToLiveStatus="DISABLED"), "rows never expire"),
        (lambda a: a.expiry.update(AttributeName="ttl"), "rows expire by ttl, not by expires_at"),
        (lambda a: a.tables["jobs"]["GlobalSecondaryIndexes"].pop(), "is missing"),
        (
            lambda a: a.tables["orders"]["GlobalSecondaryIndexes"][0].update(
                IndexStatus="CREATING"
            ),
            "index charge_requested is CREATING",
        ),
        (
            lambda a: a.tables["jobs"].update(StreamSpecification={}),
            "stream does not show old and new rows",
        ),
        (
            lambda a: a.tables["jobs"]["StreamSpecification"].update(StreamViewType="NEW_IMAGE"),
            "so the history is not written",
        ),
        (history_with_a_gap, "1 open gaps since 2026-05-17: job changes are missing"),
        (
            lambda a: a.functions["publish_ended"]["Environment"]["Variables"].update(
                RETENTION_DAYS="18"
            ),
            "rows are kept 18 days, but a job could run again for 18 days",
        ),
        (lambda a: a.secrets.update(stripe=" "), "not set: its jobs cannot run"),
        (
            lambda a: a.secrets.update(stripe=client_error("ResourceNotFoundException")),
            "API key of stripe: not set: its jobs cannot run",
        ),
        (put(recovery="DISABLED"), "has no point-in-time recovery"),
        (put(identity={}), "has no identity item"),
        (
            lambda a: a.tables["jobs"].update(TableId="T2"),
            "names the table id T1, and DynamoDB says T2",
        ),
        (
            lambda a: a.secrets.update(stripe="sk_live_secret\nsk_live_secret"),
            "an invalid character",
        ),
        (
            put(hubspot=ApiKeyCheck(accepted=False, reason="HTTP 401 INVALID_AUTHENTICATION")),
            "HubSpot rejects it: HTTP 401 INVALID_AUTHENTICATION",
        ),
        (put(schedule="DISABLED"), "disabled: unknown jobs are not resolved"),
        (
            put(sweeps=[{"status": "FAILED", "startDate": datetime.now(UTC)}] * 3),
            "the last 3 sweeps failed",
        ),
        (lambda a: a.alarms.clear(), "the stack has no alarms"),
        (lambda a: a.alarms["oldest"].update(AlarmActions=[]), "send no notification: oldest"),
        (put(missing_alarms={"oldest"}), "missing: oldest"),
        (lambda a: a.subscriptions.clear(), "alerts are not delivered"),
    ],
)
def test_broken_part_is_reported_with_fix(spoil: Spoil, sentence: str) -> None:
    account = FakeAwsAccount()
    spoil(account)

    result = run_cli("doctor", "--json", connection=account.connection())

    found = [json.loads(line) for line in result.stdout.splitlines()]
    fault, *_ = (one for one in found if sentence in f"{one['check']}: {one['message']}")
    assert (result.exit_code, fault["status"]) == (4, "broken")
    assert fault["fix"]


def test_idle_reconciler_is_healthy() -> None:
    account = FakeAwsAccount()
    account.sweeps.clear()

    assert run_cli("doctor", connection=account.connection()).exit_code == 0


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


def sender_not_readable(account: FakeAwsAccount) -> None:
    account.identities["receipts@mail.example.com"] = client_error("AccessDeniedException")


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (
            lambda a: a.stack.update(StackStatus="UPDATE_ROLLBACK_COMPLETE"),
            "the last deployment was rolled back",
        ),
        (mail_on_probation, "AWS is reviewing this account's email and may pause it"),
        (put(mail=client_error("AccessDeniedException")), "check failed: Access denied"),
        (sender_not_readable, "check failed: Access denied"),
        (put(concurrency_limit=10), "--quota-code L-B99A9384 --desired-value 1000"),
        (put(versioning="Suspended"), "versioning is off"),
        (
            lambda a: a.secrets.update(stripe=client_error("DecryptionFailure")),
            "check failed: AWS rejected GetSecretValue (DecryptionFailure)",
        ),
        (lambda a: a.secrets.update(stripe="sk_test_secret"), "a test key is used in production"),
        (
            lambda a: a.alarms["oldest"].update(StateValue="ALARM"),
            "in alarm: oldest is bad Fix: oncely list --status unknown",
        ),
        (
            lambda a: a.subscriptions.append(
                {"SubscriptionArn": "PendingConfirmation", "Endpoint": "new@example.com"}
            ),
            "new@example.com has not confirmed",
        ),
        (
            lambda a: a.queues["rejects"].update(ApproximateNumberOfMessages="2"),
            "2 messages wait for their function",
        ),
        (
            lambda a: a.sweeps.append({"status": "TIMED_OUT", "startDate": datetime.now(UTC)}),
            "1 of the last 2 sweeps failed",
        ),
        (
            put(unsharded_orders=[[], ["1001", "1002"]]),
            "2 of 2000 sampled rows have charge_requested_at without charge_",
        ),
        (
            lambda a: a.world.run(charge_message("nobody")),
            "1 job needs review Fix: oncely list --status needs_review",
        ),
        (many_jobs_in_review, "1,000+ jobs need review"),
        (forgotten_job, "unresolved for 2 hours"),
    ],
)
def test_degraded_part_is_warning_with_exit_code_zero(spoil: Spoil, sentence: str) -> None:
    account = FakeAwsAccount()
    spoil(account)

    result = run_cli("doctor", connection=account.connection(name="Oncely-prod"))

    assert result.exit_code == 0, result.output
    assert "warning" in result.stdout
    assert sentence in " ".join(result.stdout.split())


def test_doctor_reads_bounded_number_of_orders() -> None:
    account = FakeAwsAccount()
    account.unsharded_orders = [[]] * 5 + [["never read"]]

    result = run_cli("doctor", connection=account.connection())

    assert "never read" not in result.stdout
    assert "5000 rows sampled" in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("stack", "status", "exit_code"),
    [("Oncely-dev", "warning", 0), ("Oncely-prod", "broken", 4)],
)
def test_ses_sandbox_is_broken_in_production_only(stack: str, status: str, exit_code: int) -> None:
    account = FakeAwsAccount(mail={"SendingEnabled": True, "ProductionAccessEnabled": False})

    result = run_cli("doctor", "--json", connection=account.connection(name=stack))

    (finding,) = [
        one for one in map(json.loads, result.stdout.splitlines()) if one["check"] == "mail"
    ]
    assert finding["status"] == status
    assert "SES sandbox" in finding["message"]
    assert "request production access" in finding["fix"]
    assert result.exit_code == exit_code


@pytest.mark.parametrize(
    "identity", ["receipts@mail.example.com", "mail.example.com", "example.com"]
)
def test_sender_is_verified_through_address_or_parent_domain(identity: str) -> None:
    pending = {"VerifiedForSendingStatus": False, "VerificationStatus": "PENDING"}
    verified = {"VerifiedForSendingStatus": True, "VerificationStatus": "SUCCESS"}
    account = FakeAwsAccount(identities={"receipts@mail.example.com": pending, identity: verified})

    result = run_cli("doctor", connection=account.connection())

    assert f"verified through {identity}" in " ".join(result.stdout.split())
    assert "broken" not in result.stdout


@pytest.mark.parametrize("local", [False, True])
def test_ses_is_not_checked_when_no_mail_is_sent(*, local: bool) -> None:
    account = FakeAwsAccount(mail=client_error("AccessDeniedException"), identities={})
    connection = account.connection(is_local=local)
    if not local:
        connection.outputs = {**connection.outputs, "SesSenderAddress": ""}

    result = run_cli("doctor", connection=connection)

    assert result.exit_code == 0, result.output
    assert "sender" not in result.stdout


@pytest.mark.parametrize("key", ["pat-eu1-1", "a-service-key", "CiQ3MDVk"])
def test_hubspot_api_key_is_checked_by_hubspot_not_by_prefix(key: str) -> None:
    account = FakeAwsAccount()
    account.secrets["hubspot"] = key

    result = run_cli("doctor", connection=account.connection())

    assert result.exit_code == 0, result.output
    assert "HubSpot accepts it" in result.stdout


def test_hubspot_api_key_is_not_broken_when_check_fails() -> None:
    account = FakeAwsAccount()
    account.hubspot = ApiKeyCheck(accepted=None, reason="HTTP 503")

    result = run_cli("doctor", connection=account.connection())

    assert result.exit_code == 0, result.output
    assert "HubSpot could not check it: HTTP 503" in " ".join(result.stdout.split())


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
    connection = FakeAwsAccount().connection()
    connection.outputs = {
        name: value for name, value in connection.outputs.items() if "Hubspot" not in name
    }

    result = run_cli("doctor", connection=connection)

    assert result.exit_code == 4
    assert "missing: HubspotSecretArn" in result.stdout


def test_doctor_constants_match_infrastructure() -> None:
    assert CHECKED_FACTOR == VISIBILITY_FACTOR
    assert set(JOB_INDEXES) == {index.name for index in JOBS_SCHEMA.indexes}
