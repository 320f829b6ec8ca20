"""`oncely doctor`: a healthy stack is quiet, and each thing that may break is named."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from infra.guardrails import VISIBILITY_FACTOR
from infra.table_plans import PLANS
from oncely.adapters.hubspot_keys import KeyCheck
from oncely.domain.keys import JobKey
from oncely.services.inspect import MOST_COUNTED
from ops_cli.checkup.queues import VISIBILITY_FACTOR as CHECKED_FACTOR
from ops_cli.checkup.tables import INDEXES
from tests.support.account import Account, arn, refused
from tests.support.command import oncely
from tests.support.world import charge


def test_healthy_stack_has_nothing_to_fix() -> None:
    said = oncely("doctor", place=Account().place())

    assert said.exit_code == 0, said.output
    assert "broken" not in said.stdout
    assert "warning" not in said.stdout
    assert "sk_live" not in said.output


def stack_failed(account: Account) -> None:
    account.stack["StackStatus"] = "ROLLBACK_COMPLETE"


def short_visibility(account: Account) -> None:
    account.queues["payments"]["VisibilityTimeout"] = "719"


def no_dead_letters(account: Account) -> None:
    account.queues["mail"]["RedrivePolicy"] = ""


def forgetful_dead_letters(account: Account) -> None:
    account.queues["dead_letter"]["MessageRetentionPeriod"] = "345600"


def stopped_source(account: Account) -> None:
    account.mappings[arn("sync")]["State"] = "Disabled"


def no_source(account: Account) -> None:
    del account.mappings[arn("payments")]


def whole_batches(account: Account) -> None:
    account.mappings[arn("payments")]["FunctionResponseTypes"] = []


def no_stream(account: Account) -> None:
    del account.mappings["arn:table/jobs/stream/1#publish_ended"]


def no_history(account: Account) -> None:
    account.mappings["arn:table/jobs/stream/1#archive_history"]["State"] = "Disabled"


def no_concurrency(account: Account) -> None:
    account.concurrency["payments"] = 0


def failed_function(account: Account) -> None:
    account.functions["payments"]["LastUpdateStatus"] = "Failed"


def short_function(account: Account) -> None:
    account.functions["payments"]["Timeout"] = 20


def no_expiry(account: Account) -> None:
    account.expiry["TimeToLiveStatus"] = "DISABLED"


def other_expiry(account: Account) -> None:
    account.expiry["AttributeName"] = "ttl"


def no_index(account: Account) -> None:
    account.tables["jobs"]["GlobalSecondaryIndexes"].pop()


def index_in_the_making(account: Account) -> None:
    account.tables["orders"]["GlobalSecondaryIndexes"][0]["IndexStatus"] = "CREATING"


def table_without_stream(account: Account) -> None:
    account.tables["jobs"]["StreamSpecification"] = {}


def stream_of_new_rows(account: Account) -> None:
    account.tables["jobs"]["StreamSpecification"]["StreamViewType"] = "NEW_IMAGE"


def history_with_a_gap(account: Account) -> None:
    gap = {"name": "a", "recorded_at": "2026-05-17T12:00:00Z"}
    account.objects["history/gaps/a.gap.json"] = json.dumps(gap).encode()


def rows_go_early(account: Account) -> None:
    account.functions["publish_ended"]["Environment"]["Variables"]["RETENTION_DAYS"] = "18"


def no_recovery(account: Account) -> None:
    account.recovery = "DISABLED"


def no_identity(account: Account) -> None:
    account.identity = {}


def restored_table(account: Account) -> None:
    account.tables["jobs"]["TableId"] = "T2"


def empty_key(account: Account) -> None:
    account.secrets["stripe"] = " "


def key_never_put_in(account: Account) -> None:
    account.secrets["stripe"] = refused("ResourceNotFoundException")


def key_of_two_lines(account: Account) -> None:
    account.secrets["stripe"] = "sk_live_secret\nsk_live_secret"


def made_up_key(account: Account) -> None:
    account.hubspot = KeyCheck(accepted=False, reason="HTTP 401 INVALID_AUTHENTICATION")


def no_schedule(account: Account) -> None:
    account.schedule = "DISABLED"


def failing_reconciler(account: Account) -> None:
    account.sweeps = [{"status": "FAILED", "startDate": datetime.now(UTC)}] * 3


def no_alarms(account: Account) -> None:
    account.alarms.clear()


def mute_alarm(account: Account) -> None:
    account.alarms["oldest"]["AlarmActions"] = []


def deleted_alarm(account: Account) -> None:
    account.missing_alarms = {"oldest"}


def nobody_listens(account: Account) -> None:
    account.subscriptions.clear()


def unverified_sender(account: Account) -> None:
    account.identities.clear()


def pending_sender(account: Account) -> None:
    account.identities["example.com"] = {
        "VerifiedForSendingStatus": False,
        "VerificationStatus": "PENDING",
    }


def paused_mail(account: Account) -> None:
    assert isinstance(account.mail, dict)
    account.mail["SendingEnabled"] = False


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (unverified_sender, "SES does not know it, nor its domain, in this region"),
        (pending_sender, "example.com is not verified yet (PENDING): no receipt is sent"),
        (paused_mail, "SES does not send for this account: sending is paused"),
        (stack_failed, "ROLLBACK_COMPLETE"),
        (short_visibility, "at least 720 s are needed"),
        (no_dead_letters, "does not go to the dead letters"),
        (forgetful_dead_letters, "dead letters are kept 4 days from the first send"),
        (stopped_source, "its function is not fed: the mapping is off"),
        (no_source, "no function is fed from it"),
        (whole_batches, "one bad message brings its whole batch back"),
        (no_stream, "no function is fed from it"),
        (no_history, "its function is not fed: the mapping is off"),
        (no_concurrency, "its reserved concurrency is 0"),
        (failed_function, "it does not run"),
        (short_function, "one payment.charge may take 48 s, it is stopped after 20 s"),
        (no_expiry, "rows never expire"),
        (other_expiry, "rows expire by ttl, not by expires_at"),
        (no_index, "is missing"),
        (index_in_the_making, "its index charge_requested is CREATING"),
        (table_without_stream, "its stream does not show old and new rows"),
        (stream_of_new_rows, "so the history is not written"),
        (history_with_a_gap, "1 gaps since 2026-05-17: changes of jobs are missing"),
        (rows_go_early, "rows are kept 18 days, a job could run again for 18"),
        (empty_key, "it is empty: no job of it can run"),
        (key_never_put_in, "it was never put in"),
        (no_recovery, "has no point-in-time recovery"),
        (no_identity, "has no identity item"),
        (restored_table, "names the table id T1, and DynamoDB says T2"),
        (key_of_two_lines, "a character that no API key has"),
        (made_up_key, "HubSpot rejects it: HTTP 401 INVALID_AUTHENTICATION"),
        (no_schedule, "it is off: unknown jobs stay unknown"),
        (failing_reconciler, "the last 3 sweeps did not succeed"),
        (no_alarms, "there are none"),
        (mute_alarm, "tell nobody: oldest"),
        (deleted_alarm, "missing: oldest"),
        (nobody_listens, "nobody hears them"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_broken_part_is_reported_with_fix(spoil: Callable[[Account], None], sentence: str) -> None:
    account = Account()
    spoil(account)

    said = oncely("doctor", "--json", place=account.place())

    found = [json.loads(line) for line in said.stdout.splitlines()]
    fault, *_ = (one for one in found if sentence in one["says"])
    assert (said.exit_code, fault["health"]) == (4, "broken")
    assert fault["mend"]


def test_idle_reconciler_is_healthy() -> None:
    account = Account()
    account.sweeps.clear()

    assert oncely("doctor", place=account.place()).exit_code == 0


def rolled_back(account: Account) -> None:
    account.stack["StackStatus"] = "UPDATE_ROLLBACK_COMPLETE"


def no_versions(account: Account) -> None:
    account.versioning = "Suspended"


def unread_key(account: Account) -> None:
    account.secrets["stripe"] = refused("DecryptionFailure")


def key_for_tests(account: Account) -> None:
    account.secrets["stripe"] = "sk_test_secret"


def ringing_alarm(account: Account) -> None:
    account.alarms["oldest"]["StateValue"] = "ALARM"


def unconfirmed(account: Account) -> None:
    account.subscriptions.append(
        {"SubscriptionArn": "PendingConfirmation", "Endpoint": "new@example.com"}
    )


def waiting_rejects(account: Account) -> None:
    account.queues["rejects"]["ApproximateNumberOfMessages"] = "2"


def some_sweeps_fail(account: Account) -> None:
    account.sweeps.append({"status": "TIMED_OUT", "startDate": datetime.now(UTC)})


def orders_without_a_shard(account: Account) -> None:
    account.orders_without_a_shard = [[], ["1001", "1002"]]


def job_for_a_person(account: Account) -> None:
    account.world.run(charge("nobody"))


def jobs_for_many_people(account: Account) -> None:
    account.world.run(charge("nobody"))
    (review,) = account.world.store.jobs.values()
    keys = [JobKey(f"payment.charge:order_{number}") for number in range(MOST_COUNTED)]
    account.world.store.jobs |= {key: replace(review, job_key=key) for key in keys}


def forgotten_job(account: Account) -> None:
    account.world.clock.time = datetime.now(UTC) - timedelta(hours=2, minutes=15)
    oncely("send", "payment.charge", "order_id=1", place=account.place())
    account.world.clock.time = datetime.now(UTC)


def mail_on_probation(account: Account) -> None:
    assert isinstance(account.mail, dict)
    account.mail["EnforcementStatus"] = "PROBATION"


def mail_not_readable(account: Account) -> None:
    account.mail = refused("AccessDeniedException")


def sender_not_readable(account: Account) -> None:
    account.identities["receipts@mail.example.com"] = refused("AccessDeniedException")


def small_account(account: Account) -> None:
    account.concurrency_limit = 10


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (rolled_back, "the last deployment was rolled back"),
        (mail_on_probation, "AWS reviews this account's mail, and may stop it"),
        (mail_not_readable, "could not be checked"),
        (sender_not_readable, "could not be checked"),
        (small_account, "--quota-code L-B99A9384 --desired-value 1000"),
        (no_versions, "versioning is off"),
        (unread_key, "could not be checked"),
        (key_for_tests, "it is a key for tests, in production"),
        (ringing_alarm, "in alarm: oldest is bad. To mend: oncely list --status unknown"),
        (unconfirmed, "new@example.com has not confirmed"),
        (waiting_rejects, "2 messages wait for their function"),
        (some_sweeps_fail, "1 of the last 2 did not succeed"),
        (orders_without_a_shard, "2 of 2000 orders read have charge_requested_at without charge_"),
        (job_for_a_person, "a job waits for a person. To mend: oncely list --status needs_review"),
        (jobs_for_many_people, "1,000+ jobs wait for a person"),
        (forgotten_job, "without an outcome for 2 hours"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_degraded_part_is_warning_with_exit_code_zero(
    spoil: Callable[[Account], None], sentence: str
) -> None:
    account = Account()
    spoil(account)

    said = oncely("doctor", place=account.place(name="Oncely-prod"))

    assert said.exit_code == 0, said.output
    assert "warning" in said.stdout
    assert sentence in " ".join(said.stdout.split())


def test_doctor_reads_bounded_number_of_orders() -> None:
    account = Account()
    account.orders_without_a_shard = [[]] * 5 + [["never read"]]

    said = oncely("doctor", place=account.place())

    assert "never read" not in said.stdout
    assert "each of 5000 orders read" in " ".join(said.stdout.split())


@pytest.mark.parametrize(
    ("stack", "health", "exit_code"),
    [("Oncely-dev", "warning", 0), ("Oncely-prod", "broken", 4)],
)
def test_ses_sandbox_is_broken_in_production_only(stack: str, health: str, exit_code: int) -> None:
    account = Account(mail={"SendingEnabled": True, "ProductionAccessEnabled": False})

    said = oncely("doctor", "--json", place=account.place(name=stack))

    (finding,) = [
        one for one in map(json.loads, said.stdout.splitlines()) if one["about"] == "mail"
    ]
    assert finding["health"] == health
    assert "SES sandbox" in finding["says"]
    assert "request production access" in finding["mend"]
    assert said.exit_code == exit_code


@pytest.mark.parametrize(
    "identity", ["receipts@mail.example.com", "mail.example.com", "example.com"]
)
def test_sender_is_verified_through_address_or_parent_domain(identity: str) -> None:
    pending = {"VerifiedForSendingStatus": False, "VerificationStatus": "PENDING"}
    verified = {"VerifiedForSendingStatus": True, "VerificationStatus": "SUCCESS"}
    account = Account(identities={"receipts@mail.example.com": pending, identity: verified})

    said = oncely("doctor", place=account.place())

    assert f"verified through {identity}" in " ".join(said.stdout.split())
    assert "broken" not in said.stdout


@pytest.mark.parametrize("local", [False, True])
def test_ses_is_not_checked_when_no_mail_is_sent(*, local: bool) -> None:
    account = Account(mail=refused("AccessDeniedException"), identities={})
    if not local:
        del account.functions["mail"]["Environment"]["Variables"]["SENDER_ADDRESS"]

    said = oncely("doctor", place=account.place(is_local=local))

    assert said.exit_code == 0, said.output
    assert "sender" not in said.stdout


@pytest.mark.parametrize("key", ["pat-eu1-1", "a-service-key", "CiQ3MDVk"])
def test_hubspot_api_key_is_checked_by_hubspot_not_by_prefix(key: str) -> None:
    account = Account()
    account.secrets["hubspot"] = key

    said = oncely("doctor", place=account.place())

    assert said.exit_code == 0, said.output
    assert "HubSpot accepts it" in said.stdout


def test_hubspot_api_key_is_not_broken_when_check_fails() -> None:
    account = Account()
    account.hubspot = KeyCheck(accepted=None, reason="HTTP 503")

    said = oncely("doctor", place=account.place())

    assert said.exit_code == 0, said.output
    assert "HubSpot could not be asked about it: HTTP 503" in " ".join(said.stdout.split())


def test_unreadable_api_key_counts_as_present() -> None:
    account = Account()
    account.secrets["stripe"] = refused("AccessDeniedException")

    assert "there is one, which you may not read" in oncely("doctor", place=account.place()).stdout


def test_local_stack_needs_no_alert_subscriber() -> None:
    account = Account()
    account.subscriptions.clear()

    assert oncely("doctor", place=account.place(is_local=True)).exit_code == 0


def test_missing_stack_outputs_are_named() -> None:
    place = Account().place()
    place.outputs = {name: value for name, value in place.outputs.items() if "Hubspot" not in name}

    said = oncely("doctor", place=place)

    assert said.exit_code == 4
    assert "missing: HubspotSecretArn" in said.stdout


def test_doctor_constants_match_infrastructure() -> None:
    planned = {name: {index.name for index in plan.indexes} for name, plan in PLANS.items()}

    assert CHECKED_FACTOR == VISIBILITY_FACTOR
    assert {name: set(indexes) for name, indexes in INDEXES.items()} == {
        name: indexes for name, indexes in planned.items() if indexes
    }
