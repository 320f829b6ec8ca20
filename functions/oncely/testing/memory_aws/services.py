"""The AWS services besides DynamoDB in memory, as far as Oncely's adapters use them."""

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from io import BytesIO
from itertools import count
from typing import Any, Final, NoReturn

from oncely.testing.memory_aws.calls import MemoryClient, MemoryPaginator, client_error, operation

Now = Callable[[], datetime]
_Response = dict[str, Any]

_NOT_FOUND: Final = 404
_NOT_ALLOWED: Final = 405
_PRECONDITION_FAILED: Final = 412


def _fail(code: str, operation_name: str, message: str = "", *, status: int = 400) -> NoReturn:
    metadata = {"HTTPStatusCode": status}
    raise client_error(code, operation_name, message, ResponseMetadata=metadata)


# --- S3


@dataclass(frozen=True)
class ObjectVersion:
    """One version of an object, or the marker of a deletion, which has no body."""

    version_id: str
    body: bytes | None
    etag: str
    at: datetime
    content_type: str


@dataclass
class MemoryBucket:
    """The objects of a bucket: all versions of each key, the oldest first."""

    versioned: bool = False
    objects: dict[str, list[ObjectVersion]] = field(default_factory=dict)

    def current(self, key: str) -> ObjectVersion | None:
        """The object that a read returns. Returns None if there is none or it was deleted."""
        versions = self.objects.get(key)
        return versions[-1] if versions and versions[-1].body is not None else None

    def add(self, key: str, version: ObjectVersion) -> None:
        """Add a version, which is the only one in a bucket without versions."""
        before = self.objects.get(key, ()) if self.versioned else ()
        self.objects[key] = [*before, version]

    def remove(self, key: str, version_id: str) -> None:
        """Remove one version for good, if it is there."""
        left = [one for one in self.objects.get(key, ()) if one.version_id != version_id]
        self.objects[key] = left
        if not left:
            del self.objects[key]


_UNVERSIONED: Final = "null"
_MAX_KEYS: Final = 1000


