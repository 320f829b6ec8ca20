"""The checks of `oncely doctor`: each is one function, in one list at the end."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final, TypeAlias

from pydantic import ValidationError

from oncely.aws.alarm_description import AlarmDescription
from oncely.aws.objects import S3Objects
from oncely.cli import console
from oncely.cli.project import project_jobs
from oncely.cli.stack_connection import StackConnection
from oncely.contracts.job import AnyJob, providers_of
from oncely.contracts.settings import (
    EXISTING_TABLES_OUTPUT,
    describe_job_settings,
    job_setting_output,
    pascal_case,
)
from oncely.contracts.table_schema import Column, ColumnType, IndexSchema, KeySchema, TableSchema
from oncely.core.aws_errors import AWS_ERRORS, error_code
from oncely.core.job_row import operator_name
from oncely.core.table_guard import DynamoTableIdentity, blocking_reason
from oncely.core.text import format_minute
from oncely.history.archive import HistoryArchive
from oncely.operate.own_tables import JOBS, JOBS_SCHEMA, TTL_ATTRIBUTE
from oncely.plugins.health import Finding
from oncely.plugins.provider import AnyProvider, ApiKeyCheck, ProviderAccess

AwsDescription = Mapping[str, Any]


@dataclass
class DeployedStack:
    """The stack that the checks read."""

    connection: StackConnection
    now: datetime
    contracts: tuple[type[AnyJob], ...] = field(default_factory=project_jobs)

    @cached_property
    def stack(self) -> AwsDescription:
        client = self.connection.client("cloudformation")
        found: AwsDescription = client.describe_stacks(StackName=self.connection.name)["Stacks"][0]
        return found

    @cached_property
    def resources(self) -> list[AwsDescription]:
        client = self.connection.client("cloudformation")
        paginator = client.get_paginator("list_stack_resources")
        pages = paginator.paginate(StackName=self.connection.name)
        return [one for page in pages for one in page["StackResourceSummaries"]]

    def physical_ids(self, kind: str) -> list[str]:
        return [one["PhysicalResourceId"] for one in self.resources if one["ResourceType"] == kind]

    @cached_property
    def functions(self) -> list[AwsDescription]:
        client = self.connection.client("lambda")
        names = self.physical_ids("AWS::Lambda::Function")
        return [client.get_function_configuration(FunctionName=name) for name in names]

    @cached_property
    def event_source_mappings(self) -> list[AwsDescription]:
        client = self.connection.client("lambda")
        ids = self.physical_ids("AWS::Lambda::EventSourceMapping")
        return [client.get_event_source_mapping(UUID=one) for one in ids]

    @cached_property
    def queue_names(self) -> tuple[str, ...]:
        return tuple(sorted({contract_type.queue for contract_type in self.contracts}))

    @cached_property
    def providers(self) -> tuple[AnyProvider, ...]:
        settings = self.connection.provider_settings
        return tuple(p for p in providers_of(self.contracts) if p.is_configured(settings(p)))

    @cached_property
    def table_schemas(self) -> dict[str, TableSchema]:
        return {
            table.name: table
            for contract_type in self.contracts
            for table in contract_type.all_tables()
            if not isinstance(table, str)
        }

    def columns(self, table: str) -> Mapping[str, str]:
        """The names that an existing table has for our columns, where they differ."""
        found: Mapping[str, str] = json.loads(
            self.connection.outputs.get(f"{pascal_case(table)}Columns", "{}")
        )
        return found

    @cached_property
    def existing_tables(self) -> frozenset[str]:
        """The tables that the stack did not create. They may lack an index."""
        return frozenset(self.connection.outputs.get(EXISTING_TABLES_OUTPUT, "").split(","))

    @cached_property
    def secret_names(self) -> tuple[str, ...]:
        return tuple(sorted({n for c in self.contracts for n in c.secret_names(self.providers)}))

    @cached_property
    def table_names(self) -> tuple[str, ...]:
        used = {name for one in self.contracts for name in one.table_names()}
        return ("jobs", *sorted(used))

    def queue_url(self, name: str) -> str | None:
        return self.connection.outputs.get(f"{pascal_case(name)}QueueUrl")

    def queue(self, url: str) -> AwsDescription:
        if url not in self._queues:
            client = self.connection.client("sqs")
            found = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
            self._queues[url] = found["Attributes"]
        return self._queues[url]

    @cached_property
    def _queues(self) -> dict[str, AwsDescription]:
        return {}

    def function_for(self, mapping: AwsDescription) -> AwsDescription | None:
        arn = mapping["FunctionArn"]
        return next(
            # The ARN may have a qualifier. The colon keeps a longer function name from matching.
            (one for one in self.functions if f"{arn}:".startswith(f"{one['FunctionArn']}:")),
            None,
        )

    def mapping_for(self, queue_arn: str) -> AwsDescription | None:
        return next(
            (one for one in self.event_source_mappings if one.get("EventSourceArn") == queue_arn),
            None,
        )


_DEPLOY: Final = "deploy the stack again"
_DEPLOY_AGAIN: Final = "deploy it again (`cdk deploy`, or `make deploy` in a clone of Oncely)"
_ROLLED_BACK: Final = "UPDATE_ROLLBACK_COMPLETE"


def check_stack(deployed: DeployedStack) -> Iterator[Finding]:
    """Check the stack's status."""
    check, status = f"stack {deployed.connection.name}", str(deployed.stack["StackStatus"])
    if status == _ROLLED_BACK:
        yield Finding.warned(
            check,
            "the last deployment was rolled back",
            f"read its events in CloudFormation, then {_DEPLOY_AGAIN}",
        )
    elif status.endswith("_IN_PROGRESS"):
        yield Finding.warned(
            check, f"a deployment is running ({status})", "check again when it has ended"
        )
    elif status in {"CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE"}:
        yield Finding.passed(check, status)
    else:
        yield Finding.failed(
            check, status, f"read its events in CloudFormation, then {_DEPLOY_AGAIN}"
        )


