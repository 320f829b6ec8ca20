"""The AWS requests of each function, as the engine recorded them."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from oncely_local.account import STACK_NAME
from tests.e2e.deployed_stack import StackClient
from tests.infra.assembly import Assembly
from tests.infra.policies import Request

# The IAM action of each call. A transaction counts as the actions in it.
ACTIONS: Final = {
    **{
        name: f"dynamodb:{name}"
        for name in (
            *("BatchGetItem", "GetItem", "PutItem", "UpdateItem", "Query", "Scan"),
            *("DescribeTable", "DescribeTimeToLive", "DescribeContinuousBackups"),
        )
    },
    "TransactWriteItems": "",
    "ExecuteStatement": "",
    "ExecuteTransaction": "",
    "SendMessage": "sqs:SendMessage",
    "SendMessageBatch": "sqs:SendMessage",
    "ChangeMessageVisibility": "sqs:ChangeMessageVisibility",
    "GetQueueAttributes": "sqs:GetQueueAttributes",
    "GetMetricData": "cloudwatch:GetMetricData",
    "POST.sns": "sns:Publish",  # the only request that functions send there
    "GetSecretValue": "secretsmanager:GetSecretValue",
    "GetObject": "s3:GetObject",
    "PutObject": "s3:PutObject",
    "ListObjects": "s3:ListBucket",
    "PutEvents": "events:PutEvents",
    "StartExecution": "states:StartExecution",
    "AdminGetUser": "cognito-idp:AdminGetUser",
    "AdminListGroupsForUser": "cognito-idp:AdminListGroupsForUser",
}
_IN_TRANSACTIONS: Final = {
    "ConditionCheck": "dynamodb:ConditionCheckItem",
    "Put": "dynamodb:PutItem",
    "Update": "dynamodb:UpdateItem",
}
_PARTIQL: Final = {"INSERT INTO": "dynamodb:PartiQLInsert", "UPDATE": "dynamodb:PartiQLUpdate"}
_STATEMENT: Final = re.compile(
    r'(?P<verb>[A-Z ]+) "(?P<table>[^"]+)" (?P<before>.*?)(\'job_key\':|"job_key" =) \?'
)
PAGE_SIZE: Final = 50
# The parameter with the resource of a call.
_RESOURCE_PARAMETERS: Final = (
    *("TableName", "QueueUrl", "TopicArn", "SecretId", "stateMachineArn", "UserPoolId"),
)
_WITHOUT_RESOURCE: Final = {"GetMetricData"}


def recorded_requests(
    stack: StackClient, assembly: Assembly, users: Mapping[str, str]
) -> set[Request]:
    """The requests of functions and users, by their policy and access key."""
    physical = _physical_names(stack)
    paths = {
        name: assembly.path(id_) for id_, name in physical.items() if id_ in assembly.resources
    }
    callers = [*_access_keys(stack, assembly, physical), *users.items()]
    return {
        Request(caller, action, _resource(used, paths), keys, _inserted_attributes(event, keys))
        for caller, access_key in callers
        for event in _events(stack, access_key)
        for action, used, keys in _permissions_used(event)
    }


def recorded_calls(stack: StackClient, assembly: Assembly) -> Iterator[tuple[str, dict[str, Any]]]:
    for function, access_key in _access_keys(stack, assembly, _physical_names(stack)):
        yield from ((function, event) for event in _events(stack, access_key))


def _physical_names(stack: StackClient) -> dict[str, str]:
    listed = stack.client("cloudformation").describe_stack_resources(StackName=STACK_NAME)
    return {one["LogicalResourceId"]: one["PhysicalResourceId"] for one in listed["StackResources"]}


def _access_keys(
    stack: StackClient, assembly: Assembly, physical: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """The access keys of functions. The engine derives one from each version and its role."""
    functions = stack.client("lambda")
    for id_, resource in assembly.resources.items():
        if resource["Type"] == "AWS::Lambda::Function":
            listed = functions.list_versions_by_function(FunctionName=physical[id_])["Versions"]
            for found in listed:
                pair = f"{found['FunctionArn'].removesuffix(':$LATEST')}:{found['Role']}"
                digest = hashlib.sha256(pair.encode()).hexdigest()
                yield assembly.path(id_).removesuffix("/Function"), f"ASIA{digest[:16].upper()}"


def unknown_calls(stack: StackClient, assembly: Assembly) -> dict[str, set[str]]:
    """The calls that are missing in `ACTIONS`, by function. Their permissions are not evaluated."""
    names: dict[str, set[str]] = {}
    for function, access_key in _access_keys(stack, assembly, _physical_names(stack)):
        found = {event["EventName"] for event in _events_named(stack, access_key)}
        names[function] = names.get(function, set()) | found
    return {function: found - ACTIONS.keys() for function, found in names.items() if found}


def _events(stack: StackClient, access_key: str) -> Iterator[dict[str, Any]]:
    for name in ACTIONS:
        yield from _events_named(stack, access_key, name)


def _events_named(
    stack: StackClient, access_key: str, name: str | None = None
) -> Iterator[dict[str, Any]]:
    seen: set[str] = set()
    until = _next_second(datetime.now(UTC))
    while page := _page(stack, access_key, name, until):
        new = [event for event in page if event["EventId"] not in seen]
        seen |= {event["EventId"] for event in new}
        yield from new
        if len(page) < PAGE_SIZE:
            break
        oldest = _next_second(min(event["EventTime"] for event in page))
        # Events of one second that fill a whole page hide what else happened in it.
        until = min(oldest, until - timedelta(seconds=1))


def _next_second(time: datetime) -> datetime:
    return time.replace(microsecond=0) + timedelta(seconds=1)


def _page(
    stack: StackClient, access_key: str, name: str | None, until: datetime
) -> list[dict[str, Any]]:
    """The newest events up to a time. The engine returns at most 50, without a token for more."""
    found = stack.client("cloudtrail").lookup_events(
        LookupAttributes=[
            {"AttributeKey": "AccessKeyId", "AttributeValue": access_key},
            *([{"AttributeKey": "EventName", "AttributeValue": name}] if name else []),
        ],
        EndTime=until,
    )
    events: list[dict[str, Any]] = found["Events"]
    return events


def _permissions_used(event: Mapping[str, Any]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The action, the resource, and the keys of rows, which the engine does not check."""
    asked = json.loads(event["CloudTrailEvent"])["requestParameters"] or {}
    name = event["EventName"]
    action = ACTIONS[name]
    if name == "TransactWriteItems":
        for item in asked["TransactItems"]:
            for kind, inside in item.items():
                yield _IN_TRANSACTIONS[kind], inside["TableName"], _keys(inside)
    elif name in {"ExecuteStatement", "ExecuteTransaction"}:
        yield from map(_statement_used, asked.get("TransactStatements", [asked]))
    elif name == "BatchGetItem":
        for table, batch in asked["RequestItems"].items():
            yield action, table, tuple(key["job_key"]["S"] for key in batch["Keys"])
    elif action.startswith("s3:"):
        bucket, *key = (one["ResourceName"] for one in event["Resources"])
        key = [] if action == "s3:ListBucket" else key
        yield action, "/".join([bucket, *_folder(*key)]), ()
    elif "IndexName" in asked:
        yield action, f"{asked['TableName']}/index/{asked['IndexName']}", ()
    elif "Entries" in asked and "QueueUrl" not in asked:
        yield from ((action, entry["EventBusName"], ()) for entry in asked["Entries"])
    else:
        named = [asked[one] for one in _RESOURCE_PARAMETERS if one in asked]
        (resource,) = ["*"] if name in _WITHOUT_RESOURCE else named
        yield action, resource, _keys(asked)


