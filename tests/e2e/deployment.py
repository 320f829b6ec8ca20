"""A deployed stack as tests see it: every call authorized, every alert heard."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

from infra.local.account import Account
from infra.local.engine import Engine
from infra.local.rows import typed
from infra.local.sandbox import ProviderSandbox

# Every call is checked against the caller's policies, as on AWS, and written down.
ENGINE_SETTINGS: Final = {
    "AUTH": "true",
    "CLOUDTRAIL_RECORDING": "1",
    "CLOUDTRAIL_MAX_EVENTS": "100000",
}
# Many cold starts on a machine that does other things as well.
PATIENCE: Final = 180.0

T = TypeVar("T")


class Deployment:
    """A deployed stack, seen from outside: its outputs and plain boto3."""

    def __init__(self, engine: Engine, sandbox: ProviderSandbox, assembly: Path) -> None:
        self.engine = engine
        self.sandbox = sandbox
        self.assembly = assembly
        self.account = Account(engine.url)
        self.client: Callable[[str], Any] = self.account.client
        self.outputs = self.account.outputs()
        self.once: Callable[[Callable[[Deployment], T]], T] = cache(lambda what: what(self))
        self.account.fill_secrets()
        self._alerts: list[dict[str, str]] = []
        self._by_hand: set[str] = set()
        self._inbox = self._subscribe()

    def send(self, queue: str, message: Mapping[str, object] | str) -> None:
        """Send to the queue that an output names."""
        body = message if isinstance(message, str) else json.dumps(message)
        self.client("sqs").send_message(QueueUrl=self.outputs[queue], MessageBody=body)

    def put(self, table: str, row: Mapping[str, Any]) -> None:
        """Write a row of the application's own."""
        self.client("dynamodb").put_item(TableName=self.outputs[table], Item=typed(row))

    def get(self, table: str, **key: str) -> dict[str, Any] | None:
        """Read a row, as plain values."""
        found = self.client("dynamodb").get_item(
            TableName=self.outputs[table], Key=typed(key), ConsistentRead=True
        )
        row = found.get("Item")
        return None if row is None else _plain(row)

    def job(self, key: str) -> dict[str, Any] | None:
        """The row of a job."""
        return self.get("JobsTableName", job_key=key)

    def job_when(self, key: str, *statuses: str, patience: float = PATIENCE) -> dict[str, Any]:
        """The row of a job when it has come to one of these."""
        return eventually(
            lambda: row if (row := self.job(key)) and row["status"] in statuses else None,
            f"{key} is {' or '.join(statuses)}",
            lambda: self.job(key),
            patience=patience,
        )

    def waiting(self, queue: str) -> int:
        """How many messages nobody has received yet."""
        found = self.client("sqs").get_queue_attributes(
            QueueUrl=self.outputs[queue], AttributeNames=["ApproximateNumberOfMessages"]
        )
        return int(found["Attributes"]["ApproximateNumberOfMessages"])

    @contextmanager
    def nobody_receives(self, *queues: str) -> Iterator[None]:
        """Let messages wait in these queues for a while."""
        self._let_receive(queues, receive=False)
        try:
            yield
        finally:
            self._let_receive(queues, receive=True)

    def _let_receive(self, queues: tuple[str, ...], *, receive: bool) -> None:
        functions = self.client("lambda")
        names = {self.outputs[queue].rpartition("/")[2] for queue in queues}
        for mapping in functions.list_event_source_mappings()["EventSourceMappings"]:
            if mapping["EventSourceArn"].rpartition(":")[2] in names:
                functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=receive)

    def alerts(self) -> list[str]:
        """The subjects of all that people were told."""
        while (
            messages := self.client("sqs")
            .receive_message(QueueUrl=self._inbox, MaxNumberOfMessages=10)
            .get("Messages")
        ):
            self._alerts += [json.loads(message["Body"]) for message in messages]
        return [alert["Subject"] for alert in self._alerts]

    def alerts_about(self, key: str) -> list[str]:
        """What people were told about one job, an alert each."""
        self.alerts()
        return [alert["Message"] for alert in self._alerts if f" {key} " in alert["Subject"]]

    def alert_about(self, key: str) -> str:
        """The one alert about a job, when it has come."""
        (told,) = eventually(lambda: self.alerts_about(key) or None, f"a person is told of {key}")
        return told

    def backdate(self, key: str, time: str) -> None:
        """Let one of a job's times be long past, instead of waiting for it."""
        self.client("dynamodb").update_item(
            TableName=self.outputs["JobsTableName"],
            Key=typed({"job_key": key}),
            UpdateExpression="SET #time = :past",
            ExpressionAttributeNames={"#time": time},
            ExpressionAttributeValues=typed({":past": "2026-01-01T00:00:00.000Z"}),
        )

    def archived(self, prefix: str) -> list[str]:
        """The names of archived objects."""
        found = self.client("s3").list_objects_v2(
            Bucket=self.outputs["ArchiveBucketName"], Prefix=prefix
        )
        return [one["Key"] for one in found.get("Contents", [])]

    def start_sweep(self, **sweep: object) -> str:
        """Start the state machine by hand; gives the execution."""
        execution = self.account.start_sweep(self.outputs["ReconcilerArn"], **sweep)
        self._by_hand.add(execution)
        return execution

    def reconcile(self, *, patience: float = PATIENCE, **sweep: object) -> dict[str, Any]:
        """Start the state machine by hand, and wait for what it did."""
        execution = self.start_sweep(**sweep)
        ended = eventually(
            lambda: self.account.sweep_ended(execution), "the sweep has ended", patience=patience
        )
        assert ended["status"] == "SUCCEEDED", ended
        done: dict[str, Any] = json.loads(ended["output"])
        return done

    def has_scheduled_sweep(self) -> bool:
        """Whether a sweep has ended that the schedule started: it asks for everything."""
        states = self.client("stepfunctions")
        listed = states.list_executions(
            stateMachineArn=self.outputs["ReconcilerArn"], statusFilter="SUCCEEDED"
        )
        others = (one["executionArn"] for one in listed["executions"])
        return any(
            json.loads(states.describe_execution(executionArn=arn)["input"]) == {}
            for arn in others
            if arn not in self._by_hand
        )

    def _subscribe(self) -> str:
        """A queue that hears every alert."""
        sqs = self.client("sqs")
        inbox: str = sqs.create_queue(QueueName="alerts")["QueueUrl"]
        found = sqs.get_queue_attributes(QueueUrl=inbox, AttributeNames=["QueueArn"])
        arn = found["Attributes"]["QueueArn"]
        topics = {"Service": "sns.amazonaws.com"}
        allowed = {
            "Effect": "Allow",
            "Principal": topics,
            "Action": "sqs:SendMessage",
            "Resource": arn,
        }
        sqs.set_queue_attributes(
            QueueUrl=inbox, Attributes={"Policy": json.dumps({"Statement": [allowed]})}
        )
        self.client("sns").subscribe(
            TopicArn=self.outputs["AlertTopicArn"], Protocol="sqs", Endpoint=arn
        )
        return inbox


def eventually(
    look: Callable[[], T | None],
    what: str,
    instead: Callable[[], object] = lambda: "nothing",
    *,
    patience: float = PATIENCE,
) -> T:
    """Look until there is something to see."""
    until = time.monotonic() + patience
    while (seen := look()) is None:
        assert time.monotonic() < until, f"not within {patience:.0f} s: {what}; {instead()}"
        time.sleep(0.2)
    return seen


def _plain(row: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {name: next(iter(value.values())) for name, value in row.items()}