def check_job_settings(deployed: DeployedStack) -> Iterator[Finding]:
    """Check the settings that the contracts declare."""
    declared = (one.settings for one in deployed.contracts)
    for settings_type in dict.fromkeys(filter(None, declared)):
        check = f"settings of {settings_type.__name__}"
        outputs, names = deployed.connection.outputs, settings_type.env_vars().items()
        given = {name: outputs.get(job_setting_output(field), "") for field, name in names}
        try:
            settings_type.read(given)
        except ValidationError as error:
            fix = "set it under [job_settings] in the stage's file, and deploy the stack again"
            yield Finding.failed(check, describe_job_settings(error), fix)
        else:
            yield Finding.passed(check, "complete")


def check_outputs(deployed: DeployedStack) -> Iterator[Finding]:
    """Check for every output that this version of the code needs."""
    queues = (*deployed.queue_names, "rejects", "dead_letter")
    wanted = {
        *(f"{pascal_case(name)}QueueUrl" for name in queues),
        *(f"{pascal_case(name)}TableName" for name in deployed.table_names),
        *(f"{pascal_case(name)}SecretArn" for name in deployed.secret_names),
        *("AdminUrl", "AlertTopicArn", "ArchiveBucketName", "EventBusName"),
        *("ReconcilerArn", "RowRetentionDays"),
    }
    if missing := sorted(wanted - set(deployed.connection.outputs)):
        yield Finding.failed("outputs", f"missing: {', '.join(missing)}", _DEPLOY_AGAIN)
    else:
        yield Finding.passed("outputs", f"all {len(wanted)} exist")


# AWS's advice: a batch may be throttled and retried before its messages become visible again.
VISIBILITY_FACTOR: Final = 6
_DEPLOY_QUEUE: Final = "deploy the stack again: the queue was changed by hand"


def check_queues(deployed: DeployedStack) -> Iterator[Finding]:
    """Check each job queue, the dead letter queue and the rejects queue."""
    dead_letters = deployed.connection.outputs.get("DeadLetterQueueUrl")
    last = None if dead_letters is None else deployed.queue(dead_letters)
    for name in deployed.queue_names:
        if url := deployed.queue_url(name):
            yield _check_queue(deployed, name, deployed.queue(url), last)
    for name, url in (
        ("dead letters", dead_letters),
        ("rejects", deployed.connection.outputs.get("RejectsQueueUrl")),
    ):
        if url is not None:
            yield _check_last_queue(name, deployed.queue(url))
    yield _check_rejects(deployed.connection.app.rejected_messages.count_today())


def _check_rejects(number: int) -> Finding:
    if not number:
        return Finding.passed("rejected messages", "none in the last 24 hours")
    return Finding.warned(
        "rejected messages",
        f"{number} in the last 24 hours",
        "see why with `oncely rejects list`, and fix the producer",
    )


def _check_queue(
    deployed: DeployedStack, name: str, queue: AwsDescription, last: AwsDescription | None
) -> Finding:
    check = f"queue {name}"
    if faults := [*_visibility(deployed, queue), *_dead_letters(queue, last)]:
        return Finding.failed(check, "; ".join(faults), _DEPLOY_QUEUE)
    waiting = int(queue.get("ApproximateNumberOfMessages", 0))
    return Finding.passed(check, f"settings are correct, {waiting} messages waiting")


def _visibility(deployed: DeployedStack, queue: AwsDescription) -> Iterator[str]:
    mapping = deployed.mapping_for(queue["QueueArn"])
    function = None if mapping is None else deployed.function_for(mapping)
    if function is None:
        return
    visible, timeout = int(queue["VisibilityTimeout"]), int(function["Timeout"])
    if visible < VISIBILITY_FACTOR * timeout:
        yield (
            f"visibility timeout is {visible} s, but a function timeout of {timeout} s needs at "
            f"least {VISIBILITY_FACTOR * timeout} s"
        )


def _dead_letters(queue: AwsDescription, last: AwsDescription | None) -> Iterator[str]:
    policy = json.loads(queue.get("RedrivePolicy") or "{}")
    if last is None or policy.get("deadLetterTargetArn") != last["QueueArn"]:
        yield "its redrive policy does not point to the stack's dead letter queue"
        return
    kept, kept_after = int(queue["MessageRetentionPeriod"]), int(last["MessageRetentionPeriod"])
    # SQS counts a dead letter's age from its first send.
    if kept_after <= kept:
        yield (
            f"the dead letter queue keeps messages {_days(kept_after)} from the first send, and "
            f"this queue already keeps them {_days(kept)}"
        )