@dataclass
class MemoryS3(MemoryClient):
    """S3: conditional writes, reads, lists in pages, and versions."""

    service = "s3"
    now: Now
    buckets: dict[str, MemoryBucket] = field(default_factory=dict)
    page_size: int = _MAX_KEYS  # a test sets less, so that a few objects are several pages
    version_ids: Iterator[int] = field(default_factory=lambda: count(1))
    # Readers and erasures send several requests at once.
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    @operation(writes=True)
    def put_object(
        self,
        *,
        Bucket: str,
        Key: str,
        Body: bytes = b"",
        ContentType: str = "binary/octet-stream",
        IfNoneMatch: str | None = None,
        IfMatch: str | None = None,
    ) -> _Response:
        """Write an object, on the condition that there is none or that it is as it was read."""
        with self.lock:
            bucket = self._bucket(Bucket, "PutObject")
            current = bucket.current(Key)
            if IfNoneMatch not in {None, "*"}:
                _fail("NotImplemented", "PutObject", "If-None-Match takes only *", status=501)
            if IfMatch is not None and current is None:
                _fail("NoSuchKey", "PutObject", status=_NOT_FOUND)
            if (IfNoneMatch is not None and current is not None) or (
                IfMatch is not None and current is not None and current.etag != IfMatch
            ):
                _fail("PreconditionFailed", "PutObject", status=_PRECONDITION_FAILED)
            etag = f'"{hashlib.md5(Body, usedforsecurity=False).hexdigest()}"'
            version = self._add(bucket, Key, Body, etag=etag, content_type=ContentType)
        return {"ETag": etag, **_version(bucket, version.version_id)}

    @operation(writes=False)
    def get_object(self, *, Bucket: str, Key: str, VersionId: str | None = None) -> _Response:
        """Read an object, or one version of it."""
        bucket = self._bucket(Bucket, "GetObject")
        found = bucket.current(Key)
        if VersionId is not None:
            versions = bucket.objects.get(Key, ())
            found = next((one for one in versions if one.version_id == VersionId), None)
        if found is None:
            code = "NoSuchKey" if VersionId is None else "NoSuchVersion"
            _fail(code, "GetObject", status=_NOT_FOUND)
        if found.body is None:
            _fail("MethodNotAllowed", "GetObject", "a delete marker", status=_NOT_ALLOWED)
        return {
            "Body": BytesIO(found.body),
            "ContentLength": len(found.body),
            "ContentType": found.content_type,
            "ETag": found.etag,
            "LastModified": found.at,
            **_version(bucket, found.version_id),
        }

    @operation(writes=True)
    def delete_object(self, *, Bucket: str, Key: str, VersionId: str | None = None) -> _Response:
        """Delete one version for good, or hide an object that has versions behind a marker."""
        with self.lock:
            bucket = self._bucket(Bucket, "DeleteObject")
            if VersionId is not None:
                bucket.remove(Key, VersionId)
                return {"VersionId": VersionId}
            if not bucket.versioned:
                bucket.remove(Key, _UNVERSIONED)
                return {}
            marker = self._add(bucket, Key, None)
            return {"DeleteMarker": True, "VersionId": marker.version_id}

    @operation(writes=False)
    def list_objects_v2(
        self,
        *,
        Bucket: str,
        Prefix: str = "",
        Delimiter: str = "",
        StartAfter: str = "",
        MaxKeys: int = _MAX_KEYS,
        ContinuationToken: str = "",
    ) -> _Response:
        """List objects in the order of their keys. A delimiter groups them by the next part."""
        with self.lock:
            bucket = self._bucket(Bucket, "ListObjectsV2")
            current = {
                key: found
                for key in sorted(bucket.objects)
                if key.startswith(Prefix) and (found := bucket.current(key)) is not None
            }
        # One entry for each object, and one for all objects of a group.
        entries = dict.fromkeys(
            _group(key, Prefix, Delimiter) or key for key in current if key > StartAfter
        )
        after = [entry for entry in entries if entry > ContinuationToken]
        limit = min(MaxKeys, self.page_size)
        page = after[:limit]
        contents = [
            {
                "Key": key,
                "LastModified": current[key].at,
                "ETag": current[key].etag,
                "Size": len(current[key].body or b""),
            }
            for key in page
            if key in current and not _group(key, Prefix, Delimiter)
        ]
        groups = [{"Prefix": entry} for entry in page if _group(entry, Prefix, Delimiter)]
        return {
            "KeyCount": len(page),
            "IsTruncated": len(after) > limit,
            **({"Contents": contents} if contents else {}),
            **({"CommonPrefixes": groups} if groups else {}),
            **({"NextContinuationToken": page[-1]} if len(after) > limit else {}),
        }

    @operation(writes=False)
    def list_object_versions(
        self,
        *,
        Bucket: str,
        Prefix: str = "",
        KeyMarker: str = "",
        VersionIdMarker: str = "",
    ) -> _Response:
        """List every version in the order of keys, the newest version of each first."""
        with self.lock:
            bucket = self._bucket(Bucket, "ListObjectVersions")
            listed = [
                (key, one, one is versions[-1])
                for key, versions in sorted(bucket.objects.items())
                if key.startswith(Prefix)
                for one in reversed(versions)
            ]
        start = 0
        if KeyMarker:
            names = [(key, one.version_id) for key, one, _ in listed]
            start = names.index((KeyMarker, VersionIdMarker)) + 1
        page = listed[start : start + self.page_size]
        entries = [(one, _version_entry(key, one, is_latest)) for key, one, is_latest in page]
        versions = [entry for one, entry in entries if one.body is not None]
        markers = [entry for one, entry in entries if one.body is None]
        is_truncated = start + len(page) < len(listed)
        more = {}
        if is_truncated:
            key, last, _ = page[-1]
            more = {"NextKeyMarker": key, "NextVersionIdMarker": last.version_id}
        return {
            "IsTruncated": is_truncated,
            **({"Versions": versions} if versions else {}),
            **({"DeleteMarkers": markers} if markers else {}),
            **more,
        }

    def get_paginator(self, name: str) -> MemoryPaginator:
        """The pages of one of the two lists."""
        return {
            "list_objects_v2": MemoryPaginator(
                self.list_objects_v2, {"NextContinuationToken": "ContinuationToken"}
            ),
            "list_object_versions": MemoryPaginator(
                self.list_object_versions,
                {"NextKeyMarker": "KeyMarker", "NextVersionIdMarker": "VersionIdMarker"},
            ),
        }[name]

    def _bucket(self, name: str, operation_name: str) -> MemoryBucket:
        if (found := self.buckets.get(name)) is None:
            _fail("NoSuchBucket", operation_name, status=_NOT_FOUND)
        return found

    def _add(
        self,
        bucket: MemoryBucket,
        key: str,
        body: bytes | None,
        *,
        etag: str = "",
        content_type: str = "",
    ) -> ObjectVersion:
        version_id = f"version-{next(self.version_ids)}" if bucket.versioned else _UNVERSIONED
        at = self.now().replace(microsecond=0)  # S3 keeps seconds
        version = ObjectVersion(version_id, body, etag, at, content_type)
        bucket.add(key, version)
        return version