def _folder(key: str | None = None) -> list[str]:
    """The folder of an object, as policies use it. The marks of resent rejects have their own."""
    if key is None:
        return []
    first, second, *_ = key.split("/")
    return [first, second, "*"] if second == "resent" else [first, "*"]


def _keys(asked: Mapping[str, Any]) -> tuple[str, ...]:
    """The key of a job row. Permissions on other tables do not depend on keys."""
    key = {**asked.get("Key", {}), **asked.get("Item", {})}.get("job_key")
    return (key["S"],) if key else ()


def _inserted_attributes(event: Mapping[str, Any], keys: tuple[str, ...]) -> tuple[str, ...]:
    """The attributes of the row with this key, if the event is its insert."""
    asked = json.loads(event["CloudTrailEvent"])["requestParameters"] or {}
    statements = asked.get("TransactStatements", [asked] if "Statement" in asked else [])
    return tuple(
        name
        for one in statements
        if one["Statement"].startswith("INSERT") and one["Parameters"][0]["S"] in keys
        for name in re.findall(r"'(\w+)': \?", one["Statement"])
    )


def _statement_used(asked: Mapping[str, Any]) -> tuple[str, str, tuple[str, ...]]:
    found = _STATEMENT.match(asked["Statement"])
    assert found is not None, asked["Statement"]
    key = asked["Parameters"][found["before"].count("?")]["S"]
    return _PARTIQL[found["verb"]], found["table"], (key,)


def _resource(used: str, paths: Mapping[str, str]) -> str:
    if used == "*":
        return used
    for name, path in sorted(paths.items(), key=lambda item: len(item[0]), reverse=True):
        short = name.rpartition("/")[2] if name.startswith("http") else name
        _, found, behind = used.partition(short)
        if found and (not behind or behind.startswith(("/", "-"))):
            # A secret's ARN ends with a random suffix.
            return path + (behind if behind.startswith("/") else "")
    raise AssertionError(f"nothing of the stack: {used}")