def _check_last_queue(name: str, queue: AwsDescription) -> Finding:
    if waiting := int(queue.get("ApproximateNumberOfMessages", 0)):
        return Finding.warned(
            name,
            f"{waiting} messages wait for their function",
            "check the function's log; see docs/operations.md#queue-backlog",
        )
    return Finding.passed(name, "empty")


def _days(seconds: int) -> str:
    return f"{seconds / 86_400:g} days"


# The queue workers have their own limits. This is for the reconciler, which resolves 10 jobs
# concurrently, the stream, the schedule and the admin page.
OTHER_FUNCTIONS_CONCURRENCY: Final = 20
_PARTIAL_FAILURES: Final = "ReportBatchItemFailures"
# The readers of the job table's stream, by a part of their handler's name.
_STREAM_READERS: Final = {"publisher": "publish_ended", "history": "archive_history"}


def check_functions(deployed: DeployedStack) -> Iterator[Finding]:
    """Check the state of each function."""
    healthy = 0
    for function in deployed.functions:
        faults = list(_check_function(deployed, function))
        yield from faults
        healthy += not faults
    yield Finding.passed("functions", f"{healthy} of {len(deployed.functions)} are active")


def _check_function(deployed: DeployedStack, function: AwsDescription) -> Iterator[Finding]:
    name = str(function["FunctionName"])
    check = f"function {name}"
    states = (function.get("State", "Active"), function.get("LastUpdateStatus", "Successful"))
    # Lambda makes a function inactive after weeks without a call. The next call activates it.
    if states[0] not in {"Active", "Inactive"} or states[1] != "Successful":
        reason = function.get("StateReason") or function.get("LastUpdateStatusReason") or states
        yield Finding.failed(check, f"not running: {reason}", _DEPLOY)
    found = deployed.connection.client("lambda").get_function_concurrency(FunctionName=name)
    if found.get("ReservedConcurrentExecutions") == 0:
        yield Finding.failed(
            check,
            "reserved concurrency is 0, so it never runs",
            f"aws lambda delete-function-concurrency --function-name {name}",
        )
    yield from _check_timeout(deployed, function, check)


def _check_timeout(
    deployed: DeployedStack, function: AwsDescription, check: str
) -> Iterator[Finding]:
    queue = function.get("Environment", {}).get("Variables", {}).get("QUEUE_NAME")
    for contract_type in deployed.contracts:
        needed = contract_type.max_duration().total_seconds()
        if contract_type.queue == queue and needed >= int(function["Timeout"]):
            yield Finding.failed(
                check,
                f"a {contract_type.job_type} job may take {needed:g} s, but the function times "
                f"out after {function['Timeout']} s",
                _DEPLOY,
            )


def check_event_sources(deployed: DeployedStack) -> Iterator[Finding]:
    """Check the event source mapping of each queue and of the job table's stream."""
    urls = {name: deployed.queue_url(name) for name in deployed.queue_names}
    urls["dead letters"] = deployed.connection.outputs.get("DeadLetterQueueUrl")
    urls["rejects"] = deployed.connection.outputs.get("RejectsQueueUrl")
    urls["gaps"] = deployed.connection.outputs.get("GapsQueueUrl")
    for name, url in urls.items():
        if url is not None:
            yield _check_mapping(
                f"event source {name}", deployed.mapping_for(deployed.queue(url)["QueueArn"])
            )
    for name, handler in _STREAM_READERS.items():
        yield _check_mapping(f"event source stream, {name}", _stream_mapping(deployed, handler))


def _stream_mapping(deployed: DeployedStack, handler: str) -> AwsDescription | None:
    for mapping in deployed.event_source_mappings:
        name = (deployed.function_for(mapping) or {}).get("Handler", "")
        if "/stream/" in mapping.get("EventSourceArn", "") and handler in name:
            return mapping
    return None


def _check_mapping(check: str, mapping: AwsDescription | None) -> Finding:
    if mapping is None:
        return Finding.failed(check, "has no event source mapping", _DEPLOY)
    fix = f"aws lambda update-event-source-mapping --uuid {mapping['UUID']} --enabled"
    state = mapping["State"]
    if state in {"Disabled", "Disabling"}:
        return Finding.failed(check, "event source mapping is disabled", fix)
    if state != "Enabled":
        return Finding.warned(check, f"event source mapping is {state}", "check again in a minute")
    if _PARTIAL_FAILURES not in mapping.get("FunctionResponseTypes", []):
        return Finding.failed(
            check, f"{_PARTIAL_FAILURES} is off: one failure redelivers the whole batch", _DEPLOY
        )
    return Finding.passed(check, "event source mapping is enabled")