def _version(bucket: MemoryBucket, version_id: str) -> dict[str, str]:
    return {"VersionId": version_id} if bucket.versioned else {}


def _version_entry(key: str, one: ObjectVersion, is_latest: bool) -> _Response:  # noqa: FBT001  # a field
    found = {
        "Key": key,
        "VersionId": one.version_id,
        "IsLatest": is_latest,
        "LastModified": one.at,
    }
    return found if one.body is None else {**found, "ETag": one.etag, "Size": len(one.body)}


def _group(key: str, prefix: str, delimiter: str) -> str:
    """The key up to the delimiter after the prefix. Returns an empty string if it has none."""
    head, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
    return f"{prefix}{head}{found}" if found else ""


# --- SQS

# In a body as in the value of an attribute: what XML 1.0 takes.
_UNSENDABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_GROUP: Final = re.compile(r"[!-~]{1,128}")
_MAX_ENTRIES: Final = 10
_MAX_MESSAGE_BYTES: Final = 1024 * 1024
_MAX_VISIBILITY_SECONDS: Final = 12 * 60 * 60
_DEPTHS: Final = ("Messages", "MessagesNotVisible", "MessagesDelayed")


@dataclass(eq=False)
class SqsMessage:
    """A message in a queue."""

    message_id: str
    body: str
    sent_at: datetime
    visible_at: datetime
    attributes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    group: str | None = None
    receive_count: int = 0
    receipt: str = ""  # of the latest delivery

    def to_record(self) -> _Response:
        """The record of the message in the event of a Lambda function."""
        attributes = {
            name: {
                "dataType": one["DataType"],
                "stringValue": one["StringValue"],
                "stringListValues": [],
                "binaryListValues": [],
            }
            for name, one in self.attributes.items()
        }
        return {
            "messageId": self.message_id,
            "receiptHandle": self.receipt,
            "body": self.body,
            "attributes": {
                "ApproximateReceiveCount": str(self.receive_count),
                "SentTimestamp": str(int(self.sent_at.timestamp() * 1000)),
            },
            "messageAttributes": attributes,
            "eventSource": "aws:sqs",
        }


@dataclass
class MemoryQueue:
    """A queue. A delivered message stays hidden until it is visible again or deleted."""

    visibility_timeout: timedelta = timedelta(minutes=6)
    max_receive_count: int | None = None  # None: without a dead letter queue
    dead_letters: "MemoryQueue | None" = None
    messages: list[SqsMessage] = field(default_factory=list)

    def receive(self, *, at: datetime, limit: int = _MAX_ENTRIES) -> list[SqsMessage]:
        """Deliver visible messages, as Lambda's poller does. Moves dead letters aside."""
        found: list[SqsMessage] = []
        for message in [one for one in self.messages if one.visible_at <= at]:
            if len(found) == limit:
                break
            if self.max_receive_count is not None and (
                message.receive_count >= self.max_receive_count
            ):
                self.messages.remove(message)
                if self.dead_letters is not None:
                    message.receive_count = 0
                    self.dead_letters.messages.append(message)
                continue
            message.receive_count += 1
            message.receipt = f"{message.message_id}/{message.receive_count}"
            message.visible_at = at + self.visibility_timeout
            found.append(message)
        return found

    def delete(self, receipt: str) -> None:
        """Remove a message that was handled, as Lambda's poller does."""
        self.messages = [one for one in self.messages if one.receipt != receipt]


