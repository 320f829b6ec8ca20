"""AWS in memory: what adapters rely on, and that anything else fails loudly."""

from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from oncely.core.aws_errors import error_code
from oncely.providers.ses.sandbox.model import MemorySes, SesModel
from oncely.testing.memory_aws.account import MemoryAws
from oncely.testing.memory_aws.calls import AwsCall, no_response
from oncely.testing.memory_aws.services import MemoryBucket, MemoryQueue
from tests.support.fakes import FakeClock

NOON = datetime(2026, 5, 17, 12, tzinfo=UTC)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOON)


@pytest.fixture
def aws(clock: FakeClock) -> MemoryAws:
    account = MemoryAws(now=clock.now)
    account.s3.buckets = {"plain": MemoryBucket(), "kept": MemoryBucket(versioned=True)}
    account.sqs.queues = {"work": MemoryQueue(max_receive_count=2, dead_letters=MemoryQueue())}
    return account


def code_of(error: pytest.ExceptionInfo[ClientError]) -> str:
    return error_code(error.value)


@pytest.mark.parametrize("bucket", ["plain", "kept"])
def test_conditional_put_loses_to_earlier_writer(aws: MemoryAws, bucket: str) -> None:
    def put(body: bytes, **condition: str) -> Any:  # noqa: ANN401  # a response
        return aws.s3.put_object(Bucket=bucket, Key="a", Body=body, **condition)

    with pytest.raises(ClientError) as missing:
        put(b"0", IfMatch='"0"')
    first = put(b"1", IfNoneMatch="*")["ETag"]
    with pytest.raises(ClientError) as exists:
        put(b"2", IfNoneMatch="*")
    second = put(b"2", IfMatch=first)["ETag"]
    with pytest.raises(ClientError) as changed:
        put(b"3", IfMatch=first)

    assert code_of(missing) == "NoSuchKey"
    assert code_of(exists) == code_of(changed) == "PreconditionFailed"
    assert aws.s3.get_object(Bucket=bucket, Key="a")["Body"].read() == b"2"
    assert first != second


def test_deleted_object_is_hidden_until_its_versions_are_gone(aws: MemoryAws) -> None:
    s3, name = aws.s3, {"Bucket": "kept", "Key": "a"}
    kept = s3.put_object(**name, Body=b"1")["VersionId"]
    marker = s3.delete_object(**name)["VersionId"]

    assert "Contents" not in s3.list_objects_v2(Bucket="kept")
    assert s3.get_object(**name, VersionId=kept)["Body"].read() == b"1"
    assert s3.put_object(**name, Body=b"2", IfNoneMatch="*")
    for version, code in ((marker, "MethodNotAllowed"), ("other", "NoSuchVersion")):
        with pytest.raises(ClientError) as error:
            s3.get_object(**name, VersionId=version)
        assert code_of(error) == code

    for one in list(s3.buckets["kept"].objects["a"]):
        s3.delete_object(**name, VersionId=one.version_id)
    assert s3.buckets["kept"].objects == {}


def test_lists_continue_on_next_page(aws: MemoryAws) -> None:
    aws.s3.page_size = 2
    keys = [f"{folder}/{number}" for folder in ("a", "a-b", "c") for number in range(3)]
    for key in keys:
        aws.s3.put_object(Bucket="kept", Key=key)
        aws.s3.put_object(Bucket="kept", Key=key)
    aws.s3.delete_object(Bucket="kept", Key="c/2")

    def pages(name: str, **request: Any) -> list[Any]:  # noqa: ANN401  # as boto3 takes them
        return list(aws.s3.get_paginator(name).paginate(Bucket="kept", **request))

    def listed(entries: str, field: str, *, of: list[Any]) -> list[str]:
        return [one[field] for page in of for one in page.get(entries, ())]

    assert listed("Contents", "Key", of=pages("list_objects_v2")) == sorted(keys)[:-1]
    after = pages("list_objects_v2", Prefix="a/", StartAfter="a/0")
    assert listed("Contents", "Key", of=after) == ["a/1", "a/2"]
    folders = pages("list_objects_v2", Delimiter="/")
    assert listed("CommonPrefixes", "Prefix", of=folders) == ["a-b/", "a/", "c/"]
    assert len(folders) == 2
    versions = pages("list_object_versions")
    assert len(listed("Versions", "Key", of=versions)) == 18
    assert listed("DeleteMarkers", "Key", of=versions) == ["c/2"]
    assert max(len(page.get("Versions", ())) for page in versions) == 2


def test_message_is_hidden_then_dead_lettered(aws: MemoryAws, clock: FakeClock) -> None:
    queue = aws.sqs.queues["work"]
    sent = aws.sqs.send_message_batch(
        QueueUrl="work",
        Entries=[{"Id": "0", "MessageBody": "a"}, {"Id": "1", "MessageBody": "\x00"}],
    )
    assert [one["Id"] for one in sent["Failed"]] == ["1"]

    (message,) = queue.receive(at=clock.now())
    assert queue.receive(at=clock.now()) == []
    aws.sqs.change_message_visibility(
        QueueUrl="work", ReceiptHandle=message.receipt, VisibilityTimeout=5
    )
    clock.advance(seconds=5)
    assert queue.receive(at=clock.now()) == [message]
    assert message.to_record()["attributes"]["ApproximateReceiveCount"] == "2"
    clock.time += queue.visibility_timeout
    with pytest.raises(ClientError) as error:
        aws.sqs.change_message_visibility(
            QueueUrl="work", ReceiptHandle=message.receipt, VisibilityTimeout=5
        )
    assert code_of(error) == "AWS.SimpleQueueService.MessageNotInflight"

    assert queue.receive(at=clock.now()) == []
    assert queue.dead_letters is not None
    assert queue.dead_letters.messages == [message]


