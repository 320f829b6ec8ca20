"""Objects in a bucket on S3: every request that Oncely sends, and what its errors mean."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from oncely.core.aws_errors import AWS_ERRORS, error_code, translated
from oncely.core.errors import UnavailableError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

T = TypeVar("T")

TEXT: Final = "text/plain"
JSON: Final = "application/json"
GZIP: Final = "application/gzip"
# The version id in a bucket without versions.
_UNVERSIONED: Final = "null"
_GONE: Final = frozenset({"NoSuchKey", "NoSuchVersion"})
_LOST_RACE: Final = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey"})


@dataclass(frozen=True)
class StoredObject:
    """An object as it was read."""

    body: bytes
    tag: str  # identifies the content, for `replacing`
    at: datetime  # when it was written, to the second


@dataclass(frozen=True)
class S3Objects:
    """The bucket of the archive."""

    client: "S3Client"
    bucket: str
    check: str = "that it exists and that this role may use it"

    def read(self, key: str) -> bytes:
        """Read an object that was listed."""
        if (found := self.find(key)) is None:
            raise UnavailableError("an object of the archive was deleted just now; try again")
        return found.body

    def find(self, key: str, *, version: str | None = None) -> StoredObject | None:
        """Read an object, or one version of it. Returns None if there is none."""
        of_version: Any = {} if version is None else {"VersionId": version}

        def get() -> StoredObject:
            found = self.client.get_object(Bucket=self.bucket, Key=key, **of_version)
            return StoredObject(found["Body"].read(), found["ETag"], found["LastModified"])

        return self._send(get, unless=_GONE)

    def put(self, key: str, body: bytes, content_type: str = TEXT) -> None:
        """Write an object, or replace the one with this key."""
        self._put(key, body, content_type)

    def put_json(self, key: str, content: object) -> None:
        """Write a JSON document, or replace the one with this key."""
        self.put(key, json.dumps(content, indent=1).encode(), JSON)

    def create(self, key: str, body: bytes, content_type: str = TEXT) -> bool:
        """Write a new object. Returns False if there is one with this key."""
        return self._put(key, body, content_type, IfNoneMatch="*") is not None

    def replace(self, key: str, body: bytes, content_type: str, *, tag: str) -> str | None:
        """Replace what was read with this tag, and return the new version.

        Returns None if another writer was first.
        """
        return self._put(key, body, content_type, IfMatch=tag)

    def list(
        self, prefix: str, *, after: str = "", limit: int | None = None
    ) -> Iterator[tuple[str, datetime]]:
        """Yield keys, and when each was written, in the order of keys. A limit is one page."""
        request = {"StartAfter": after} if after else {}
        pages = self._pages(prefix, **request, **({} if limit is None else {"MaxKeys": limit}))
        found = ((one["Key"], one["LastModified"]) for page in pages for one in page["Contents"])
        return islice(found, limit)

    def folders(self, prefix: str) -> Iterator[str]:
        """Yield what begins with a prefix, up to the next slash."""
        for page in self._pages(prefix, Delimiter="/"):
            yield from (one["Prefix"] for one in page["CommonPrefixes"])

    def translated(self) -> AbstractContextManager[None]:
        """Translate errors of requests in this context."""
        return translated("the archive", name=self.bucket, check=self.check)

    def _pages(self, prefix: str, **request: object) -> Iterator[Any]:
        with self.translated():
            list_objects: Any = self.client.get_paginator("list_objects_v2")
            for page in list_objects.paginate(Bucket=self.bucket, Prefix=prefix, **request):
                yield {"Contents": (), "CommonPrefixes": (), **page}

    def _put(self, key: str, body: bytes, content_type: str, **condition: str) -> str | None:
        request: Any = {"Key": key, "Body": body, "ContentType": content_type, **condition}

        def put() -> str:
            written = self.client.put_object(Bucket=self.bucket, **request)
            return written.get("VersionId") or _UNVERSIONED

        return self._send(put, unless=_LOST_RACE if condition else frozenset())

    def _send(self, call: Callable[[], T], *, unless: frozenset[str]) -> T | None:
        """Send a request. Returns None if it fails with one of these codes."""
        with self.translated():
            try:
                return call()
            except AWS_ERRORS as error:
                if error_code(error) in unless:
                    return None
                raise
