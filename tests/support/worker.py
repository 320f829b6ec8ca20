"""Workers under test: a batch over fakes, and the shipped handler with a local AWS and Stripe."""

import json
import logging
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import boto3
import pytest

from oncely.core.claims import Claim
from oncely.core.keys import JobKey, job_key
from oncely.handlers.process_queue import get_worker, handler
from oncely.handlers.telemetry import SERVICE
from oncely.ports import SystemClock
from oncely.providers.stripe.payments import StripePayments
from oncely.run.process_batch import Delivery, ProcessedDelivery
from oncely_local.engine import REGION
from tests.support.dynamo import NO_PROFILE, DynamoFixture
from tests.support.fakes import FakeClock, FakeMessageSource
from tests.support.in_memory_stack import SETTINGS, InMemoryStack, charge_message
from tests.support.shipped_sandbox import ShippedSandbox

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_secretsmanager import SecretsManagerClient
    from mypy_boto3_sns import SNSClient
    from mypy_boto3_sqs import SQSClient

BATCH_CONCURRENCY: Final = SETTINGS.batch_concurrency
MAX_RECEIVES: Final = SETTINGS.max_receive_count
KEY: Final = JobKey("payment.charge:order_18452")


@dataclass(kw_only=True)
class BatchHarness:
    world: InMemoryStack
    inbox: Any = field(default_factory=FakeMessageSource)
    jitter: float = 0.0
    max_receives: int = MAX_RECEIVES

    def process(self, *deliveries: Delivery, seconds_left: float = 60) -> list[ProcessedDelivery]:
        app = self.world.app(message_source=self.inbox, reject_queue=self.inbox)
        worker = replace(
            app.batch_processor,
            jitter=lambda: self.jitter,
            max_receive_count=self.max_receives,
        )
        deadline = self.world.clock.now() + timedelta(seconds=seconds_left)
        return worker.process(deliveries, deadline=deadline)


def make_delivery(body: object, *, receives: int = 1, receipt: str = "") -> Delivery:
    name = uuid.uuid4().hex
    return Delivery(
        message_id=name,
        body=body if isinstance(body, str) else json.dumps(body),
        receipt=receipt or f"receipt of {name}",
        receive_count=receives,
    )


def lease_to_other_worker(
    world: InMemoryStack, *, lease: timedelta, order_id: str = "18452"
) -> None:
    now = world.clock.now()
    world.store.claim(
        Claim(
            job_key=job_key("payment.charge", order_id, prefix="order_"),
            job_type="payment.charge",
            owner="another",
            now=now,
            lease_until=now + lease,
            schedule_limit=timedelta(0),
            message=charge_message(order_id),  # type: ignore[arg-type]  # plain JSON
        )
    )


@dataclass(frozen=True)
class FakeContext:
    seconds: float = 60
    function_name: str = "work-payments"
    memory_limit_in_mb: int = 256
    invoked_function_arn: str = f"arn:aws:lambda:{REGION}:000000000000:function:work-payments"
    aws_request_id: str = "8d1f0a52"

    def get_remaining_time_in_millis(self) -> int:
        return int(self.seconds * 1000)


@cache
def _session() -> boto3.Session:
    return boto3.Session(aws_access_key_id="test", aws_secret_access_key="test", region_name=REGION)


@cache
def _clients(
    url: str,
) -> "tuple[SQSClient, SNSClient, SecretsManagerClient, S3Client]":
    """Clients for setup and checks, shared by all tests."""
    return (
        _session().client("sqs", endpoint_url=url),
        _session().client("sns", endpoint_url=url),
        _session().client("secretsmanager", endpoint_url=url),
        _session().client("s3", endpoint_url=url),
    )


