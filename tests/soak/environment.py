"""The environment of a soak's processes: tables, queues, API keys, and their names."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from oncely.contracts.job import providers_of
from oncely.contracts.job_names import JOBS_ENV_VAR, name_jobs
from oncely.contracts.settings import Settings, queue_env_var, secret_env_var, table_env_var
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.testing.sandbox import Sandbox
from oncely_local.account import LocalAccount
from oncely_local.chaos import complete_pending_effects
from oncely_local.engine import Engine, aws_environment
from oncely_local.project import local_project
from oncely_local.stack import LocalStack
from tests.support.dynamo import DynamoFixture

QUEUES: Final = ("payments", "sync", "mail")
DEAD_LETTERS, REJECTS = "dead-letters", "rejects"
BUCKET: Final = "archive"
MAX_RECEIVES: Final = Settings().max_receive_count
# What Lambda would give an invocation. A payment is only started with 48 seconds left.
INVOCATION_SECONDS: Final = 55.0
# Longer than a lease of that: 10 for a request under way and 2 for the clocks come on top.
VISIBILITY_SECONDS: Final = 75


@dataclass(frozen=True)
class SoakEnvironment:
    stack: LocalStack
    env_vars: dict[str, str]


def create_environment(engine: Engine, sandbox: Sandbox) -> SoakEnvironment:
    account = LocalAccount(engine.url)
    dynamo = DynamoFixture(engine.url)
    dynamo.protect()
    dynamo.app(dynamo.admin).table_initializer.run()
    dynamo.close()
    urls = _queues(account.client("sqs"))
    account.client("s3").create_bucket(Bucket=BUCKET)
    account.client("events").create_event_bus(Name="oncely")
    for name, value in local_project().secrets.items():
        account.client("secretsmanager").create_secret(Name=name, SecretString=value)
    topic = account.client("sns").create_topic(Name="alerts")["TopicArn"]
    outputs = {
        "JobsTableName": dynamo.jobs_table,
        "OrdersTableName": dynamo.tables["orders"],
        "RecordsTableName": dynamo.tables["records"],
        "RefundRequestsTableName": dynamo.tables["refund_requests"],
        "PaymentsQueueUrl": urls["payments"],
        "SyncQueueUrl": urls["sync"],
        "MailQueueUrl": urls["mail"],
        "DeadLetterQueueUrl": urls[DEAD_LETTERS],
        "RejectsQueueUrl": urls[REJECTS],
        "ArchiveBucketName": BUCKET,
    }
    stage = local_project().settings.model_copy(update={"providers_address": sandbox.url})
    variables = {
        **aws_environment(engine.url),
        **stage.provider_env_vars(providers_of(SHIPPED_JOBS)),
        JOBS_ENV_VAR: name_jobs(SHIPPED_JOBS),
        "JOBS_TABLE": dynamo.jobs_table,
        "GATES_TABLE": dynamo.tables["gates"],
        "REJECTS_QUEUE_URL": urls[REJECTS],
        "DEAD_LETTER_QUEUE_URL": urls[DEAD_LETTERS],
        "ALERT_TOPIC_ARN": topic,
        "ARCHIVE_BUCKET": BUCKET,
        "EVENT_BUS_NAME": "oncely",
        "RETENTION_DAYS": "90",
        "RECONCILER_ARN": "there is none: processes sweep by themselves",
        "MAX_RECEIVE_COUNT": str(MAX_RECEIVES),
        # Their log lines would hide ours.
        "PYTHONWARNINGS": "ignore",
        "POWERTOOLS_LOG_LEVEL": "CRITICAL",
        "POWERTOOLS_METRICS_DISABLED": "true",
        "POWERTOOLS_TRACE_DISABLED": "true",
        **{table_env_var(name): table for name, table in dynamo.tables.items()},
        **{queue_env_var(name): urls[name] for name in QUEUES},
        **{secret_env_var(name): name for name in local_project().secrets},
    }
    return SoakEnvironment(
        LocalStack(engine, sandbox, account, outputs, local_project()), {**os.environ, **variables}
    )


def _queues(sqs: Any) -> dict[str, str]:  # noqa: ANN401  # boto3's
    def made(name: str, **attributes: str) -> str:
        url: str = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        return url

    urls = {
        name: made(name, VisibilityTimeout=str(VISIBILITY_SECONDS))
        for name in (DEAD_LETTERS, REJECTS)
    }
    asked = sqs.get_queue_attributes(QueueUrl=urls[DEAD_LETTERS], AttributeNames=["QueueArn"])
    redrive = {
        "deadLetterTargetArn": asked["Attributes"]["QueueArn"],
        "maxReceiveCount": str(MAX_RECEIVES),
    }
    for name in QUEUES:
        urls[name] = made(
            name, VisibilityTimeout=str(VISIBILITY_SECONDS), RedrivePolicy=json.dumps(redrive)
        )
    return urls


@contextmanager
def resolve_pending_effects(stack: LocalStack) -> Iterator[None]:
    closes = threading.Event()
    bank = threading.Thread(target=complete_pending_effects, args=(stack.sandbox, closes))
    bank.start()
    try:
        yield
    finally:
        closes.set()
        bank.join()
