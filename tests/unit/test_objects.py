"""The adapter of S3: conditional writes, lost objects, and how much a list reads."""

from typing import Any

import pytest

from oncely.aws.objects import S3Objects
from oncely.core.errors import NotConfiguredError, UnavailableError
from oncely.testing.memory_aws.account import MemoryAws
from oncely.testing.memory_aws.calls import AwsCall, client_error
from tests.support.stored_rows import ARCHIVE, new_account


@pytest.fixture
def account() -> MemoryAws:
    return new_account()


@pytest.fixture
def objects(account: MemoryAws) -> S3Objects:
    return S3Objects(account.clients.s3, ARCHIVE)


def test_existing_object_is_not_created_again(objects: S3Objects) -> None:
    assert objects.create("a", b"1")
    assert not objects.create("a", b"2")
    assert objects.read("a") == b"1"


def test_only_object_that_was_read_is_replaced(objects: S3Objects) -> None:
    objects.put("a", b"1")
    read = objects.find("a")
    assert read is not None

    assert objects.replace("a", b"2", "text/plain", tag=read.tag) is not None
    assert objects.replace("a", b"3", "text/plain", tag=read.tag) is None
    assert objects.replace("b", b"3", "text/plain", tag=read.tag) is None
    assert objects.read("a") == b"2"


def test_lost_write_without_condition_is_error(objects: S3Objects, account: MemoryAws) -> None:
    def intercept(call: AwsCall, perform: Any) -> Any:  # noqa: ANN401  # of any call
        del perform
        raise client_error("PreconditionFailed", call.operation)

    account.intercept = intercept
    with pytest.raises(NotConfiguredError, match="PreconditionFailed"):
        objects.put("a", b"1")


def test_listed_object_that_is_gone_is_error(objects: S3Objects) -> None:
    assert objects.find("a") is None
    assert objects.find("a", version="version-9") is None
    with pytest.raises(UnavailableError, match="try again"):
        objects.read("a")


def test_list_with_limit_sends_one_request(objects: S3Objects, account: MemoryAws) -> None:
    for number in range(5):
        objects.put(f"a/{number}", b"")
    calls: list[str] = []

    def intercept(call: AwsCall, perform: Any) -> Any:  # noqa: ANN401  # of any call
        calls.append(call.name)
        return perform()

    account.intercept = intercept
    assert [key for key, _ in objects.list("a/", after="a/0", limit=2)] == ["a/1", "a/2"]
    assert calls == ["s3.list_objects_v2"]