@dataclass
class MemorySqs(MemoryClient):
    """SQS: sends, and the visibility of what was received."""

    service = "sqs"
    now: Now
    queues: dict[str, MemoryQueue] = field(default_factory=dict)  # by URL
    message_ids: Iterator[int] = field(default_factory=lambda: count(1))

    @operation(writes=True)
    def send_message(
        self,
        *,
        QueueUrl: str,
        MessageBody: str,
        MessageAttributes: Mapping[str, Mapping[str, str]] | None = None,
    ) -> _Response:
        """Send one message."""
        queue = self._queue(QueueUrl, "SendMessage")
        attributes = MessageAttributes or {}
        for name, one in attributes.items():
            if not one["StringValue"] or _UNSENDABLE.search(one["StringValue"]):
                _fail("InvalidParameterValue", "SendMessage", f"the attribute {name}")
        if (code := _body_error(MessageBody)) is not None:
            _fail(code, "SendMessage")
        return {"MessageId": self._add(queue, MessageBody, attributes=attributes)}

    @operation(writes=True)
    def send_message_batch(
        self, *, QueueUrl: str, Entries: Sequence[Mapping[str, Any]]
    ) -> _Response:
        """Send up to ten messages. Each can fail alone."""
        queue = self._queue(QueueUrl, "SendMessageBatch")
        codes = "AWS.SimpleQueueService"
        if not Entries:
            _fail(f"{codes}.EmptyBatchRequest", "SendMessageBatch")
        if len(Entries) > _MAX_ENTRIES:
            _fail(f"{codes}.TooManyEntriesInBatchRequest", "SendMessageBatch")
        if len({one["Id"] for one in Entries}) < len(Entries):
            _fail(f"{codes}.BatchEntryIdsNotDistinct", "SendMessageBatch")
        if sum(len(one["MessageBody"].encode()) for one in Entries) > _MAX_MESSAGE_BYTES:
            _fail(f"{codes}.BatchRequestTooLong", "SendMessageBatch")
        sent, failed = [], []
        for one in Entries:
            group = one.get("MessageGroupId")
            code = _body_error(one["MessageBody"])
            if group is not None and not _GROUP.fullmatch(group):
                code = "InvalidParameterValue"
            if code is not None:
                failed.append({"Id": one["Id"], "Code": code, "SenderFault": True})
                continue
            sent.append(
                {"Id": one["Id"], "MessageId": self._add(queue, one["MessageBody"], group=group)}
            )
        return {"Successful": sent, **({"Failed": failed} if failed else {})}

    @operation(writes=True)
    def change_message_visibility(
        self, *, QueueUrl: str, ReceiptHandle: str, VisibilityTimeout: int
    ) -> _Response:
        """Set when a received message is visible again."""
        queue = self._queue(QueueUrl, "ChangeMessageVisibility")
        if not 0 <= VisibilityTimeout <= _MAX_VISIBILITY_SECONDS:
            _fail("InvalidParameterValue", "ChangeMessageVisibility")
        now = self.now()
        found = next((one for one in queue.messages if one.receipt == ReceiptHandle), None)
        if found is None:
            _fail("ReceiptHandleIsInvalid", "ChangeMessageVisibility", status=_NOT_FOUND)
        if found.visible_at <= now:
            _fail("AWS.SimpleQueueService.MessageNotInflight", "ChangeMessageVisibility")
        found.visible_at = now + timedelta(seconds=VisibilityTimeout)
        return {}

    @operation(writes=False)
    def get_queue_attributes(self, *, QueueUrl: str, AttributeNames: Sequence[str]) -> _Response:
        """Count the messages. Other attributes are not supported."""
        now = self.now()
        messages = self._queue(QueueUrl, "GetQueueAttributes").messages
        visible = sum(one.visible_at <= now for one in messages)
        numbers = (visible, len(messages) - visible, 0)
        known = {
            f"ApproximateNumberOf{name}": str(number)
            for name, number in zip(_DEPTHS, numbers, strict=True)
        }
        return {"Attributes": {name: known[name] for name in AttributeNames}}

    def _add(
        self,
        queue: MemoryQueue,
        body: str,
        *,
        attributes: Mapping[str, Mapping[str, str]] | None = None,
        group: str | None = None,
    ) -> str:
        message_id, now = f"message-{next(self.message_ids)}", self.now()
        queue.messages.append(SqsMessage(message_id, body, now, now, attributes or {}, group=group))
        return message_id

    def _queue(self, url: str, operation_name: str) -> MemoryQueue:
        if (found := self.queues.get(url)) is None:
            _fail("AWS.SimpleQueueService.NonExistentQueue", operation_name)
        return found