def check_concurrency(deployed: DeployedStack) -> Iterator[Finding]:
    """Check the account's concurrency limit, which is often 10 in a new account."""
    if deployed.connection.is_local:
        return
    check = "concurrency"
    limits = deployed.connection.client("lambda").get_account_settings()["AccountLimit"]
    limit = int(limits["ConcurrentExecutions"])
    scaling = (one.get("ScalingConfig", {}) for one in deployed.event_source_mappings)
    workers = sum(one.get("MaximumConcurrency", 0) for one in scaling)
    needed = workers + OTHER_FUNCTIONS_CONCURRENCY
    if limit >= needed:
        yield Finding.passed(check, f"the account limit is {limit:,}")
        return
    yield Finding.warned(
        check,
        f"the account limit is {limit}, but this stack may need {needed}: under load, functions "
        "are throttled and messages are delayed or dead-lettered",
        # AWS's code for the quota "Concurrent executions".
        "aws service-quotas request-service-quota-increase --service-code lambda "
        "--quota-code L-B99A9384 --desired-value 1000",
    )


def check_tables(deployed: DeployedStack) -> Iterator[Finding]:
    """Check each table in the outputs."""
    client = deployed.connection.client("dynamodb")
    for name in deployed.table_names:
        table = deployed.connection.outputs.get(f"{pascal_case(name)}TableName")
        if table is None:
            continue
        described: AwsDescription = client.describe_table(TableName=table)["Table"]
        faults = list(_faults(name, described))
        # An existing table may have more indexes than the code queries.
        schema = JOBS_SCHEMA if name == JOBS else deployed.table_schemas.get(name)
        indexes = () if schema is None else schema.indexes
        missing = list(_missing_indexes(described, indexes))
        if name in deployed.existing_tables:
            yield from (_without_index(name, one) for one in missing)
        else:
            faults += missing
        if faults:
            yield Finding.failed(f"table {name}", "; ".join(faults), _DEPLOY)
        elif not missing:
            yield Finding.passed(f"table {name}", "active, with all indexes")
        if name == JOBS:
            yield _check_identity(client, table, deployed.now)
        if deployed.connection.is_local:
            continue  # the local stack neither expires nor restores rows
        yield from _check_recovery(client, name, table)
        if schema is not None and schema.has_ttl:
            yield _check_expiry(client, name, table)


def _faults(name: str, described: AwsDescription) -> Iterator[str]:
    if described["TableStatus"] not in {"ACTIVE", "UPDATING"}:
        yield f"status is {described['TableStatus']}"
    stream = described.get("StreamSpecification", {})
    if name == JOBS and stream.get("StreamViewType") != "NEW_AND_OLD_IMAGES":
        yield "stream does not show old and new rows, so the history is not written"


def _missing_indexes(described: AwsDescription, indexes: tuple[IndexSchema, ...]) -> Iterator[str]:
    there = {
        one["IndexName"]: one.get("IndexStatus", "ACTIVE")  # the local engine omits it
        for one in described.get("GlobalSecondaryIndexes", [])
    }
    for index in indexes:
        if there.get(index.name) != "ACTIVE":
            yield f"index {index.name} is {there.get(index.name, 'missing')}"


def _without_index(name: str, missing: str) -> Finding:
    return Finding.warned(
        f"table {name}",
        f"{missing}: the reconciler does not find rows whose message was lost",
        "add the index, or send messages from an outbox; see docs/tables.md",
    )


def _check_identity(client: Any, table: str, now: datetime) -> Finding:  # noqa: ANN401  # boto3's client
    # The rule that workers use to accept the table.
    check = "job table identity"
    look = DynamoTableIdentity(client, table)
    item, facts = look.identity(), look.with_protection(look.facts())
    summary = f"table id {facts.table_id}; stream, TTL and point-in-time recovery are on"
    if (reason := blocking_reason(item, facts, now=now)) is not None or item is None:
        return Finding.failed(check, reason or "", "see docs/operations.md#job-table-blocked")
    if item.restored_at is not None:
        summary = f"{summary}; restored at {format_minute(item.restored_at)}"
    return Finding.passed(check, f"{item.deployment}; {summary}")


def _check_expiry(client: Any, name: str, table: str) -> Finding:  # noqa: ANN401  # boto3's client
    check = f"TTL of table {name}"
    found = client.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
    if found.get("TimeToLiveStatus") not in {"ENABLED", "ENABLING"}:
        return Finding.failed(check, "TTL is off: rows never expire", _DEPLOY)
    if found.get("AttributeName") != TTL_ATTRIBUTE:
        return Finding.failed(
            check, f"rows expire by {found.get('AttributeName')}, not by {TTL_ATTRIBUTE}", _DEPLOY
        )
    return Finding.passed(check, f"rows expire by {TTL_ATTRIBUTE}")


def _check_recovery(client: Any, name: str, table: str) -> Iterator[Finding]:  # noqa: ANN401  # boto3's client
    found = client.describe_continuous_backups(TableName=table)["ContinuousBackupsDescription"]
    state = found.get("PointInTimeRecoveryDescription", {}).get("PointInTimeRecoveryStatus")
    if state != "ENABLED":
        yield Finding.warned(
            f"table {name}",
            "point-in-time recovery is off",
            f"aws dynamodb update-continuous-backups --table-name {table} "
            "--point-in-time-recovery-specification PointInTimeRecoveryEnabled=true",
        )


