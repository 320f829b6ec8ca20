"""New DynamoDB tables for one test, on any engine, with a count of requests."""

import hashlib
import os
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import boto3
from botocore.config import Config

from oncely.app import App
from oncely.aws.business_tables import BusinessTable
from oncely.aws.client_config import DYNAMODB
from oncely.aws.clients import AwsClients
from oncely.contracts.registry import JobRegistry
from oncely.contracts.settings import Settings, pascal_case
from oncely.contracts.table_schema import IndexSchema, KeySchema, TableSchema
from oncely.core.effect_outcomes import BusinessWrite
from oncely.core.inserter import JobInserter
from oncely.core.keys import JobKey
from oncely.core.row_items import Attributes, serialize, serialize_field
from oncely.core.store import JobStore
from oncely.gates.table import GateTable
from oncely.jobs.shipped import SHIPPED_JOBS
from oncely.operate.job_index import JobIndex
from oncely.operate.own_tables import JOBS, TTL_ATTRIBUTE
from oncely.ports import Ports
from oncely.testing.memory_aws.account import MemoryAws
from oncely.testing.memory_aws.calls import AwsCall
from oncely.testing.memory_aws.wire import WireClients
from oncely_local.engine import REGION
from tests.support.fakes import START
from tests.support.table_schemas import TABLE_SCHEMAS

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

T = TypeVar("T")

# Overrides the developer's AWS profile; set before the first client is created.
NO_PROFILE: Final = {
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}


@cache
def _session() -> boto3.Session:
    """One for all tests: it reads the description of DynamoDB's API once."""
    return boto3.Session(aws_access_key_id="test", aws_secret_access_key="test", region_name=REGION)


# A JVM that has just started takes seconds for its first table.
_PATIENT: Final = DYNAMODB.merge(Config(read_timeout=30))

# A session may not make two clients at once.
_ONE_AT_A_TIME: Final = threading.Lock()


def client_for(url: str, *, config: Config = DYNAMODB) -> "DynamoDBClient":
    with _ONE_AT_A_TIME:
        return _session().client("dynamodb", endpoint_url=url, config=config)


@cache
def _admin_client(url: str) -> "DynamoDBClient":
    """One for all tests, which neither watch it nor make it fail."""
    return client_for(url, config=_PATIENT)


@dataclass
class CallRecorder:
    operations: list[str] = field(default_factory=list)
    attempts: list[str] = field(default_factory=list)
    requests: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)

    def watch(self, client: "DynamoDBClient") -> None:
        events = client.meta.events
        events.register("before-parameter-build.dynamodb", self._record_request)
        events.register("before-call.dynamodb", self._record_operation)
        events.register_first("before-send.dynamodb", self._record_attempt)

    def by_operation(self) -> dict[str, int]:
        return dict(Counter(self.operations))

    def reset(self) -> None:
        self.operations.clear()
        self.attempts.clear()
        self.requests.clear()

    def intercept(self, call: AwsCall, perform: Callable[[], T]) -> T:
        """The same for a client in memory, which sends nothing twice."""
        name = pascal_case(call.operation)
        self.requests.append((name, call.request))
        self.operations.append(name)
        self.attempts.append(name)
        return perform()

    def _record_request(self, event_name: str, params: Mapping[str, Any], **_: object) -> None:
        self.requests.append((event_name.rpartition(".")[2], params))

    def _record_operation(self, event_name: str, **_: object) -> None:
        self.operations.append(event_name.rpartition(".")[2])

    def _record_attempt(self, event_name: str, **_: object) -> None:
        self.attempts.append(event_name.rpartition(".")[2])


@dataclass(frozen=True, kw_only=True)
class DynamoBusinessRows:
    reader: "DynamoDBClient"
    writer: "DynamoDBClient"
    tables: Mapping[str, str]

    def put(self, table: str, key: Mapping[str, str], row: Mapping[str, object]) -> None:
        item = {name: serialize(value) for name, value in {**key, **row}.items()}
        self.writer.put_item(TableName=self.tables[table], Item=item)

    def get(self, table: str, key: Mapping[str, str]) -> Mapping[str, object] | None:
        return self._table(table).get(key)

    def query_index(
        self,
        table: str,
        index: str,
        *,
        partitions: tuple[str, Sequence[str]],
        max_sort_key: tuple[str, str],
    ) -> Iterable[Mapping[str, object]]:
        return self._table(table).query_index(
            index, partitions=partitions, max_sort_key=max_sort_key
        )

    def update(self, write: BusinessWrite) -> bool:
        return self._table(write.table).update(write)

    def delete_partition(
        self, table: str, partition: Mapping[str, str], *, sort: str, dry_run: bool
    ) -> int:
        return self._table(table).delete_partition(partition, sort=sort, dry_run=dry_run)

    def _table(self, name: str) -> BusinessTable:
        return BusinessTable(self.reader, self.tables[name], name)


