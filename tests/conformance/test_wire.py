"""Each adapter over AWS in memory, called directly and through botocore."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ParamValidationError

from oncely.alerts.budget import Alert
from oncely.alerts.budgeted_notifier import DynamoAlertBudget, SnsNotifier
from oncely.aws.business_tables import BusinessTable
from oncely.aws.clients import THROTTLED_REQUESTS, AwsClients
from oncely.aws.objects import S3Objects
from oncely.aws.sqs import MessageSender, MessageSource, RejectQueue
from oncely.core.errors import NotConfiguredError, UnavailableError
from oncely.core.inserter import JobInserter, UniqueWindow
from oncely.core.store import Created, JobStore
from oncely.core.table_guard import DynamoTableIdentity
from oncely.gates.table import GateTable
from oncely.history.sources import RowScan, TableGenerationReader
from oncely.operate.daily_audit import AuditReports, StoredAudit
from oncely.operate.job_index import JobIndex
from oncely.operate.overview import HOUR, CloudWatchHourlyMetrics, QueuedMessages, SqsQueueDepths
from oncely.operate.own_tables import JOBS
from oncely.operate.page_access import CognitoUserDirectory
from oncely.ports import cached_secret_reader
from oncely.publish.publisher import EventBus
from oncely.reconcile.due_index import DueIndex
from oncely.reconcile.sweeps import SweepLeases, Sweeps
from oncely.testing.memory_aws.account import MemoryAws
from oncely.testing.memory_aws.calls import AwsCall, client_error, no_response
from oncely.testing.memory_aws.services import MemoryBucket, MemoryQueue
from oncely.testing.memory_aws.wire import WireClients
from tests.support.adapters import aws_adapters
from tests.support.fakes import START
from tests.support.table_schemas import TABLE_SCHEMAS
from tests.unit.samples import make_job

URL = "https://sqs.eu-west-1.amazonaws.com/123456789012/payments"
TOPIC = "arn:aws:sns:eu-west-1:123456789012:alerts"
MACHINE = "arn:aws:states:eu-west-1:123456789012:stateMachine:sweep"
ALERT = Alert(subject="Job needs review: é", text="order 18452 & <more>\n", names=())


@pytest.fixture
def account() -> MemoryAws:
    account = MemoryAws(now=lambda: START, tables=TABLE_SCHEMAS)
    account.sqs.queues[URL] = MemoryQueue()
    account.sns.topics.add(TOPIC)
    account.events.buses.add("bus")
    account.states.machines.add(MACHINE)
    account.secrets.values["stripe"] = " sk_1\n"
    return account


@pytest.fixture(params=["memory", "wire"])
def clients(request: pytest.FixtureRequest, account: MemoryAws, no_profile: None) -> AwsClients:
    return account.clients if request.param == "memory" else WireClients(account)


@pytest.fixture
def wire(account: MemoryAws, no_profile: None) -> WireClients:
    return WireClients(account)


def fail_times(account: MemoryAws, times: int, fault: Callable[[AwsCall], Exception]) -> list[str]:
    """Fail the next calls after they were performed. Returns the names of all calls."""
    calls: list[str] = []

    def intercept(call: AwsCall, perform: Any) -> Any:  # noqa: ANN401  # of any call
        calls.append(call.name)
        if len(calls) <= times:
            perform()
            raise fault(call)
        return perform()

    account.intercept = intercept
    return calls


def throttled(call: AwsCall) -> Exception:
    return client_error("ThrottlingException", call.operation)


def send_and_hand_back(clients: AwsClients, account: MemoryAws) -> None:
    queue, long = account.sqs.queues[URL], "é" * 200_000
    sent = MessageSender(clients=clients, queue_url=URL).send(
        ["one", long, "\x00"], groups=["customer_1"]
    )
    assert sent == [True, True, False]
    assert [one.body for one in queue.messages] == ["one", long]
    assert queue.messages[0].group is not None

    (message,) = queue.receive(at=START, limit=1)
    source = MessageSource(clients=clients, queue_url=URL)
    source.redeliver_after(message.receipt, delay=timedelta(seconds=1.2))
    assert message.visible_at == START + timedelta(seconds=2)
    with pytest.raises(NotConfiguredError, match="ReceiptHandleIsInvalid"):
        source.redeliver_after("other", delay=timedelta(0))


def reject(clients: AwsClients, account: MemoryAws) -> None:
    rejects = RejectQueue(clients=clients, rejects_url=URL, source="payments")
    rejects.reject("\x00é", reason="no", message_id="m-1", job_key="payment.charge:1")
    (message,) = account.sqs.queues[URL].messages
    assert message.body == "\\x00é"
    stored = message.to_record()["messageAttributes"]
    assert {name: one["stringValue"] for name, one in stored.items()} == {
        "reason": "no",
        "message_id": "m-1",
        "queue": "payments",
        "job_key": "payment.charge:1",
    }


def count_messages(clients: AwsClients, account: MemoryAws) -> None:
    MessageSender(clients=clients, queue_url=URL).send(["a", "b", "c"])
    account.sqs.queues[URL].receive(at=START, limit=1)
    found = SqsQueueDepths(clients.sqs, {"payments": URL}).depths()
    assert found == [QueuedMessages(queue="payments", waiting=2, in_flight=1, delayed=0)]


def alert(clients: AwsClients, account: MemoryAws) -> None:
    assert SnsNotifier(clients, TOPIC).notify(ALERT)
    assert not SnsNotifier(clients, f"{TOPIC}-2").notify(ALERT)
    (one,) = account.sns.published
    assert (one.subject, one.message) == ("Job needs review: ?", ALERT.text)


def publish_event(clients: AwsClients, account: MemoryAws) -> None:
    EventBus(clients.events, "bus").publish(make_job())
    (event,) = account.events.events
    assert event["Source"] == "oncely"
    assert json.loads(event["Detail"])["job_key"] == make_job().job_key


def start_sweep(clients: AwsClients, account: MemoryAws) -> None:
    Sweeps(clients.states, MACHINE).start({"shard": 1})
    assert account.states.executions == [(MACHINE, '{"shard": 1}')]
    with pytest.raises(NotConfiguredError, match="StateMachineDoesNotExist"):
        Sweeps(clients.states, f"{MACHINE}-2").start({})


def save_audit(clients: AwsClients, account: MemoryAws) -> None:
    account.s3.buckets["archive"] = MemoryBucket()
    reports = AuditReports(S3Objects(clients.s3, "archive"))
    until = datetime.fromisoformat("2026-05-17T00:00:00Z")
    name = "20260516T000000Z-20260517T000000Z-2"
    audit = StoredAudit(since=until - 24 * HOUR, until=until, differences=2)
    reports.save_audit(audit, [{"order": "é"}])
    assert reports.recent_audits(limit=5) == [audit]
    assert reports.read_audit(name) == [{"order": "é"}]
    assert reports.read_audit(name.replace("-2", "-3")) is None


def read_generation(clients: AwsClients, account: MemoryAws) -> None:
    generation = TableGenerationReader(clients.dynamodb, JOBS)()
    assert generation == account.dynamodb.describe_table(TableName=JOBS)["Table"]["TableId"]
    with pytest.raises(NotConfiguredError, match="ResourceNotFoundException"):
        TableGenerationReader(clients.dynamodb, "other")()


RoundTrip = Callable[[AwsClients, MemoryAws], None]
ROUND_TRIPS: dict[type, RoundTrip] = {
    MessageSender: send_and_hand_back,
    MessageSource: send_and_hand_back,
    RejectQueue: reject,
    SqsQueueDepths: count_messages,
    SnsNotifier: alert,
    EventBus: publish_event,
    Sweeps: start_sweep,
    S3Objects: save_audit,
    TableGenerationReader: read_generation,
}
# Their own suites run on both.
IN_SUITES = {
    *(DynamoAlertBudget, BusinessTable, DueIndex, GateTable, JobIndex),
    *(JobInserter, JobStore, RowScan, SweepLeases, DynamoTableIdentity),
}
# Botocore's Stubber is enough for their unit tests: no schedule reads a metric or a user.
STUBBED = {CloudWatchHourlyMetrics, CognitoUserDirectory}


@pytest.mark.parametrize("round_trip", dict.fromkeys(ROUND_TRIPS.values()))
def test_adapter_does_its_work(
    clients: AwsClients, account: MemoryAws, round_trip: RoundTrip
) -> None:
    round_trip(clients, account)


def test_every_adapter_is_covered() -> None:
    assert aws_adapters() - IN_SUITES - STUBBED == ROUND_TRIPS.keys()


def test_secret_is_read(clients: AwsClients) -> None:
    read = cached_secret_reader(clients.secrets)
    assert read("stripe", "the key") == "sk_1"
    with pytest.raises(NotConfiguredError, match="ResourceNotFoundException"):
        read("other", "the key")


def test_failed_entry_is_not_taken_as_published(clients: AwsClients, account: MemoryAws) -> None:
    failed = {"FailedEntryCount": 1, "Entries": [{"ErrorCode": "InternalFailure"}]}
    account.intercept = lambda _call, _perform: failed  # type: ignore[assignment]  # as EventBridge responds
    with pytest.raises(UnavailableError):
        EventBus(clients.events, "bus").publish(make_job())
    assert account.events.events == []


@pytest.mark.parametrize("fault", [throttled, no_response])
def test_sdk_repeats_failed_call(
    wire: WireClients, account: MemoryAws, fault: Callable[[AwsCall], Exception]
) -> None:
    calls = fail_times(account, 2, fault)
    Sweeps(wire.states, MACHINE).start({})
    assert calls == ["stepfunctions.start_execution"] * 3
    assert len(account.states.executions) == 3


@pytest.mark.parametrize("fault", [throttled, no_response])
def test_last_attempt_is_translated(
    clients: AwsClients, account: MemoryAws, fault: Callable[[AwsCall], Exception]
) -> None:
    fail_times(account, 3, fault)
    with pytest.raises(UnavailableError):
        Sweeps(clients.states, MACHINE).start({})


def test_sdk_repeats_transaction_with_its_token(wire: WireClients, account: MemoryAws) -> None:
    """The insert of a window has no token of ours, so the second attempt would find its own row."""
    store = JobStore(client=wire.dynamodb, table=JOBS, tables={})
    window = UniqueWindow(name="hubspot", now=START, until=START + HOUR)
    calls = fail_times(account, 1, no_response)

    inserted = JobInserter(wire.dynamodb, store).insert_unique(make_job(), window)

    assert inserted == Created(make_job())
    assert calls == ["dynamodb.execute_transaction"] * 2


def test_throttled_attempt_is_counted(wire: WireClients, account: MemoryAws) -> None:
    THROTTLED_REQUESTS.take()
    fail_times(account, 1, throttled)
    TableGenerationReader(wire.dynamodb, JOBS)()
    assert THROTTLED_REQUESTS.take() == 1


def test_sdk_validates_arguments(wire: WireClients) -> None:
    with pytest.raises(ParamValidationError):
        wire.sqs.send_message(QueueUrl=URL, MessageBody=1)  # type: ignore[arg-type]  # the point


def test_unsupported_argument_fails_loudly(wire: WireClients) -> None:
    with pytest.raises(TypeError, match="DelaySeconds"):
        wire.sqs.send_message(QueueUrl=URL, MessageBody="a", DelaySeconds=1)