# Samples: a business table may have millions of rows.
MAX_ROWS: Final = 5_000
_PAGE_SIZE: Final = 1_000
_MAX_SHOWN: Final = 3
_NULL: Final = "NULL"
_MAP: Final = "correct it, or map the columns in the stage's file; see docs/tables.md"


def check_keys(deployed: DeployedStack) -> Iterator[Finding]:
    """Check the keys and indexes of business tables, including those of other teams."""
    client = deployed.connection.client("dynamodb")
    for name, (table, schema) in _tables(deployed).items():
        described = client.describe_table(TableName=table)["Table"]
        check = f"keys of {name}"
        if faults := list(_key_faults(schema, deployed.columns(name), described)):
            yield Finding.failed(check, "; ".join(faults), _MAP)
        else:
            yield Finding.passed(check, "matches what the jobs expect")


def check_columns(deployed: DeployedStack) -> Iterator[Finding]:
    """Check a sample of the rows for the columns that the jobs read."""
    client = deployed.connection.client("dynamodb")
    for name, (table, schema) in _tables(deployed).items():
        if not schema.columns:
            continue
        columns = deployed.columns(name)
        names = {f"#{n}": columns.get(c.name, c.name) for n, c in enumerate(schema.columns)}
        rows: list[AwsDescription] = client.scan(
            TableName=table,
            Limit=_PAGE_SIZE,
            ProjectionExpression=", ".join(names),
            ExpressionAttributeNames=names,
        )["Items"]
        yield _check_columns(schema, columns, rows)


def check_sparse_indexes(deployed: DeployedStack) -> Iterator[Finding]:
    """Check a sample for rows that an index should contain but cannot.

    A row with the sort key of an index and without its partition key is never found through it.
    """
    for table, schema in _tables(deployed).values():
        for index in schema.indexes:
            if index.key.sort is not None:
                yield _check_sparse_index(deployed, table, schema, index)


def _tables(deployed: DeployedStack) -> dict[str, tuple[str, TableSchema]]:
    outputs = deployed.connection.outputs
    return {
        name: (table, schema)
        for name, schema in deployed.table_schemas.items()
        if (table := outputs.get(f"{pascal_case(name)}TableName"))
    }


def _key_faults(
    schema: TableSchema, columns: Mapping[str, str], described: AwsDescription
) -> Iterator[str]:
    types = {
        one["AttributeName"]: one["AttributeType"] for one in described["AttributeDefinitions"]
    }
    there = {one["IndexName"]: one for one in described.get("GlobalSecondaryIndexes", [])}
    yield from _key_fault("the table", schema.key, columns, described["KeySchema"], types)
    for index in schema.indexes:
        if (found := there.get(index.name)) is None:
            continue  # reported with the table
        part = f"index {index.name}"
        yield from _key_fault(part, index.key, columns, found["KeySchema"], types)
        projection = found["Projection"]
        projected = projection.get("NonKeyAttributes", ())
        left_out = {columns.get(one, one) for one in index.include} - set(projected)
        if left_out and projection["ProjectionType"] != "ALL":
            yield f"{part} does not project {', '.join(sorted(left_out))}"


def _key_fault(
    part: str,
    key: KeySchema,
    columns: Mapping[str, str],
    found: list[Mapping[str, str]],
    types: Mapping[str, str],
) -> Iterator[str]:
    wanted = [columns.get(name, name) for name in key.names]
    actual = [one["AttributeName"] for one in found]
    if actual != wanted:
        yield f"{part} has the key {', '.join(actual)}, but the jobs use {', '.join(wanted)}"
    elif others := [name for name in actual if types[name] != ColumnType.TEXT]:
        yield f"{part} has a key that is not a string: {', '.join(others)}"


def _check_columns(
    schema: TableSchema, columns: Mapping[str, str], rows: list[AwsDescription]
) -> Finding:
    check = f"columns of {schema.name}"
    unusable: list[str] = []
    partly: list[str] = []
    for column in schema.columns:
        name = columns.get(column.name, column.name)
        found = [kind for row in rows if (kind := _type(row.get(name))) is not None]
        wrong = sum(kind != column.type for kind in found)
        if wrong:
            fault = (
                f"{name} is not of type {column.type.label} in {wrong} of {len(rows)} sampled rows"
            )
            (unusable if wrong == len(found) else partly).append(fault)
        elif column.required and rows and not found:
            unusable.append(f"none of {len(rows)} sampled rows has {_label(column, name)}")
    if unusable:
        return Finding.failed(check, "; ".join([*unusable, *partly]), _MAP)
    if partly:
        return Finding.warned(
            check, "; ".join(partly), "correct these rows: their jobs need review"
        )
    return Finding.passed(check, f"{len(rows)} rows sampled, with every column that the jobs need")


def _type(value: Mapping[str, Any] | None) -> str | None:
    """DynamoDB's type of a value. Returns None if there is none."""
    kind = next(iter(value or {}), None)
    return None if kind == _NULL else kind


def _label(column: Column, name: str) -> str:
    return name if name == column.name else f"{name}, the column for {column.name}"