class DynamoFixture:
    """The tables of one test; close it when the test is over.

    `on_first_use` creates each table when a client of this fixture names it: most tests use one.
    """

    def __init__(self, url: str, *, name: str = "", on_first_use: bool = False) -> None:
        name = name or uuid.uuid4().hex
        self.url = url
        self.jobs_table = f"jobs-{name}"
        self.tables = {short: f"{short}-{name}" for short in TABLE_SCHEMAS if short != JOBS}
        self._handlers = {
            "before-parameter-build.dynamodb.TransactWriteItems": self._scope_to_test,
            "provide-client-params.dynamodb": self._create_named,
        }
        self._clients: list[DynamoDBClient] = []
        self._watchers: list[Callable[[DynamoDBClient], None]] = []
        # For setup and checks, which are not counted.
        self.admin = _admin_client(url)
        self._register(self.admin)
        self.client = self.separate_client()
        self.calls = CallRecorder()
        self.calls.watch(self.client)
        names = {JOBS: self.jobs_table, **self.tables}
        self._missing = {names[short]: plan for short, plan in TABLE_SCHEMAS.items()}
        self._creating = threading.RLock()
        if not on_first_use:
            self._create_tables(self._missing)

    def store(
        self, client: "DynamoDBClient | None" = None, *, sleep: Callable[[float], None] = time.sleep
    ) -> JobStore:
        """The shipped store, with the counted client by default."""
        return JobStore(
            client=client or self.client, table=self.jobs_table, tables=self.tables, sleep=sleep
        )

    def app(self, client: "DynamoDBClient | None" = None) -> App:
        """The shipped services that need no other AWS service."""
        settings = Settings(
            jobs_table=self.jobs_table, gates_table=self.tables["gates"], tables=self.tables
        )
        clients = AwsClients()
        clients.dynamodb = client or self.client
        return App(settings, JobRegistry(SHIPPED_JOBS), Ports(settings, clients))

    def inserter(self, client: "DynamoDBClient | None" = None) -> JobInserter:
        return JobInserter(client or self.client, self.store(client))

    def finder(self, client: "DynamoDBClient | None" = None) -> JobIndex:
        return JobIndex(client or self.client, self.jobs_table)

    def gates(self, client: "DynamoDBClient | None" = None) -> GateTable:
        return GateTable(client or self.client, self.tables["gates"])

    def rows(self, client: "DynamoDBClient | None" = None) -> DynamoBusinessRows:
        return DynamoBusinessRows(
            reader=client or self.client, writer=self.admin, tables=self.tables
        )

    def separate_client(self, *, config: Config = DYNAMODB) -> "DynamoDBClient":
        """The store of another worker, with its own client that is not counted."""
        client = client_for(self.url, config=config)
        self._register(client)
        self._clients.append(client)
        for watch in self._watchers:
            watch(client)
        return client

    def _register(self, client: "DynamoDBClient") -> None:
        for event, handler in self._handlers.items():
            client.meta.events.register_first(event, handler)

    def watch_new_clients(self, watch: "Callable[[DynamoDBClient], None]") -> None:
        self._watchers.append(watch)
        for client in self._clients:
            watch(client)

    def row(self, key: JobKey) -> Attributes | None:
        answer = self.admin.get_item(TableName=self.jobs_table, Key=_key(key), ConsistentRead=True)
        return dict(answer["Item"]) if "Item" in answer else None

    def set_attributes(self, key: JobKey, **attributes: object) -> None:
        row = self.row(key) or _key(key)
        added = {name: serialize(value) for name, value in attributes.items()}
        self.admin.put_item(TableName=self.jobs_table, Item={**row, **added})

    def edit_row(self, key: JobKey, **attributes: Any) -> None:  # noqa: ANN401  # the SDK's own form
        self.admin.update_item(
            TableName=self.jobs_table,
            Key=_key(key),
            UpdateExpression="SET " + ", ".join(f"#{name} = :{name}" for name in attributes),
            ExpressionAttributeNames={f"#{name}": name for name in attributes},
            ExpressionAttributeValues={f":{name}": value for name, value in attributes.items()},
        )

    def remove_row(self, key: JobKey) -> None:
        self.admin.delete_item(TableName=self.jobs_table, Key=_key(key))

    def delete_table(self, short: str) -> None:
        self.admin.delete_table(TableName=self.tables[short])

    def another(self) -> "DynamoFixture":
        """The tables of another deployment on the same engine."""
        return DynamoFixture(self.url)

    def protect(self) -> None:
        """Protect the job table as the stack does.

        Without this, the tables have no TTL: the engine would remove rows by its own clock, in the
        middle of a test, once the dates that tests use have passed.
        """
        self.admin.update_time_to_live(
            TableName=self.jobs_table,
            TimeToLiveSpecification={"Enabled": True, "AttributeName": TTL_ATTRIBUTE},
        )
        self.admin.update_table(
            TableName=self.jobs_table,
            StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
        )
        self.admin.update_continuous_backups(
            TableName=self.jobs_table,
            PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True},
        )

    def close(self) -> None:
        for event, handler in self._handlers.items():
            self.admin.meta.events.unregister(event, handler)
        for client in self._clients:
            client.close()

    def _scope_to_test(self, params: dict[str, Any], **_: object) -> None:
        # An engine that outlives a test remembers tokens, and two tests may use the same owner.
        token = f"{self.jobs_table}:{params.get('ClientRequestToken', uuid.uuid4())}"
        params["ClientRequestToken"] = hashlib.sha256(token.encode()).hexdigest()[:36]

    def _create_named(self, params: Mapping[str, Any], **_: object) -> None:
        request = repr(params)
        with self._creating:
            self._create_tables([name for name in self._missing if name in request])

    def _create_tables(self, names: Iterable[str]) -> None:
        for name in [*names]:
            self._create_table(name, self._missing.pop(name))

    def _create_table(self, table: str, plan: TableSchema) -> None:
        keys = [plan.key, *(index.key for index in plan.indexes)]
        indexes: Any = [
            {
                "IndexName": index.name,
                "KeySchema": _schema(index.key),
                "Projection": _projection(index),
            }
            for index in plan.indexes
        ]
        self.admin.create_table(
            TableName=table,
            KeySchema=_schema(plan.key),
            AttributeDefinitions=[
                {"AttributeName": name, "AttributeType": "S"}
                for name in sorted({name for key in keys for name in key.names})
            ],
            BillingMode="PAY_PER_REQUEST",
            **({"GlobalSecondaryIndexes": indexes} if indexes else {}),
        )


