"""What each function asked of AWS, as the engine wrote it down."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from oncely.aws.dynamodb_sweep_leases import LEASE_KEY_PREFIX
from oncely_local.account import STACK_NAME
from tests.e2e.deployed_stack import StackClient
from tests.infra.assembly import Assembly
from tests.infra.policies import Permission

# Names of calls, each with the action that IAM knows it by; a transaction is what is in it.
ACTIONS: Final = {
    **{
        name: f"dynamodb:{name}"
        for name in (
            *("BatchGetItem", "GetItem", "PutItem", "UpdateItem", "Query", "Scan"),
            *("DescribeTable", "DescribeTimeToLive", "DescribeContinuousBackups"),
        )
    },
    "TransactWriteItems": "",
    "SendMessage": "sqs:SendMessage",
    "SendMessageBatch": "sqs:SendMessage",
    "ChangeMessageVisibility": "sqs:ChangeMessageVisibility",
    "POST.sns": "sns:Publish",  # the only thing that functions post there
    "GetSecretValue": "secretsmanager:GetSecretValue",
    "GetObject": "s3:GetObject",
    "PutObject": "s3:PutObject",
    "ListObjects": "s3:ListBucket",
    "PutEvents": "events:PutEvents",
    "StartExecution": "states:StartExecution",
}
_IN_TRANSACTIONS: Final = {
    "ConditionCheck": "dynamodb:ConditionCheckItem",
    "Put": "dynamodb:PutItem",
    "Update": "dynamodb:UpdateItem",
}
PAGE_SIZE: Final = 50
# What a call names its resource by.
_RESOURCE_PARAMETERS: Final = ("TableName", "QueueUrl", "TopicArn", "SecretId", "stateMachineArn")


def recorded_permissions(stack: StackClient, assembly: Assembly) -> set[Permission]:
    physical = _physical_names(stack)
    paths = {
        name: assembly.path(id_) for id_, name in physical.items() if id_ in assembly.resources
    }
    return {
        Permission(function, action, _resource(used, paths), _condition(event))
        for function, access_key in _access_keys(stack, assembly, physical).items()
        for event in _events(stack, access_key)
        for action, used in _permissions_used(event)
    }


def recorded_calls(stack: StackClient, assembly: Assembly) -> Iterator[tuple[str, dict[str, Any]]]:
    for function, access_key in _access_keys(stack, assembly, _physical_names(stack)).items():
        yield from ((function, event) for event in _events(stack, access_key))


def _physical_names(stack: StackClient) -> dict[str, str]:
    listed = stack.client("cloudformation").describe_stack_resources(StackName=STACK_NAME)
    return {one["LogicalResourceId"]: one["PhysicalResourceId"] for one in listed["StackResources"]}


def _access_keys(
    stack: StackClient, assembly: Assembly, physical: Mapping[str, str]
) -> dict[str, str]:
    """The key that each function signs with; the engine makes it from function and role."""
    functions = stack.client("lambda")
    keys = {}
    for id_, resource in assembly.resources.items():
        if resource["Type"] == "AWS::Lambda::Function":
            found = functions.get_function_configuration(FunctionName=physical[id_])
            pair = f"{found['FunctionArn']}:{found['Role']}"
            digest = hashlib.sha256(pair.encode()).hexdigest()
            keys[assembly.path(id_).removesuffix("/Function")] = f"ASIA{digest[:16].upper()}"
    return keys


def _events(stack: StackClient, access_key: str) -> Iterator[dict[str, Any]]:
    for name in ACTIONS:
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


def _page(stack: StackClient, access_key: str, name: str, until: datetime) -> list[dict[str, Any]]:
    """The newest events up to a time; the engine gives 50 at most and no token for more."""
    found = stack.client("cloudtrail").lookup_events(
        LookupAttributes=[
            {"AttributeKey": "AccessKeyId", "AttributeValue": access_key},
            {"AttributeKey": "EventName", "AttributeValue": name},
        ],
        EndTime=until,
    )
    events: list[dict[str, Any]] = found["Events"]
    return events


def _permissions_used(event: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    asked = json.loads(event["CloudTrailEvent"])["requestParameters"] or {}
    action = ACTIONS[event["EventName"]]
    if event["EventName"] == "TransactWriteItems":
        for item in asked["TransactItems"]:
            for kind, inside in item.items():
                yield _IN_TRANSACTIONS[kind], inside["TableName"]
    elif event["EventName"] == "BatchGetItem":
        yield from ((action, table) for table in asked["RequestItems"])
    elif action == "s3:ListBucket":
        yield action, event["Resources"][0]["ResourceName"]
    elif action.startswith("s3:"):
        bucket, key = (one["ResourceName"] for one in event["Resources"])
        yield action, f"{bucket}/{key.partition('/')[0]}/*"
    elif "IndexName" in asked:
        yield action, f"{asked['TableName']}/index/{asked['IndexName']}"
    elif "Entries" in asked and "QueueUrl" not in asked:
        yield from ((action, entry["EventBusName"]) for entry in asked["Entries"])
    else:
        (named,) = (asked[name] for name in _RESOURCE_PARAMETERS if name in asked)
        yield action, named


def _condition(event: Mapping[str, Any]) -> str:
    """The condition that a call met: the engine itself does not look at keys of rows."""
    asked = json.loads(event["CloudTrailEvent"])["requestParameters"] or {}
    key = asked.get("Key", {}).get("job_key", {}).get("S", "")
    is_lease = event["EventName"] == "UpdateItem" and key.startswith(LEASE_KEY_PREFIX)
    return f"dynamodb:LeadingKeys like {LEASE_KEY_PREFIX}*" if is_lease else ""


def _resource(used: str, paths: Mapping[str, str]) -> str:
    for name, path in sorted(paths.items(), key=lambda item: len(item[0]), reverse=True):
        short = name.rpartition("/")[2] if name.startswith("http") else name
        _, found, behind = used.partition(short)
        if found and (not behind or behind.startswith(("/", "-"))):
            # A secret's ARN ends with a few letters that its name has not.
            return path + (behind if behind.startswith("/") else "")
    raise AssertionError(f"nothing of the stack: {used}")
