"""`oncely doctor`: a healthy stack has no findings, and each fault is reported with its fix."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from oncely.cli.health_checks import VISIBILITY_FACTOR as CHECKED_FACTOR
from oncely.core.keys import JobKey
from oncely.operate.job_queries import MAX_COUNT
from oncely.plugins.provider import ApiKeyCheck
from oncely_cdk.stages import VISIBILITY_FACTOR
from tests.support.cli import run_cli
from tests.support.fake_aws_account import (
    FakeAwsAccount,
    client_error,
    order_item,
    queue_arn,
)


def test_healthy_stack_has_nothing_to_fix() -> None:
    result = run_cli("doctor", connection=FakeAwsAccount().connection())

    assert result.exit_code == 0, result.output
    assert "broken" not in result.stdout
    assert "warning" not in result.stdout
    assert "sk_live" not in result.output


Spoil = Callable[[FakeAwsAccount], object]


def put(*path: str | int, **fields: object) -> Spoil:
    """Change fields of the account, or of the dictionary at this path in it."""

    def change(account: FakeAwsAccount) -> None:
        at: Any = vars(account)
        for name in path:
            at = at[name]
        at.update(fields)

    return change


REQUESTED_INDEX = ("tables", "orders", "GlobalSecondaryIndexes", 0)
STREAM = "arn:table/jobs/stream/1"
GAP = b'{"name": "a", "recorded_at": "2026-05-17T12:00:00Z"}'
FAILED_SWEEP = {"status": "FAILED", "startDate": datetime.now(UTC)}
DENIED = client_error("AccessDeniedException")
BAD_KEY = ApiKeyCheck(accepted=False, reason="HTTP 401 INVALID_AUTHENTICATION")
PENDING = {"VerifiedForSendingStatus": False, "VerificationStatus": "PENDING"}
BROKEN: dict[str, Spoil] = {
    "neither it nor its domain is registered with SES": put(identities={}),
    "example.com is not verified yet (PENDING): no receipts are sent": put(
        identities={"example.com": PENDING}
    ),
    "SES sending is paused for this account": put("mail", SendingEnabled=False),
    "the configuration set does not exist: no receipts are sent": put(
        mail_events=client_error("NotFoundException")
    ),
    "ROLLBACK_COMPLETE": put("stack", StackStatus="ROLLBACK_COMPLETE"),
    "needs at least 720 s": put("queues", "payments", VisibilityTimeout="719"),
    "does not point to the stack's dead letter queue": put("queues", "mail", RedrivePolicy=""),
    "the dead letter queue keeps messages 4 days from the first send": put(
        "queues", "dead_letter", MessageRetentionPeriod="345600"
    ),
    "event source sync: event source mapping is disabled": put(
        "mappings", queue_arn("sync"), State="Disabled"
    ),
    "event source payments: has no event source mapping": (
        lambda account: account.mappings.pop(queue_arn("payments"))
    ),
    "one failure redelivers the whole batch": put(
        "mappings", queue_arn("payments"), FunctionResponseTypes=[]
    ),
    "event source stream, publisher: has no event source mapping": (
        lambda account: account.mappings.pop(f"{STREAM}#publish_ended")
    ),
    "event source stream, history: event source mapping is disabled": put(
        "mappings", f"{STREAM}#archive_history", State="Disabled"
    ),
    "reserved concurrency is 0": put("concurrency", payments=0),
    "not running": put("functions", "payments", LastUpdateStatus="Failed"),
    "a payment.charge job may take 48 s, but the function times out after 20 s": put(
        "functions", "payments", Timeout=20
    ),
    "rows never expire": put("expiry", TimeToLiveStatus="DISABLED"),
    "TTL of table import_events: TTL is off": put("expiry", TimeToLiveStatus="DISABLED"),
    "rows expire by ttl, not by expires_at": put("expiry", AttributeName="ttl"),
    "is missing": lambda account: account.tables["jobs"]["GlobalSecondaryIndexes"].pop(),
    "index charge_requested is CREATING": lambda account: account.tables["orders"][
        "GlobalSecondaryIndexes"
    ][0].update(IndexStatus="CREATING"),
    "stream does not show old and new rows": put("tables", "jobs", StreamSpecification={}),
    "so the history is not written": put(
        "tables", "jobs", "StreamSpecification", StreamViewType="NEW_IMAGE"
    ),
    "1 open gaps since 2026-05-17: job changes are missing": put(
        "objects", **{"history/gaps/a.gap.json": GAP}
    ),
    "rows are kept 18 days, but a job could run again for 18 days": put(
        "functions", "publish_ended", "Environment", "Variables", RETENTION_DAYS="18"
    ),
    "not set: its jobs cannot run": put("secrets", stripe=" "),
    "API key of stripe: not set: its jobs cannot run": put(
        "secrets", stripe=client_error("ResourceNotFoundException")
    ),
    "keys of orders: the table has the key id, but the jobs use order_id": put(
        "tables", "orders", KeySchema=[{"AttributeName": "id"}]
    ),
    "the table has a key that is not a string: order_id": put(
        "tables",
        "orders",
        AttributeDefinitions=[{"AttributeName": "order_id", "AttributeType": "N"}],
        GlobalSecondaryIndexes=[],
    ),
    "index charge_requested has the key charge_requested_at, but the jobs use charge_shard": put(
        *REQUESTED_INDEX, KeySchema=[{"AttributeName": "charge_requested_at"}]
    ),
    "index charge_requested does not project status": put(
        *REQUESTED_INDEX, Projection={"ProjectionType": "KEYS_ONLY"}
    ),
    "columns of orders: none of 1 sampled rows has amount": put(
        order_rows=[order_item(amount=None)]
    ),
    "amount is not of type number in 1 of 1 sampled rows": put(
        order_rows=[order_item(amount="12.50")]
    ),
    "has no point-in-time recovery": put(recovery="DISABLED"),
    "has no identity item": put(identity={}),
    "names the table id T1, and DynamoDB says T2": put("tables", "jobs", TableId="T2"),
    "an invalid character": put("secrets", stripe="sk_live_secret\nsk_live_secret"),
    "HubSpot rejects it: HTTP 401 INVALID_AUTHENTICATION": put(hubspot=BAD_KEY),
    "disabled: unknown jobs are not resolved": put(schedule="DISABLED"),
    "the last 3 sweeps failed": put(sweeps=[FAILED_SWEEP] * 3),
    "the stack has no alarms": put(alarms={}),
    "send no notification: oldest": put("alarms", "oldest", AlarmActions=[]),
    "missing: oldest": put(missing_alarms={"oldest"}),
    "alerts are not delivered": put(subscriptions=[]),
}


@pytest.mark.parametrize(("sentence", "spoil"), BROKEN.items())
def test_broken_part_is_reported_with_fix(sentence: str, spoil: Spoil) -> None:
    account = FakeAwsAccount()
    spoil(account)

    result = run_cli("doctor", "--json", connection=account.connection())

    found = [json.loads(line) for line in result.stdout.splitlines()]
    fault, *_ = (one for one in found if sentence in f"{one['check']}: {one['message']}")
    assert (result.exit_code, fault["status"]) == (4, "broken")
    assert fault["fix"]


def many_jobs_in_review(account: FakeAwsAccount) -> None:
    account.world.run_to_review("nobody")
    (review,) = account.world.store.jobs.values()
    keys = [JobKey(f"payment.charge:order_{number}") for number in range(MAX_COUNT)]
    account.world.store.jobs.update({key: replace(review, job_key=key) for key in keys})


def forgotten_job(account: FakeAwsAccount) -> None:
    account.world.clock.time = datetime.now(UTC) - timedelta(hours=2, minutes=15)
    run_cli("send", "payment.charge", "order_id=1", connection=account.connection())
    account.world.clock.time = datetime.now(UTC)


DEGRADED: dict[str, Spoil] = {
    "the last deployment was rolled back": put("stack", StackStatus="UPDATE_ROLLBACK_COMPLETE"),
    "AWS is reviewing this account's email and may pause it": put(
        "mail", EnforcementStatus="PROBATION"
    ),
    "BOUNCE, COMPLAINT, SEND events do not reach EventBridge": put(
        "mail_events", "EventDestinations", 0, Enabled=False
    ),
    "providers check failed: Access denied": put(mail=DENIED),
    "check failed: Access denied": put("identities", **{"receipts@mail.example.com": DENIED}),
    "--quota-code L-B99A9384 --desired-value 1000": put(concurrency_limit=10),
    "versioning is off": put(versioning="Suspended"),
    "check failed: AWS rejected GetSecretValue (DecryptionFailure)": put(
        "secrets", stripe=client_error("DecryptionFailure")
    ),
    "a test key is used in production": put("secrets", stripe="sk_test_secret"),
    "in alarm: oldest is bad Fix: oncely list --status unknown": put(
        "alarms", "oldest", StateValue="ALARM"
    ),
    "new@example.com has not confirmed": lambda account: account.subscriptions.append(
        {"SubscriptionArn": "PendingConfirmation", "Endpoint": "new@example.com"}
    ),
    "2 messages wait for their function": put("queues", "rejects", ApproximateNumberOfMessages="2"),
    "1 of the last 2 sweeps failed": lambda account: account.sweeps.append(FAILED_SWEEP),
    "2 of 2000 sampled rows have charge_requested_at without charge_": put(
        unsharded_orders=[[], ["1001", "1002"]]
    ),
    "currency is not of type text in 1 of 2 sampled rows": put(
        order_rows=[order_item(), order_item(currency=978)]
    ),
    "1 job needs review Fix: oncely list --status needs_review": (
        lambda account: account.world.run_to_review("nobody")
    ),
    "1,000+ jobs need review": many_jobs_in_review,
    " UTC (2 h ago)": forgotten_job,
}


@pytest.mark.parametrize(("sentence", "spoil"), DEGRADED.items())
def test_degraded_part_is_warning_with_exit_code_zero(sentence: str, spoil: Spoil) -> None:
    account = FakeAwsAccount()
    spoil(account)

    result = run_cli("doctor", connection=account.connection(name="Oncely-prod"))

    assert result.exit_code == 0, result.output
    assert "warning" in result.stdout
    assert sentence in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("stack", "status", "exit_code"), [("Oncely-dev", "warning", 0), ("Oncely-prod", "broken", 4)]
)
def test_ses_sandbox_is_broken_in_production_only(stack: str, status: str, exit_code: int) -> None:
    account = FakeAwsAccount(mail={"SendingEnabled": True, "ProductionAccessEnabled": False})

    result = run_cli("doctor", "--json", connection=account.connection(name=stack))

    findings = map(json.loads, result.stdout.splitlines())
    (finding,) = [one for one in findings if one["check"] == "mail"]
    assert finding["status"] == status
    assert "SES sandbox" in finding["message"]
    assert "request production access" in finding["fix"]
    assert result.exit_code == exit_code


@pytest.mark.parametrize(
    "identity", ["receipts@mail.example.com", "mail.example.com", "example.com"]
)
def test_sender_is_verified_through_address_or_parent_domain(identity: str) -> None:
    verified = {"VerifiedForSendingStatus": True, "VerificationStatus": "SUCCESS"}
    account = FakeAwsAccount(identities={"receipts@mail.example.com": PENDING, identity: verified})

    result = run_cli("doctor", connection=account.connection())

    assert f"verified through {identity}" in " ".join(result.stdout.split())
    assert "broken" not in result.stdout


@pytest.mark.parametrize("local", [False, True])
def test_ses_is_not_checked_when_no_mail_is_sent(*, local: bool) -> None:
    connection = FakeAwsAccount(mail=DENIED, identities={}).connection(is_local=local)
    if not local:
        connection.outputs = {**connection.outputs, "SesSenderAddress": ""}

    result = run_cli("doctor", connection=connection)

    assert result.exit_code == 0, result.output
    assert "sender" not in result.stdout


CANNOT_CHECK = ApiKeyCheck(accepted=None, reason="HTTP 503")


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (put(sweeps=[]), "reconciler"),
        # In any format: HubSpot checks the key, not its prefix.
        pytest.param(put("secrets", hubspot="pat-eu1-1"), "HubSpot accepts it", id="private app"),
        pytest.param(put("secrets", hubspot="a-service-key"), "HubSpot accepts it", id="service"),
        pytest.param(put("secrets", hubspot="CiQ3MDVk"), "HubSpot accepts it", id="other"),
        (put(hubspot=CANNOT_CHECK), "HubSpot could not check it: HTTP 503"),
        (put("secrets", stripe=DENIED), "set (you do not have permission to read it)"),
        (put(order_rows=[]), "0 rows sampled"),
        (put(order_rows=[order_item(), order_item(amount=None)]), "2 rows sampled, with every"),
        (put(unsharded_orders=[[]] * 5 + [["never read"]]), "5000 rows sampled"),
    ],
)
def test_variant_that_works_is_not_broken(spoil: Spoil, sentence: str) -> None:
    account = FakeAwsAccount()
    spoil(account)

    result = run_cli("doctor", connection=account.connection())

    assert result.exit_code == 0, result.output
    assert sentence in " ".join(result.stdout.split())
    assert "never read" not in result.stdout


def test_mapped_columns_are_checked_under_their_own_names() -> None:
    account = FakeAwsAccount()
    account.tables["orders"]["KeySchema"] = [{"AttributeName": "id"}]
    account.tables["orders"]["AttributeDefinitions"] += [
        {"AttributeName": "id", "AttributeType": "S"}
    ]
    account.order_rows = [order_item(amount=None, total_cents=1250, id="1001")]
    connection = account.connection()
    mapped = {"OrdersColumns": '{"order_id": "id", "amount": "total_cents"}'}
    connection.outputs = {**connection.outputs, **mapped}
    assert run_cli("doctor", connection=connection).exit_code == 0

    account.order_rows = [order_item(id="1001")]  # its `amount` is another column

    result = run_cli("doctor", connection=connection)
    assert "has total_cents, the column for amount" in " ".join(result.stdout.split())
    assert result.exit_code == 4


def test_read_only_api_key_is_checked_too() -> None:
    account = FakeAwsAccount()
    account.secrets["stripe-read-only"] = ""
    connection = account.connection()
    connection.outputs = {**connection.outputs, "StripeReadOnlySecretArn": "stripe-read-only"}

    result = run_cli("doctor", "--json", connection=connection)

    found = {one["check"]: one for one in map(json.loads, result.stdout.splitlines())}
    assert found["read-only API key of stripe"]["status"] == "broken"
    assert "--secret-id stripe-read-only" in found["read-only API key of stripe"]["fix"]
    assert found["API key of stripe"]["status"] == "ok"


def test_existing_table_may_lack_an_index() -> None:
    account = FakeAwsAccount()
    account.tables["orders"]["GlobalSecondaryIndexes"] = []
    connection = account.connection()
    connection.outputs = {**connection.outputs, "ExistingTables": "orders,records"}

    result = run_cli("doctor", connection=connection)

    shown = " ".join(result.stdout.split())
    assert result.exit_code == 0, result.output
    assert "index charge_requested is missing: the reconciler does not find rows" in shown
    assert "active, with all indexes" in shown  # the other tables


def test_local_stack_needs_no_alert_subscriber() -> None:
    account = FakeAwsAccount(subscriptions=[])
    assert run_cli("doctor", connection=account.connection(is_local=True)).exit_code == 0


def test_missing_stack_outputs_are_named() -> None:
    stack = FakeAwsAccount().connection()
    stack.outputs = {name: value for name, value in stack.outputs.items() if "Hubspot" not in name}

    result = run_cli("doctor", connection=stack)

    assert result.exit_code == 4
    assert "missing: HubspotSecretArn" in result.stdout


def test_doctor_constants_match_infrastructure() -> None:
    assert CHECKED_FACTOR == VISIBILITY_FACTOR