class MemoryDynamoFixture(DynamoFixture):
    """The same over DynamoDB in memory, whose tables are protected as the stack deploys them."""

    def __init__(self) -> None:
        self.jobs_table = JOBS
        self.tables = {short: short for short in TABLE_SCHEMAS if short != JOBS}
        self.account = MemoryAws(now=lambda: START, tables=TABLE_SCHEMAS)
        self.memory = self.account.dynamodb
        self.calls = CallRecorder()
        self.admin = cast("DynamoDBClient", self.memory)
        counted = self.memory.with_intercept(self.calls.intercept)
        self.client = cast("DynamoDBClient", counted)

    def separate_client(self, *, config: Config = DYNAMODB) -> "DynamoDBClient":  # nothing is sent
        return self.admin

    def delete_table(self, short: str) -> None:
        del self.memory.tables[self.tables[short]]

    def another(self) -> "MemoryDynamoFixture":
        return type(self)()

    def protect(self) -> None:
        pass

    def close(self) -> None:
        pass


class WireDynamoFixture(MemoryDynamoFixture):
    """The same behind botocore. Setup and checks are direct."""

    def __init__(self) -> None:
        super().__init__()
        self.client = WireClients(self.account).dynamodb
        self.calls.watch(self.client)


def _projection(index: IndexSchema) -> Any:  # noqa: ANN401  # the SDK's own form
    if not index.include:
        return {"ProjectionType": "KEYS_ONLY"}
    return {"ProjectionType": "INCLUDE", "NonKeyAttributes": list(index.include)}


def _schema(key: KeySchema) -> Any:  # noqa: ANN401  # the SDK's own form
    return [
        {"AttributeName": name, "KeyType": kind}
        for name, kind in zip(key.names, ("HASH", "RANGE"), strict=False)
    ]


def _key(key: JobKey) -> dict[str, Any]:
    return {"job_key": serialize_field("job_key", key)}
