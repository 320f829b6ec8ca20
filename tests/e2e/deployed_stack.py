"""A deployed stack for tests: it authorizes every call and records every alert."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import pytest

from app import build_app
from oncely_cdk import OncelySettings, layers
from oncely_cdk.paths import REPOSITORY
from oncely_local.account import LocalAccount
from oncely_local.engine import Engine, account_environment, aws_environment
from oncely_local.project import local_project
from oncely_local.sample_data import serialize_row
from tests.support.shipped_sandbox import ShippedSandbox

# Every call is checked against the caller's policies, as on AWS, and recorded.
ENGINE_SETTINGS: Final = {
    "AUTH": "true",
    "CLOUDTRAIL_RECORDING": "1",
    "CLOUDTRAIL_MAX_EVENTS": "100000",
}
# Many cold starts on a busy machine.
TIMEOUT_SECONDS: Final = 180.0

T = TypeVar("T")


def synthesize(settings: OncelySettings, folder: Path) -> None:
    """Synthesize as the CDK command line does, in the engine's account.

    Without the account, other texts would create new versions of unchanged functions.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name, value in account_environment().items():
            patch.setenv(name, value)
        # The tests of templates may have put empty layers there, in the same process.
        patch.setattr(layers, "BUILD", REPOSITORY / ".build" / "layers")
        build_app(settings, folder=folder).synth()