class WorkerHarness:
    def __init__(self, dynamo: DynamoFixture, sandbox: ShippedSandbox) -> None:
        self._name = uuid.uuid4().hex
        self.dynamo = dynamo
        self.sandbox = sandbox
        dynamo.protect()
        dynamo.app(dynamo.admin).table_initializer.run()
        self.sqs, self.sns, self.secrets, self.s3 = _clients(dynamo.url)
        self.s3.create_bucket(Bucket=f"archive-{self._name}")
        self.queue, self.rejects, self._alerts = map(self._new_queue, ("in", "rejects", "alerts"))
        self.topic = self.sns.create_topic(Name=f"alerts-{self._name}")["TopicArn"]
        self.sns.subscribe(TopicArn=self.topic, Protocol="sqs", Endpoint=self._arn(self._alerts))
        self.secret = f"stripe-{self._name}"

    def environment(self) -> dict[str, str]:
        return {
            **NO_PROFILE,
            "AWS_ENDPOINT_URL": self.dynamo.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": REGION,
            "ONCELY_JOBS": "oncely.jobs.payment_charge:PaymentCharge,"
            "oncely.jobs.payment_refund:PaymentRefund",
            "QUEUE_NAME": "payments",
            "QUEUE_URL": self.queue,
            "REJECTS_QUEUE_URL": self.rejects,
            "ALERT_TOPIC_ARN": self.topic,
            "RETENTION_DAYS": "90",
            "JOBS_TABLE": self.dynamo.jobs_table,
            "GATES_TABLE": self.dynamo.tables["gates"],
            "ORDERS_TABLE": self.dynamo.tables["orders"],
            "REFUND_REQUESTS_TABLE": self.dynamo.tables["refund_requests"],
            "REFUNDS_TABLE": self.dynamo.tables["refunds"],
            "STRIPE_SECRET": self.secret,
            "STRIPE_API_BASE": self.sandbox.url,
        }

    def world(self) -> InMemoryStack:
        return InMemoryStack(
            store=self.dynamo.store(),
            rows=self.dynamo.rows(),
            payments=StripePayments.from_api_key("sk_test_oncely", api_base=self.sandbox.url),
            clock=FakeClock(SystemClock().now()),
        )

    def put_secret(self, value: str = "sk_test_oncely") -> None:
        try:
            self.secrets.put_secret_value(SecretId=self.secret, SecretString=value)
        except self.secrets.exceptions.ResourceNotFoundException:
            self.secrets.create_secret(Name=self.secret, SecretString=value)

    def deliver(self, *bodies: str) -> dict[str, Any]:
        for body in bodies:
            self.sqs.send_message(QueueUrl=self.queue, MessageBody=body)
        return self.receive(len(bodies))

    def receive(self, max_messages: int = 10) -> dict[str, Any]:
        return {
            "Records": [event_record(message) for message in self._read(self.queue, max_messages)]
        }

    def delete_acked(self, event: Mapping[str, Any], response: Mapping[str, Any]) -> None:
        kept = {failure["itemIdentifier"] for failure in response["batchItemFailures"]}
        for record in event["Records"]:
            if record["messageId"] not in kept:
                self.sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=record["receiptHandle"])

    def remaining_messages(self) -> int:
        found = self.sqs.get_queue_attributes(QueueUrl=self.queue, AttributeNames=["All"])
        names = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
        return sum(int(count) for name, count in found["Attributes"].items() if name in names)

    def rejected(self) -> dict[str, str]:
        return {
            message["Body"]: message["MessageAttributes"]["reason"]["StringValue"]
            for message in self._read(self.rejects)
        }

    def alerts(self) -> list[dict[str, str]]:
        return [json.loads(message["Body"]) for message in self._read(self._alerts)]

    def close(self) -> None:
        for client in (self.sqs, self.sns, self.secrets, self.s3):
            client.close()

    def _new_queue(self, name: str) -> str:
        made = self.sqs.create_queue(
            QueueName=f"{name}-{self._name}", Attributes={"VisibilityTimeout": "360"}
        )
        return made["QueueUrl"]

    def _arn(self, queue: str) -> str:
        wanted = self.sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])
        return wanted["Attributes"]["QueueArn"]

    def _read(self, queue: str, max_messages: int = 10) -> list[Any]:
        found: list[Any] = []
        while len(found) < max_messages:
            answer = self.sqs.receive_message(
                QueueUrl=queue,
                MaxNumberOfMessages=min(10, max_messages - len(found)),
                MessageAttributeNames=["All"],
                MessageSystemAttributeNames=["All"],
            )
            if not answer.get("Messages"):
                break
            found += answer["Messages"]
        return found


@contextmanager
def worker_harness(
    dynamo: DynamoFixture, monkeypatch: pytest.MonkeyPatch
) -> Iterator[WorkerHarness]:
    with ShippedSandbox() as sandbox:
        stage = WorkerHarness(dynamo, sandbox)
        for name, value in stage.environment().items():
            monkeypatch.setenv(name, value)
        get_worker.cache_clear()
        yield stage
        get_worker.cache_clear()
        stage.close()


def invoke_handler(event: dict[str, Any], *, seconds: float = 60) -> dict[str, Any]:
    for output in logging.getLogger(SERVICE).handlers:
        # Powertools keeps the standard output of the first test that logged.
        vars(output)["stream"] = sys.stdout
    context: Any = FakeContext(seconds)
    return handler(event, context)


def event_record(message: Mapping[str, Any]) -> dict[str, Any]:
    attributes: Mapping[str, Any] = message.get("MessageAttributes", {})
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message["Attributes"],
        "messageAttributes": {
            name: {"stringValue": value["StringValue"], "dataType": value["DataType"]}
            for name, value in attributes.items()
        },
        "eventSource": "aws:sqs",
    }