BATCH = "AWS.SimpleQueueService"


def entries(*bodies: str, **more: str) -> dict[str, Any]:
    listed = [{"Id": str(at), "MessageBody": body, **more} for at, body in enumerate(bodies)]
    return {"QueueUrl": "work", "Entries": listed}


@pytest.mark.parametrize(
    ("code", "service", "operation", "request_"),
    [
        (f"{BATCH}.EmptyBatchRequest", "sqs", "send_message_batch", entries()),
        (f"{BATCH}.BatchEntryIdsNotDistinct", "sqs", "send_message_batch", entries(*"ab", Id="1")),
        (f"{BATCH}.TooManyEntriesInBatchRequest", "sqs", "send_message_batch", entries(*"a" * 11)),
        (f"{BATCH}.BatchRequestTooLong", "sqs", "send_message_batch", entries(*["a" * 2**19] * 3)),
        ("InvalidMessageContents", "sqs", "send_message", {"MessageBody": "\ufffe"}),
        ("MissingParameter", "sqs", "send_message", {"MessageBody": ""}),
        ("InvalidParameterValue", "sqs", "send_message", {"MessageBody": "a" * 2**20 + "a"}),
        (
            "InvalidParameterValue",
            "sqs",
            "change_message_visibility",
            {"ReceiptHandle": "1", "VisibilityTimeout": 12 * 60 * 60 + 1},
        ),
        ("InvalidParameter", "sns", "publish", {"Subject": "é", "Message": "a"}),
        ("InvalidParameter", "sns", "publish", {"Subject": "a" * 101, "Message": "a"}),
        ("InvalidParameter", "sns", "publish", {"Subject": "a", "Message": ""}),
        ("ValidationException", "events", "put_events", {"Entries": []}),
        ("InvalidExecutionInput", "states", "start_execution", {"input": "no"}),
    ],
)
def test_request_over_limit_is_refused(
    aws: MemoryAws, code: str, service: str, operation: str, request_: dict[str, Any]
) -> None:
    aws.sns.topics, aws.states.machines = {"alerts"}, {"sweep"}
    named: dict[str, dict[str, Any]] = {
        "sqs": {"QueueUrl": "work"},
        "sns": {"TopicArn": "alerts"},
        "states": {"stateMachineArn": "sweep"},
    }
    with pytest.raises(ClientError) as error:
        getattr(getattr(aws, service), operation)(**{**named.get(service, {}), **request_})
    assert code_of(error) == code
    assert aws.sqs.queues["work"].messages == []


def test_entry_can_fail_alone(aws: MemoryAws) -> None:
    aws.events.buses = {"bus"}
    entry = {"EventBusName": "bus", "Detail": "{}"}
    put = aws.events.put_events(Entries=[entry, {**entry, "Detail": "[]"}])
    assert (put["FailedEntryCount"], aws.events.events) == (1, [entry])

    sent = aws.sqs.send_message_batch(**entries("a", MessageGroupId="not allowed"))
    assert [one["Code"] for one in sent["Failed"]] == ["InvalidParameterValue"]


def test_one_hook_intercepts_every_service(aws: MemoryAws) -> None:
    seen: list[tuple[str, bool]] = []

    def lose_response(call: AwsCall, perform: Any) -> Any:  # noqa: ANN401  # of any call
        seen.append((call.name, call.writes))
        perform()
        raise no_response(call)

    aws.intercept = lose_response
    with pytest.raises(ReadTimeoutError):
        aws.s3.put_object(Bucket="plain", Key="a")
    with pytest.raises(ReadTimeoutError):
        aws.sqs.get_queue_attributes(QueueUrl="work", AttributeNames=[])

    assert seen == [("s3.put_object", True), ("sqs.get_queue_attributes", False)]
    assert "a" in aws.s3.buckets["plain"].objects


def test_unsupported_calls_fail_loudly(aws: MemoryAws) -> None:
    with pytest.raises(AttributeError):
        aws.clients.s3.copy_object(Bucket="plain", Key="a", CopySource="b")
    with pytest.raises(TypeError):
        aws.clients.s3.put_object(Bucket="plain", Key="a", StorageClass="GLACIER")
    with pytest.raises(KeyError):
        aws.sqs.get_queue_attributes(QueueUrl="work", AttributeNames=["RedrivePolicy"])
    with pytest.raises(KeyError):
        aws.new_client("lambda")
    with pytest.raises(LookupError, match="no event bus"):
        aws.events.put_events(Entries=[{"EventBusName": "other", "Detail": "{}"}])
    with pytest.raises(ValueError, match="ReplyToAddresses"):
        MemorySes(SesModel(now=aws.s3.now, new_id=str)).send_email(ReplyToAddresses=[])