class StackClient:
    def __init__(self, engine: Engine, sandbox: ShippedSandbox, assembly: Path) -> None:
        self.engine = engine
        self.sandbox = sandbox
        self.assembly = assembly
        self.account = LocalAccount(engine.url)
        self.client: Callable[[str], Any] = self.account.client
        self.outputs = self.account.outputs()
        self.once: Callable[[Callable[[StackClient], T]], T] = cache(lambda what: what(self))
        self.account.put_secrets(local_project().secrets)
        self._alerts: list[dict[str, str]] = []
        self._manual_executions: set[str] = set()
        self._inbox = self._subscribe()

    def user(self, name: str, *policies: str) -> dict[str, str]:
        """The environment of a new IAM user who has these policies of the stack, by output."""
        iam = self.client("iam")
        iam.create_user(UserName=name)
        for policy in policies:
            iam.attach_user_policy(UserName=name, PolicyArn=self.outputs[policy])
        key = iam.create_access_key(UserName=name)["AccessKey"]
        return {
            **aws_environment(self.engine.url),
            "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
        }

    def send(self, queue: str, message: Mapping[str, object] | str) -> None:
        body = message if isinstance(message, str) else json.dumps(message)
        self.client("sqs").send_message(QueueUrl=self.outputs[queue], MessageBody=body)

    def put(self, table: str, row: Mapping[str, Any]) -> None:
        self.client("dynamodb").put_item(TableName=self.outputs[table], Item=serialize_row(row))

    def get(self, table: str, **key: str) -> dict[str, Any] | None:
        found = self.client("dynamodb").get_item(
            TableName=self.outputs[table], Key=serialize_row(key), ConsistentRead=True
        )
        row = found.get("Item")
        return row and {name: next(iter(value.values())) for name, value in row.items()}

    def order(self, order_id: str) -> dict[str, Any]:
        found = self.get("OrdersTableName", order_id=order_id)
        assert found is not None
        return found

    def job(self, key: str) -> dict[str, Any] | None:
        return self.get("JobsTableName", job_key=key)

    def wait_for_job(
        self, key: str, *statuses: str, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> dict[str, Any]:
        return wait_for(
            lambda: (row := self.job(key)) and row["status"] in statuses and row,
            f"{key} is {' or '.join(statuses)}",
            lambda: self.job(key),
            timeout_seconds=timeout_seconds,
        )

    def queue_depth(self, queue: str) -> int:
        found = self.client("sqs").get_queue_attributes(
            QueueUrl=self.outputs[queue], AttributeNames=["ApproximateNumberOfMessages"]
        )
        return int(found["Attributes"]["ApproximateNumberOfMessages"])

    @contextmanager
    def pause_consumers(self, *sources: str, function: str = "") -> Iterator[list[str]]:
        functions = self.client("lambda")
        ids = [
            one["UUID"]
            for one in functions.list_event_source_mappings()["EventSourceMappings"]
            if any(source in one["EventSourceArn"] for source in sources)
            and function in one["FunctionArn"]
        ]
        for one in ids:
            functions.update_event_source_mapping(UUID=one, Enabled=False)
        try:
            yield ids
        finally:
            for one in ids:
                functions.update_event_source_mapping(UUID=one, Enabled=True)

    def alerts(self) -> list[str]:
        while (
            messages := self.client("sqs")
            .receive_message(QueueUrl=self._inbox, MaxNumberOfMessages=10)
            .get("Messages")
        ):
            self._alerts += [json.loads(message["Body"]) for message in messages]
        return [alert["Subject"] for alert in self._alerts]

    def alerts_about(self, key: str) -> list[str]:
        self.alerts()
        return [alert["Message"] for alert in self._alerts if key in alert["Subject"].split()]

    def wait_for_alert(self, key: str) -> str:
        (told,) = wait_for(lambda: self.alerts_about(key), f"an alert about {key}")
        return told

    def backdate(self, key: str, time: str) -> None:
        """Move one of a job's times into the past, instead of waiting for it."""
        self.client("dynamodb").update_item(
            TableName=self.outputs["JobsTableName"],
            Key=serialize_row({"job_key": key}),
            UpdateExpression="SET #time = :past",
            ExpressionAttributeNames={"#time": time},
            ExpressionAttributeValues=serialize_row({":past": "2026-01-01T00:00:00.000Z"}),
        )

    def archived_keys(self, prefix: str) -> list[str]:
        found = self.client("s3").list_objects_v2(
            Bucket=self.outputs["ArchiveBucketName"], Prefix=prefix
        )
        return [one["Key"] for one in found.get("Contents", [])]

    def archived_text(self, key: str) -> str:
        found = self.client("s3").get_object(Bucket=self.outputs["ArchiveBucketName"], Key=key)
        text: str = found["Body"].read().decode()
        return text

    def start_sweep(self, **sweep: object) -> str:
        execution = self.account.start_sweep(self.outputs["ReconcilerArn"], **sweep)
        self._manual_executions.add(execution)
        return execution

    def reconcile(
        self, *, timeout_seconds: float = TIMEOUT_SECONDS, **sweep: object
    ) -> dict[str, Any]:
        execution = self.start_sweep(**sweep)
        ended = wait_for(
            lambda: self.account.sweep_result(execution),
            "the sweep has ended",
            timeout_seconds=timeout_seconds,
        )
        assert ended["status"] == "SUCCEEDED", ended
        done: dict[str, Any] = json.loads(ended["output"])
        return done

    def has_scheduled_sweep(self) -> bool:
        """Whether a scheduled sweep has ended. Its input has no filters."""
        states = self.client("stepfunctions")
        listed = states.list_executions(
            stateMachineArn=self.outputs["ReconcilerArn"], statusFilter="SUCCEEDED"
        )
        return any(
            json.loads(states.describe_execution(executionArn=arn)["input"]) == {}
            for arn in (one["executionArn"] for one in listed["executions"])
            if arn not in self._manual_executions
        )

    def _subscribe(self) -> str:
        sqs = self.client("sqs")
        inbox: str = sqs.create_queue(QueueName="alerts")["QueueUrl"]
        found = sqs.get_queue_attributes(QueueUrl=inbox, AttributeNames=["QueueArn"])
        arn = found["Attributes"]["QueueArn"]
        allowed = {
            "Effect": "Allow",
            "Principal": {"Service": "sns.amazonaws.com"},
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


def wait_for(
    probe: Callable[[], T | Literal[False] | None],
    what: str,
    describe_state: Callable[[], object] = lambda: "nothing",
    *,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> T:
    until = time.monotonic() + timeout_seconds
    while not (seen := probe()):
        assert time.monotonic() < until, (
            f"not within {timeout_seconds:.0f} s: {what}; {describe_state()}"
        )
        time.sleep(0.2)
    return seen