def _check_sparse_index(
    deployed: DeployedStack, table: str, schema: TableSchema, index: IndexSchema
) -> Finding:
    columns = deployed.columns(schema.name)
    partition, sort, row_key = (
        columns.get(name, name)
        for name in (index.key.partition, index.key.sort or "", schema.key.partition)
    )
    read, found = 0, []
    pages = (
        deployed.connection.client("dynamodb")
        .get_paginator("scan")
        .paginate(
            TableName=table,
            FilterExpression="attribute_exists(#sort) AND attribute_not_exists(#partition)",
            ProjectionExpression="#key",
            ExpressionAttributeNames={"#sort": sort, "#partition": partition, "#key": row_key},
            PaginationConfig={"PageSize": _PAGE_SIZE},
        )
    )
    for page in pages:
        read += page["ScannedCount"]
        found += [row[row_key]["S"] for row in page["Items"]]
        if read >= MAX_ROWS:
            break
    check = f"index {index.name} of {schema.name}"
    if not found:
        return Finding.passed(check, f"{read} rows sampled, none has {sort} without {partition}")
    return Finding.warned(
        check,
        f"{len(found)} of {read} sampled rows have {sort} without {partition} "
        f"({', '.join(found[:_MAX_SHOWN])}): the reconciler cannot find them if their message "
        "is lost",
        f"set {partition} in the producer too; see docs/send-jobs.md",
    )


def check_retention(deployed: DeployedStack) -> Iterator[Finding]:
    """Compare row retention with queues, dead letters and idempotency keys; check the archive."""
    days = [
        int(variables["RETENTION_DAYS"])
        for function in deployed.functions
        if "RETENTION_DAYS" in (variables := function.get("Environment", {}).get("Variables", {}))
    ]
    check = "row retention"
    if not days:
        yield Finding.failed(check, "no function sets RETENTION_DAYS", _DEPLOY)
        return
    row_retention, least = timedelta(days=min(days)), _min_retention(deployed)
    kept = min(one.effective_retention(row_retention) for one in deployed.contracts)
    if kept <= least:
        yield Finding.failed(
            check,
            f"rows are kept {kept.days} days, but a job could run again for {least.days} days",
            "raise row_retention_days in the stage's file, or the contract's proof_retention",
        )
    else:
        yield Finding.passed(
            check, f"{kept.days} days; a job could run again for {least.days} days"
        )
    yield from _check_archive(deployed)


def _min_retention(deployed: DeployedStack) -> timedelta:
    kept = [
        int(deployed.queue(url)["MessageRetentionPeriod"])
        for name in deployed.queue_names
        if (url := deployed.queue_url(name))
    ]
    last = deployed.connection.outputs.get("DeadLetterQueueUrl")
    kept_after = 0 if last is None else int(deployed.queue(last)["MessageRetentionPeriod"])
    windows = [
        window
        for contract_type in deployed.contracts
        for policy in contract_type.policies.values()
        if (window := policy.profile.key_ttl) is not None
    ]
    return max(timedelta(seconds=max(kept, default=0) + kept_after), *windows, timedelta(0))


def _check_archive(deployed: DeployedStack) -> Iterator[Finding]:
    name = deployed.connection.outputs.get("ArchiveBucketName")
    if name is None:
        return
    client = deployed.connection.client("s3")
    client.head_bucket(Bucket=name)
    if client.get_bucket_versioning(Bucket=name).get("Status") == "Enabled":
        yield Finding.passed("archive", f"{name} is versioned")
    else:
        yield Finding.warned(
            "archive",
            "versioning is off: an archived message could be overwritten",
            f"aws s3api put-bucket-versioning --bucket {name} "
            "--versioning-configuration Status=Enabled",
        )


def check_history(deployed: DeployedStack) -> Iterator[Finding]:
    """Check for open gaps in the history."""
    bucket = deployed.connection.outputs.get("ArchiveBucketName")
    if bucket is None:
        return
    gaps = HistoryArchive(S3Objects(deployed.connection.client("s3"), bucket)).open_gaps()
    if not gaps:
        yield Finding.passed("history", "no open gaps")
        return
    yield Finding.failed(
        "history",
        f"{len(gaps)} open gaps since {gaps[0].recorded_at:%Y-%m-%d}: job changes are missing, "
        "and a restore is refused",
        f"oncely archive backfill{deployed.connection.cli_options}",
    )


_NOT_SET: Final = "not set: its jobs cannot run"


def check_secrets(deployed: DeployedStack) -> Iterator[Finding]:
    """Check each secret that the contracts use."""
    client = deployed.connection.client("secretsmanager")
    # If plug-ins share a secret, the one with its name knows the prefixes.
    named_last = sorted(deployed.providers, key=lambda plugin: plugin.name == plugin.secret_name)
    plugins = {plugin.secret_name: plugin for plugin in named_last}
    outputs = deployed.connection.outputs
    for name in deployed.secret_names:
        # The reconciler and commands use the read-only key.
        for check, suffix in (("API key", "SecretArn"), ("read-only API key", "ReadOnlySecretArn")):
            if arn := outputs.get(f"{pascal_case(name)}{suffix}"):
                label = f"{check} of {name}"
                yield _check_secret(client, deployed.connection, label, arn, plugins.get(name))


