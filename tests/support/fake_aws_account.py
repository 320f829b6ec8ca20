"""A healthy AWS account, as its services describe it. A test changes one response."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from typing import Any, TypeVar

from botocore.exceptions import ClientError

from oncely.aws.alarm_description import AlarmDescription
from oncely.contracts.settings import pascal_case
from oncely.contracts.table_schema import KeySchema
from oncely.core.row_items import serialize
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.plugins.provider import ApiKeyCheck
from tests.support.cli import FakeStackConnection, FakeSts
from tests.support.fakes import START
from tests.support.in_memory_stack import InMemoryStack
from tests.support.orders import order_row
from tests.support.table_schemas import TABLE_SCHEMAS

DAY = 86_400
T = TypeVar("T")
# All registered jobs, including a reader's own.
QUEUES = tuple(dict.fromkeys(kind.queue for kind in SHIPPED_JOBS))
TABLES = tuple(
    dict.fromkeys(("jobs", *(name for kind in SHIPPED_JOBS for name in kind.table_names())))
)


def queue_arn(queue: str) -> str:
    return f"arn:aws:sqs:eu-central-1:1:{queue}"


def _queue(name: str, days: int, **more: str) -> dict[str, str]:
    return {
        "QueueArn": queue_arn(name),
        "VisibilityTimeout": "720",
        "MessageRetentionPeriod": str(days * DAY),
        "ApproximateNumberOfMessages": "0",
        **more,
    }


def order_item(**changes: object) -> dict[str, Any]:
    """An order as DynamoDB returns it. A column that is None is missing."""
    row = order_row(order_id="1001", **changes)
    return {name: serialize(value) for name, value in row.items() if value is not None}


def _key(key: KeySchema) -> list[dict[str, str]]:
    return [{"AttributeName": name} for name in key.names]


def _table(name: str) -> dict[str, Any]:
    schema = TABLE_SCHEMAS[name]
    keys = {one for key in (schema.key, *(i.key for i in schema.indexes)) for one in key.names}
    return {
        "TableStatus": "ACTIVE",
        "TableId": "T1",
        "KeySchema": _key(schema.key),
        "AttributeDefinitions": [{"AttributeName": one, "AttributeType": "S"} for one in keys],
        "GlobalSecondaryIndexes": [
            {
                "IndexName": index.name,
                "IndexStatus": "ACTIVE",
                "KeySchema": _key(index.key),
                "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": [*index.include]},
            }
            for index in schema.indexes
        ],
        "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    }


def _mapping(source: str, function: str) -> dict[str, Any]:
    return {
        "ScalingConfig": {"MaximumConcurrency": 2},
        "UUID": source,
        "EventSourceArn": source,
        "FunctionArn": f"arn:function:{function}",
        "State": "Enabled",
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
    }


def _function(name: str, **variables: str) -> dict[str, Any]:
    return {
        "FunctionName": name,
        "FunctionArn": f"arn:function:{name}",
        "Handler": f"{name}.handler.handler",
        "State": "Active",
        "LastUpdateStatus": "Successful",
        "Timeout": 120,
        "Environment": {"Variables": variables},
    }


class FakeAwsAccount:
    def __init__(self, **changes: Any) -> None:  # noqa: ANN401  # attributes by name
        self.stack: dict[str, Any] = {
            "StackStatus": "UPDATE_COMPLETE",
            "CreationTime": datetime(2026, 1, 1, tzinfo=UTC),
        }
        self.queues: dict[str, dict[str, str]] = {
            **{
                name: _queue(
                    name,
                    4,
                    RedrivePolicy=f'{{"deadLetterTargetArn": "{queue_arn("dead_letter")}"}}',
                )
                for name in QUEUES
            },
            "dead_letter": _queue("dead_letter", 14),
            "rejects": _queue("rejects", 14),
        }
        self.functions: dict[str, dict[str, Any]] = {
            **{name: _function(name, QUEUE_NAME=name) for name in QUEUES},
            "receive": _function("receive"),
            "archive": _function("archive"),
            "publish_ended": _function("publish_ended", RETENTION_DAYS="35"),
            "archive_history": _function("archive_history"),
        }
        self.mappings: dict[str, dict[str, Any]] = {
            **{queue_arn(name): _mapping(queue_arn(name), name) for name in QUEUES},
            queue_arn("dead_letter"): _mapping(queue_arn("dead_letter"), "receive"),
            queue_arn("rejects"): _mapping(queue_arn("rejects"), "archive"),
            **{
                f"arn:table/jobs/stream/1#{name}": _mapping("arn:table/jobs/stream/1", name)
                for name in ("publish_ended", "archive_history")
            },
        }
        self.concurrency: dict[str, int] = {}
        self.concurrency_limit: int = 1000
        self.mail: dict[str, Any] | ClientError = {
            "SendingEnabled": True,
            "ProductionAccessEnabled": True,
            "EnforcementStatus": "HEALTHY",
        }
        destination = {
            "Name": "oncely",
            "Enabled": True,
            "MatchingEventTypes": ["SEND", "BOUNCE", "COMPLAINT"],
            "EventBridgeDestination": {
                "EventBusArn": "arn:aws:events:eu-west-1:1:event-bus/default"
            },
        }
        self.mail_events: dict[str, Any] | ClientError = {"EventDestinations": [destination]}
        self.identities: dict[str, dict[str, Any] | ClientError] = {
            "example.com": {"VerifiedForSendingStatus": True, "VerificationStatus": "SUCCESS"}
        }
        self.tables: dict[str, dict[str, Any]] = {name: _table(name) for name in TABLES}
        self.expiry: dict[str, str] = {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires_at"}
        self.recovery: str = "ENABLED"
        self.identity: dict[str, Any] = {
            "identity": {"S": "0123456789abcdef"},
            "table_id": {"S": "T1"},
        }
        self.versioning: str = "Enabled"
        self.secrets: dict[str, str | ClientError] = {
            **{name: f"{name}-secret" for kind in SHIPPED_JOBS for name in kind.secret_names()},
            "stripe": "sk_live_secret",
            "hubspot": "any-secret",
        }
        self.schedule: str = "ENABLED"
        self.sweeps: list[dict[str, Any]] = [
            {"status": "SUCCEEDED", "startDate": datetime.now(UTC)}
        ]
        self.alarms: dict[str, dict[str, Any]] = {
            name: {
                "AlarmName": name,
                "ActionsEnabled": True,
                "AlarmActions": ["arn:topic"],
                "StateValue": "OK",
                "AlarmDescription": AlarmDescription(
                    impact=f"{name} is bad.",
                    next_step="oncely list --status unknown --stack Oncely-dev",
                    runbook=f"docs/operations.md#{name}",
                ).render(),
            }
            for name in ("oldest", "needs-review")
        }
        self.missing_alarms: set[str] = set()
        self.order_rows: list[dict[str, Any]] = [order_item()]
        self.unsharded_orders: list[list[str]] = [[]]  # by page
        self.subscriptions: list[dict[str, str]] = [
            {"SubscriptionArn": "arn:sub:1", "Endpoint": "ops@example.com"}
        ]
        self.objects: dict[str, bytes] = {}  # of the archive
        self.world: InMemoryStack = InMemoryStack()
        self.hubspot: ApiKeyCheck = ApiKeyCheck(accepted=True)
        vars(self).update(changes)

    def connection(self, **changes: Any) -> FakeStackConnection:  # noqa: ANN401  # fields by name
        services = (
            *("cloudformation", "cloudwatch", "dynamodb", "lambda", "s3", "scheduler"),
            *("secretsmanager", "sesv2", "sns", "sqs", "stepfunctions"),
        )
        outputs = {
            **{f"{pascal_case(name)}QueueUrl": name for name in self.queues},
            **{f"{pascal_case(name)}TableName": name for name in self.tables},
            **{
                f"{pascal_case(name)}SecretArn": name
                for kind in SHIPPED_JOBS
                for name in kind.secret_names()
            },
            "AdminUrl": "https://admin",
            "AlertTopicArn": "arn:topic",
            "ArchiveBucketName": "archive",
            "EventBusName": "bus",
            "ReconcilerArn": "arn:machine",
            "RowRetentionDays": "35",
            "SesSenderAddress": "Shop <receipts@mail.example.com>",
            "SesConfigurationSet": "receipts",
        }
        clients: dict[str, Any] = dict.fromkeys(services, self)
        given: dict[str, Any] = {"world": self.world, "clients": {**clients, "sts": FakeSts()}}
        given["key_checks"] = {"hubspot": self.hubspot}
        return FakeStackConnection(**{**given, "outputs": outputs, **changes})

    def describe_stacks(self, **_: str) -> dict[str, Any]:
        return {"Stacks": [self.stack]}

    def get_paginator(self, operation: str) -> "FakePaginator":
        return FakePaginator(self, operation)

    def resources(self) -> Iterator[tuple[str, str]]:
        yield from (("AWS::Lambda::Function", name) for name in self.functions)
        yield from (("AWS::Lambda::EventSourceMapping", name) for name in self.mappings)
        yield from (("AWS::CloudWatch::Alarm", name) for name in self.alarms)
        yield "AWS::Scheduler::Schedule", "default|sweep"

    def get_queue_attributes(self, *, QueueUrl: str, **_: object) -> dict[str, Any]:  # noqa: N803  # boto3's
        return {"Attributes": self.queues[QueueUrl]}

    def get_function_configuration(self, *, FunctionName: str) -> dict[str, Any]:  # noqa: N803  # boto3's
        return self.functions[FunctionName]

    def get_function_concurrency(self, *, FunctionName: str) -> dict[str, int]:  # noqa: N803  # boto3's
        reserved = self.concurrency.get(FunctionName)
        return {} if reserved is None else {"ReservedConcurrentExecutions": reserved}

    def get_account_settings(self) -> dict[str, Any]:
        return {"AccountLimit": {"ConcurrentExecutions": self.concurrency_limit}}

    def get_account(self) -> dict[str, Any]:
        return _value_or_raise(self.mail)

    def get_configuration_set_event_destinations(self, **_: str) -> dict[str, Any]:
        return _value_or_raise(self.mail_events)

    def get_email_identity(self, *, EmailIdentity: str) -> dict[str, Any]:  # noqa: N803  # boto3's
        return _value_or_raise(
            self.identities.get(EmailIdentity, client_error("NotFoundException"))
        )

    def get_event_source_mapping(self, *, UUID: str) -> dict[str, Any]:  # noqa: N803  # boto3's
        return self.mappings[UUID]

    def describe_table(self, *, TableName: str) -> dict[str, Any]:  # noqa: N803  # boto3's
        return {"Table": self.tables[TableName]}

    def scan(self, *, TableName: str, **_: object) -> dict[str, Any]:  # noqa: N803  # boto3's
        return {"Items": self.order_rows if TableName == "orders" else []}

    def get_item(self, **_: object) -> dict[str, Any]:
        return {"Item": self.identity} if self.identity else {}

    def describe_time_to_live(self, **_: str) -> dict[str, Any]:
        return {"TimeToLiveDescription": self.expiry}

    def describe_continuous_backups(self, **_: str) -> dict[str, Any]:
        recovery = {"PointInTimeRecoveryStatus": self.recovery}
        return {"ContinuousBackupsDescription": {"PointInTimeRecoveryDescription": recovery}}

    def head_bucket(self, **_: str) -> dict[str, Any]:
        return {}

    def get_object(self, *, Key: str, **_: str) -> dict[str, Any]:  # noqa: N803  # boto3's
        return {"Body": BytesIO(self.objects[Key]), "ETag": "", "LastModified": START}

    def get_bucket_versioning(self, **_: str) -> dict[str, str]:
        return {"Status": self.versioning}

    def get_secret_value(self, *, SecretId: str) -> dict[str, str]:  # noqa: N803  # boto3's
        return {"SecretString": _value_or_raise(self.secrets[SecretId])}

    def describe_secret(self, **_: str) -> dict[str, Any]:
        return {"VersionIdsToStages": {"1": ["AWSCURRENT"]}}

    def get_schedule(self, **_: str) -> dict[str, str]:
        return {"State": self.schedule, "ScheduleExpression": "rate(1 minute)"}

    def list_executions(self, **_: object) -> dict[str, Any]:
        return {"executions": self.sweeps}

    def describe_alarms(self, *, AlarmNames: list[str]) -> dict[str, Any]:  # noqa: N803  # boto3's
        there = set(AlarmNames) - self.missing_alarms
        return {"MetricAlarms": [self.alarms[name] for name in sorted(there)]}


@dataclass(frozen=True)
class FakePaginator:
    account: FakeAwsAccount
    operation: str

    def paginate(self, **_: object) -> Iterator[dict[str, Any]]:
        orders = (
            [{"order_id": {"S": one}} for one in page] for page in self.account.unsharded_orders
        )
        resources = [
            {"ResourceType": kind, "PhysicalResourceId": name}
            for kind, name in self.account.resources()
        ]
        objects = [{"Key": name, "LastModified": START} for name in self.account.objects]
        pages: dict[str, list[dict[str, Any]]] = {
            "scan": [{"ScannedCount": 1000, "Items": items} for items in orders],
            "list_objects_v2": [{"Contents": objects}],
            "list_subscriptions_by_topic": [{"Subscriptions": self.account.subscriptions}],
            "list_stack_resources": [{"StackResourceSummaries": resources}],
        }
        yield from pages[self.operation]


def _value_or_raise(value: T | ClientError) -> T:
    if isinstance(value, ClientError):
        raise value
    return value


def client_error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "GetSecretValue")
