"""Erasure in the archive on S3: rewrites and deletes objects with all their versions."""

import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from oncely.core.aws_errors import AWS_ERRORS, error_code, translated
from oncely.core.errors import UnavailableError
from oncely.history.s3_store import BUCKET_CHECK, HISTORY_PREFIX, SUFFIX

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_REJECTS_PREFIX: Final = "rejects/"
_JSON: Final = ".json"
_CHECK: Final = (
    f"{BUCKET_CHECK} (the Eraser policy), and that no object lock or MFA delete protects it"
)
# Objects are small, so reading one is mostly waiting.
MAX_CONCURRENCY: Final = 16
# Another writer of the same object is rare: an archiver that retries, or a second erasure.
_MAX_RETRIES: Final = 5
_LOST_RACE: Final = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey"})
_GONE: Final = frozenset({"NoSuchVersion", "NoSuchKey"})
_UNVERSIONED: Final = "null"  # the version id in a bucket without versions


@dataclass(kw_only=True)
class _Object:
    """One object with all its versions; `current` is None if it was deleted."""

    key: str
    versions: list[str] = field(default_factory=list)
    markers: list[str] = field(default_factory=list)  # of deletions
    current: str | None = None


Redact: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True)
class S3ErasableArchive:
    """Rewrites history objects and deletes rejects, with every version that holds the data."""

    client: "S3Client"
    bucket: str
    max_concurrency: int = MAX_CONCURRENCY

    def redact_history(self, redact: Redact, *, dry_run: bool) -> Iterator[bool]:
        """Yield for each object whether any version held lines that `redact` changes."""
        work = partial(self._redact_object, redact, dry_run)
        return self._for_each(HISTORY_PREFIX, SUFFIX, work)

    def delete_rejects(
        self, matches: Callable[[Mapping[str, Any]], bool], *, dry_run: bool
    ) -> Iterator[bool]:
        """Yield for each reject whether any version matched."""
        work = partial(self._delete_reject, matches, dry_run)
        return self._for_each(_REJECTS_PREFIX, _JSON, work)

    def _for_each(
        self, prefix: str, suffix: str, work: Callable[[_Object], bool]
    ) -> Iterator[bool]:
        found = (one for one in self._objects(prefix) if one.key.endswith(suffix))
        if self.max_concurrency == 1:
            yield from map(work, found)
            return
        with ThreadPoolExecutor(max_workers=self.max_concurrency) as pool:
            while batch := list(islice(found, self.max_concurrency)):
                yield from pool.map(work, batch)

    def _objects(self, prefix: str) -> Iterator[_Object]:
        with self._translated():
            pages = self.client.get_paginator("list_object_versions").paginate(
                Bucket=self.bucket, Prefix=prefix
            )
            for key, group in groupby(_entries(pages), key=lambda entry: str(entry["Key"])):
                found = _Object(key=key)
                for entry in group:
                    is_marker = "Size" not in entry
                    version = str(entry["VersionId"])
                    (found.markers if is_marker else found.versions).append(version)
                    if entry["IsLatest"] and not is_marker:
                        found.current = version
                yield found

    def _redact_object(self, redact: Redact, dry_run: bool, found: _Object) -> bool:  # noqa: FBT001  # a partial's
        """Replace the current version first, then delete every version that holds the data."""
        for _ in range(_MAX_RETRIES):
            held: list[str] = []
            lost_race = False
            for version in found.versions:
                body, tag = self._read(found.key, version)
                redacted = _redact_lines(body, redact)
                if redacted is None:
                    continue
                held.append(version)
                if version != found.current or dry_run:
                    continue
                written = self._replace(found.key, redacted, tag)
                lost_race = written is None
                if written == version:
                    held.remove(version)  # a bucket without versions: it is overwritten
            if not dry_run and not lost_race:
                self._delete_versions(found.key, held)
            if not lost_race:
                return bool(held)
            others = self._objects(found.key)
            found = next((one for one in others if one.key == found.key), _Object(key=found.key))
        raise UnavailableError(f"{found.key} kept changing; run the erasure again")

    def _delete_reject(
        self,
        matches: Callable[[Mapping[str, Any]], bool],
        dry_run: bool,  # noqa: FBT001  # a partial's
        found: _Object,
    ) -> bool:
        bodies = (self._read(found.key, version)[0] for version in found.versions)
        if not any(matches(_parse_reject(body)) for body in bodies if body):
            return False
        if not dry_run:
            self._delete_versions(found.key, [*found.versions, *found.markers])
        return True

    def _read(self, key: str, version: str) -> tuple[bytes, str]:
        """Read a version and its tag. A version that another erasure deleted is empty."""
        with self._translated():
            try:
                found = self.client.get_object(Bucket=self.bucket, Key=key, VersionId=version)
            except AWS_ERRORS as error:
                if error_code(error) in _GONE:
                    return b"", ""
                raise
            return found["Body"].read(), found["ETag"]

    def _replace(self, key: str, body: bytes, tag: str) -> str | None:
        """Replace the version that was read. Returns None if another writer was first."""
        with self._translated():
            try:
                written = self.client.put_object(
                    Bucket=self.bucket,
                    Key=key,
                    Body=body,
                    ContentType="application/gzip",
                    IfMatch=tag,
                )
            except AWS_ERRORS as error:
                if error_code(error) in _LOST_RACE:
                    return None
                raise
        return written.get("VersionId") or _UNVERSIONED

    def _delete_versions(self, key: str, versions: Iterable[str]) -> None:
        with self._translated():
            for version in versions:
                self.client.delete_object(Bucket=self.bucket, Key=key, VersionId=version)

    def _translated(self) -> AbstractContextManager[None]:
        return translated("the archive", name=self.bucket, check=_CHECK)


def _entries(pages: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Versions and delete markers in the order of keys, the newest version of each first."""
    for page in pages:
        both = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
        yield from sorted(both, key=lambda entry: str(entry["Key"]))


def _redact_lines(body: bytes, redact: Redact) -> bytes | None:
    """The object without the data. Returns None if it holds none: its bytes stay."""
    lines = gzip.decompress(body).splitlines() if body else []
    changed = False
    kept: list[bytes] = []
    for line in lines:
        fields = json.loads(line)
        redacted = redact(fields)
        same = redacted == fields
        kept.append(line if same else json.dumps(redacted, separators=(",", ":")).encode())
        changed |= not same
    text = b"".join(line + b"\n" for line in kept)
    return gzip.compress(text, mtime=0) if changed else None


def _parse_reject(body: bytes) -> Mapping[str, Any]:
    try:
        reject = json.loads(body)
    except ValueError:
        reject = None
    return reject if isinstance(reject, dict) else {"body": body.decode(errors="replace")}