def check_providers(deployed: DeployedStack) -> Iterator[Finding]:
    """Run each provider's own checks. The local sandbox has nothing to check."""
    connection = deployed.connection
    if connection.is_local:
        return
    for plugin in deployed.providers:
        access = ProviderAccess(
            settings=connection.provider_settings(plugin), new_aws_client=connection.client
        )
        yield from plugin.check_health(access, is_production=_is_production(connection))


def _check_secret(
    client: Any,  # noqa: ANN401  # boto3's client
    connection: StackConnection,
    check: str,
    arn: str,
    plugin: AnyProvider | None,
) -> Finding:
    fix = f"aws secretsmanager put-secret-value --secret-id {arn} --secret-string …"
    try:
        value = client.get_secret_value(SecretId=arn).get("SecretString") or ""
    except AWS_ERRORS as error:
        if error_code(error) == "ResourceNotFoundException":
            return Finding.failed(check, _NOT_SET, fix)
        if not error_code(error).startswith("AccessDenied"):
            raise
        if client.describe_secret(SecretId=arn).get("VersionIdsToStages"):
            return Finding.passed(check, "set (you do not have permission to read it)")
        return Finding.failed(check, _NOT_SET, fix)
    if not (value := value.strip()):
        return Finding.failed(check, _NOT_SET, fix)
    if not (value.isascii() and value.isprintable()):
        message = "contains a line break or an invalid character: its jobs cannot run"
        return Finding.failed(check, message, fix)
    if plugin is None:
        return Finding.passed(check, "set")
    return _check_key(connection, plugin, check, value, fix)


def _check_key(
    connection: StackConnection, plugin: AnyProvider, check: str, value: str, fix: str
) -> Finding:
    provider = plugin.profile.name
    prefixes = plugin.api_key_prefixes
    if not value.startswith(prefixes):
        return Finding.failed(check, f"does not begin with {' or '.join(prefixes)}", fix)
    if _is_production(connection) and value.startswith(plugin.test_key_prefixes):
        return Finding.warned(check, "a test key is used in production", fix)
    match connection.check_api_key(plugin, value):
        case ApiKeyCheck(accepted=True):
            return Finding.passed(check, f"{provider} accepts it")
        case ApiKeyCheck(accepted=False, reason=reason):
            return Finding.failed(check, f"{provider} rejects it: {reason}", fix)
        case ApiKeyCheck(reason=reason):
            return Finding.warned(check, f"{provider} could not check it: {reason}")
        case None:
            return Finding.passed(check, "set")


def _is_production(connection: StackConnection) -> bool:
    return connection.name.endswith("-prod")


_RUNBOOK: Final = "see docs/operations.md#reconciler-failing"
# The same as the alarm on the oldest unresolved job.
_MAX_UNRESOLVED_AGE: Final = timedelta(minutes=30)


def check_reconciler(deployed: DeployedStack) -> Iterator[Finding]:
    """Check the reconciler's schedule and its last executions."""
    yield from _check_schedule(deployed)
    arn = deployed.connection.outputs.get("ReconcilerArn")
    if arn is None:
        return
    listed = deployed.connection.client("stepfunctions").list_executions(
        stateMachineArn=arn, maxResults=10
    )["executions"]
    check = "reconciler"
    ended = [one["status"] for one in listed if one["status"] != "RUNNING"]
    unsuccessful = [status for status in ended if status != "SUCCEEDED"]
    if unsuccessful and unsuccessful == ended:
        yield Finding.failed(check, f"the last {len(unsuccessful)} sweeps failed", _RUNBOOK)
    elif unsuccessful:
        yield Finding.warned(
            check, f"{len(unsuccessful)} of the last {len(ended)} sweeps failed", _RUNBOOK
        )
    else:
        # There may be none: no sweep starts while nothing is due.
        yield Finding.passed(check, f"no failed sweeps among the last {len(ended)}")


def _check_schedule(deployed: DeployedStack) -> Iterator[Finding]:
    client = deployed.connection.client("scheduler")
    check = "reconciler schedule"
    names = deployed.physical_ids("AWS::Scheduler::Schedule")
    if not names:
        yield Finding.failed(check, "the stack has no schedule", _DEPLOY)
    for name in names:
        if "PaymentAudit" in name:  # does not resolve jobs
            continue
        # A physical id may be "group|name".
        group, _, own = name.rpartition("|")
        found = client.get_schedule(Name=own, **({"GroupName": group} if group else {}))
        if found["State"] == "ENABLED":
            yield Finding.passed(check, f"enabled: {found['ScheduleExpression']}")
        else:
            yield Finding.failed(
                check, "disabled: unknown jobs are not resolved", "enable the schedule"
            )


def check_jobs(deployed: DeployedStack) -> Iterator[Finding]:
    """Check for jobs that need review and for the oldest unresolved job."""
    counts = deployed.connection.app.job_queries.counts()
    here = deployed.connection.cli_options
    or_more = "+" if "needs_review" in counts.truncated else ""
    if waiting := counts.needs_review:
        jobs = "1 job needs" if waiting == 1 and not or_more else f"{waiting:,}{or_more} jobs need"
        yield Finding.warned(
            "needs review", f"{jobs} review", f"oncely list --status needs_review{here}"
        )
    else:
        yield Finding.passed("needs review", "no jobs need review")
    oldest, check = counts.oldest_unresolved_at, "oldest unresolved job"
    if oldest is None:
        yield Finding.passed(check, "none")
    elif deployed.now - oldest > _MAX_UNRESOLVED_AGE:
        yield Finding.warned(
            check,
            f"unresolved {_since(oldest, deployed.now)}",
            f"oncely list --status in_progress{here}, then oncely reconcile KEY{here}",
        )
    else:
        yield Finding.passed(check, f"unresolved {_since(oldest, deployed.now)}")