def _body_error(body: str) -> str | None:
    if not body:
        return "MissingParameter"
    if len(body.encode(errors="surrogatepass")) > _MAX_MESSAGE_BYTES:
        return "InvalidParameterValue"
    return "InvalidMessageContents" if _UNSENDABLE.search(body) else None


# --- SNS, EventBridge, Secrets Manager, Step Functions

_MAX_SUBJECT_LENGTH: Final = 100
_MAX_ALERT_BYTES: Final = 256 * 1024


@dataclass(frozen=True)
class PublishedMessage:
    """A message that SNS accepted."""

    topic: str
    subject: str
    message: str


@dataclass
class MemorySns(MemoryClient):
    """SNS: publishes to topics."""

    service = "sns"
    topics: set[str] = field(default_factory=set)  # by ARN
    published: list[PublishedMessage] = field(default_factory=list)

    @operation(writes=True)
    def publish(self, *, TopicArn: str, Subject: str, Message: str) -> _Response:
        """Publish one message."""
        if TopicArn not in self.topics:
            _fail("NotFound", "Publish", "the topic does not exist", status=_NOT_FOUND)
        is_printable = Subject.isascii() and Subject.isprintable()
        if not is_printable or not 0 < len(Subject) <= _MAX_SUBJECT_LENGTH:
            _fail("InvalidParameter", "Publish", "Invalid parameter: Subject")
        if not 0 < len(Message.encode()) <= _MAX_ALERT_BYTES:
            _fail("InvalidParameter", "Publish", "Invalid parameter: Message")
        self.published.append(PublishedMessage(TopicArn, Subject, Message))
        return {"MessageId": f"alert-{len(self.published)}"}


@dataclass
class MemoryEventBridge(MemoryClient):
    """EventBridge: puts events on a bus."""

    service = "events"
    buses: set[str] = field(default_factory=set)
    events: list[Mapping[str, str]] = field(default_factory=list)

    @operation(writes=True)
    def put_events(self, *, Entries: Sequence[Mapping[str, str]]) -> _Response:
        """Put events. Each can fail alone."""
        if not 0 < len(Entries) <= _MAX_ENTRIES:
            _fail("ValidationException", "PutEvents")
        results = [self._put(entry) for entry in Entries]
        return {
            "FailedEntryCount": sum("ErrorCode" in one for one in results),
            "Entries": results,
        }

    def _put(self, entry: Mapping[str, str]) -> dict[str, str]:
        if entry["EventBusName"] not in self.buses:
            raise LookupError(f"no event bus {entry['EventBusName']!r} in memory: add it to buses")
        try:
            is_object = isinstance(json.loads(entry["Detail"]), dict)
        except ValueError:
            is_object = False
        if not is_object:
            return {"ErrorCode": "MalformedDetail", "ErrorMessage": "Detail is malformed."}
        self.events.append(entry)
        return {"EventId": f"event-{len(self.events)}"}


@dataclass
class MemorySecrets(MemoryClient):
    """Secrets Manager: reads secrets."""

    service = "secretsmanager"
    values: dict[str, str] = field(default_factory=dict)  # by name or ARN

    @operation(writes=False)
    def get_secret_value(self, *, SecretId: str) -> _Response:
        """Read the current value."""
        if SecretId not in self.values:
            message = "Secrets Manager can't find the specified secret."
            _fail("ResourceNotFoundException", "GetSecretValue", message)
        return {"Name": SecretId, "SecretString": self.values[SecretId]}


@dataclass
class MemoryStepFunctions(MemoryClient):
    """Step Functions: starts executions, and runs none."""

    service = "stepfunctions"
    now: Now
    machines: set[str] = field(default_factory=set)  # by ARN
    executions: list[tuple[str, str]] = field(default_factory=list)  # machine and input

    @operation(writes=True)
    def start_execution(self, *, stateMachineArn: str, input: str) -> _Response:  # noqa: A002  # boto3's
        """Start one."""
        if stateMachineArn not in self.machines:
            _fail("StateMachineDoesNotExist", "StartExecution")
        try:
            json.loads(input)
        except ValueError:
            _fail("InvalidExecutionInput", "StartExecution")
        self.executions.append((stateMachineArn, input))
        arn = f"{stateMachineArn}:execution-{len(self.executions)}"
        return {"executionArn": arn, "startDate": self.now()}