def _since(at: datetime, now: datetime) -> str:
    return f"since {format_minute(at)} ({console.format_age(at, now)})"


def check_gates(deployed: DeployedStack) -> Iterator[Finding]:
    """Check for pauses and open circuits."""
    snapshot = deployed.connection.app.pause_switch.snapshot()
    here = deployed.connection.cli_options
    paused = [(one, entry) for one in snapshot.pauses.values() if (entry := one.current)]
    for one, entry in paused:
        yield Finding.warned(
            "paused",
            f"{one.target} {_since(entry.at, deployed.now)} by {operator_name(entry.actor)}: "
            f"{entry.reason}",
            f"oncely resume {one.target}{here}",
        )
    if not paused:
        yield Finding.passed("paused", "nothing")
    opened = {name: at for name, one in snapshot.gates.items() if (at := one.opened_at)}
    for name, at in sorted(opened.items()):
        yield Finding.warned(
            "circuit",
            f"{name} has not responded {_since(at, deployed.now)}",
            "no action needed: its jobs wait, and continue when it responds",
        )
    if not opened:
        yield Finding.passed("circuit", "every provider responds")


_MAX_ALARM_NAMES: Final = 100  # CloudWatch's limit for one request


def check_alarms(deployed: DeployedStack) -> Iterator[Finding]:
    """Check every alarm of the stack."""
    client = deployed.connection.client("cloudwatch")
    names = deployed.physical_ids("AWS::CloudWatch::Alarm")
    if not names:
        yield Finding.failed("alarms", "the stack has no alarms", _DEPLOY)
        return
    found = [
        one
        for at in range(0, len(names), _MAX_ALARM_NAMES)
        for one in client.describe_alarms(AlarmNames=names[at : at + _MAX_ALARM_NAMES])[
            "MetricAlarms"
        ]
    ]
    missing = sorted(set(names) - {one["AlarmName"] for one in found})
    without_action = [
        one["AlarmName"]
        for one in found
        if not one.get("ActionsEnabled", True) or not one.get("AlarmActions")
    ]
    if missing:
        yield Finding.failed("alarms", f"missing: {', '.join(missing)}", _DEPLOY)
    if without_action:
        yield Finding.failed(
            "alarms", f"send no notification: {', '.join(without_action)}", _DEPLOY
        )
    firing = [one for one in found if one["StateValue"] == "ALARM"]
    for one in firing:
        # The description has the next command and the runbook.
        description = AlarmDescription.parse(one.get("AlarmDescription", one["AlarmName"]))
        command, runbook = description.next_step, description.runbook
        # The reader has just run the doctor.
        first = f"{command}; " if command and not command.startswith("oncely doctor") else ""
        yield Finding.warned(
            f"alarm {one['AlarmName']}",
            f"in alarm: {description.impact.rstrip('.')}",
            f"{first}see {runbook or 'docs/operations.md'}",
        )
    if not (missing or without_action or firing):
        yield Finding.passed("alarms", f"all {len(found)} exist, send notifications and are OK")


def check_alert_subscriptions(deployed: DeployedStack) -> Iterator[Finding]:
    """Check the subscriptions of the alert topic."""
    topic = deployed.connection.outputs.get("AlertTopicArn")
    if topic is None:
        return
    client = deployed.connection.client("sns")
    pages = client.get_paginator("list_subscriptions_by_topic").paginate(TopicArn=topic)
    found = [one for page in pages for one in page["Subscriptions"]]
    pending = [one for one in found if not one["SubscriptionArn"].startswith("arn:")]
    confirmed = len(found) - len(pending)
    check = "alerts"
    for one in pending:
        yield Finding.warned(
            check, f"{one['Endpoint']} has not confirmed", "open the link in the email from AWS"
        )
    if confirmed:
        yield Finding.passed(check, f"{confirmed} confirmed subscriptions")
    elif deployed.connection.is_local:
        yield Finding.warned(check, "no subscribers, as usual for the local stack")
    else:
        yield Finding.failed(
            check,
            "no subscribers: alerts are not delivered",
            f"aws sns subscribe --topic-arn {topic} --protocol email --notification-endpoint …",
        )


Check: TypeAlias = Callable[[DeployedStack], Iterator[Finding]]

CHECKS: Final[tuple[Check, ...]] = (
    check_stack,
    check_outputs,
    check_job_settings,
    check_queues,
    check_functions,
    check_event_sources,
    check_concurrency,
    check_tables,
    check_keys,
    check_columns,
    check_sparse_indexes,
    check_retention,
    check_history,
    check_secrets,
    check_providers,
    check_reconciler,
    check_alarms,
    check_alert_subscriptions,
    check_gates,
    check_jobs,
)
