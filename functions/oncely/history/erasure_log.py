"""The erasure log: whose data is erased, in which jobs, and what the history may still contain."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from oncely.aws.objects import S3Objects
from oncely.core.ended_jobs import erase_again
from oncely.core.errors import InvalidRequestError
from oncely.core.job_row import JobRow
from oncely.core.keys import MAX_ID_LENGTH, JobKey
from oncely.core.text import format_time, parse_time
from oncely.history.lines import HistoryLine

# The longest run of the function that writes the history. One that has read the log before an entry
# was recorded may write the job's data until then.
ARCHIVER_TIMEOUT: Final = timedelta(minutes=2)
# The clock of an operator's computer may differ by this much from that of S3.
_OPERATOR_CLOCK_SKEW: Final = timedelta(minutes=1)
# A stream record is at most a day old. A row that was restored from a backup of up to 35 days ago
# lacks its mark until `restore-proofs` sets it again.
RECENT: Final = timedelta(days=40)

_JOBS_PREFIX: Final = "erasures/jobs/"
_AUDIT_PREFIX: Final = "erasures/audit/"
_JSON: Final = ".json"
_KEY_DIGEST_LENGTH: Final = 32
_SEPARATOR: Final = "-"  # not in a digest
_EMAIL: Final = re.compile(r"[^\s@]+@[^\s@]+")
_RECORD: Final = re.compile(r"([^\s:#]+):([^\s#]+)")


@dataclass(frozen=True, kw_only=True)
class Person:
    """The ids to erase: of a customer, of records in other systems, and email addresses."""

    customer_id: str | None = None
    records: tuple[tuple[str, str], ...] = ()  # source and id
    emails: tuple[str, ...] = ()  # only texts are searched for them: no row is found by one

    @classmethod
    def parse(
        cls, customer_id: str | None, records: Iterable[str], emails: Iterable[str] = ()
    ) -> "Person":
        """Check the ids of an operator's request. A record is written `SOURCE:ID`."""
        if customer_id is not None:
            _check_id(customer_id, "the customer id")
        parsed = []
        for text in records:
            if (found := _RECORD.fullmatch(text)) is None:
                raise InvalidRequestError(
                    f"{text!r} is not a record: write its source and its id, such as crm:4419"
                )
            _check_id(text, "the record")
            parsed.append((found[1], found[2]))
        addresses = tuple(dict.fromkeys(emails))
        for text in addresses:
            _check_id(text, "the email address")
            if _EMAIL.fullmatch(text) is None:
                raise InvalidRequestError(f"{text!r} is not an email address")
        if customer_id is None and not parsed and not addresses:
            raise InvalidRequestError(
                "pass a customer, a record (such as crm:4419), an email address, or several"
            )
        return cls(customer_id=customer_id, records=tuple(dict.fromkeys(parsed)), emails=addresses)

    @property
    def record_ids(self) -> tuple[str, ...]:
        """The ids of the records, as rows store them."""
        return tuple(f"{source}#{source_id}" for source, source_id in self.records)

    def is_named_in(self, text: str) -> bool:
        """Whether a text contains one of the ids. JSON is compared value by value."""
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            names = (*self.record_ids, *((self.customer_id,) if self.customer_id else ()))
            found = any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) for name in names)
            return found or self._is_addressed_in(text)
        return any(self._is_named_by(value) for value in _values(document))

    def is_owner_of(self, line: Mapping[str, Any]) -> bool:
        """Whether a history line contains one of the ids."""
        customers = (line.get("customer_id"), (line.get("message") or {}).get("customer_id"))
        is_customer = self.customer_id is not None and self.customer_id in customers
        return is_customer or line.get("subject") in self.record_ids

    def _is_named_by(self, value: object) -> bool:
        if isinstance(value, Mapping):
            return (value.get("source"), str(value.get("source_id"))) in self.records
        if value is None:
            return False
        return str(value) in {self.customer_id, *self.record_ids} or self._is_addressed_in(
            str(value)
        )

    def _is_addressed_in(self, text: str) -> bool:
        """Whether a text contains one of the email addresses, also in one with a name."""
        return any(
            re.search(rf"(?<![\w.+-]){re.escape(one)}(?![\w-]|\.\w)", text, re.IGNORECASE)
            for one in self.emails
        )


def _check_id(text: str, name: str) -> None:
    if not text.strip() or not text.isprintable() or len(text) > MAX_ID_LENGTH:
        raise InvalidRequestError(
            f"{name} must have 1 to {MAX_ID_LENGTH} printable characters, not {text[:40]!r}"
        )


def _values(document: object) -> Iterator[object]:
    """Every value of a JSON document, including objects."""
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
            continue
        yield value
        if isinstance(value, Mapping):
            waiting += value.values()


@dataclass(frozen=True, kw_only=True)
class ErasureEntry:
    """An entry of the erasure log, which outlives the row: without personal data."""

    job_key: JobKey
    requested_at: datetime
    actor: str

    @property
    def name(self) -> str:
        """Its name in the log, which has everything that a reader needs."""
        return f"{_key_digest(self.job_key)}{_SEPARATOR}{format_time(self.requested_at)}"


@dataclass(frozen=True)
class ErasedJobs:
    """When the erasure of each job in the log was requested, by the digest of its key.

    Every row with the key is erased that was created by then: a restore may have lost one that the
    history still has. A row that was created later is another job.
    """

    requested_at: Mapping[str, datetime]

    @classmethod
    def from_names(cls, names: Iterable[str]) -> "ErasedJobs":
        """Parse the names of the log's entries. The newest entry of a job counts."""
        entries = (name.partition(_SEPARATOR)[::2] for name in sorted(names))
        return cls({digest: parse_time(requested_at) for digest, requested_at in entries})

    @property
    def effective_at(self) -> datetime | None:
        """When no function can still write data that an entry forbids."""
        newest = max(self.requested_at.values(), default=None)
        return None if newest is None else newest + ARCHIVER_TIMEOUT + _OPERATOR_CLOCK_SKEW

    def includes(self, key: JobKey, created_at: datetime | None) -> bool:
        """Whether the erasure of a job with this key, created then, was requested."""
        requested_at = self.requested_at.get(_key_digest(key))
        if requested_at is None or created_at is None:
            return False
        return created_at <= requested_at

    def has_key(self, key: JobKey) -> bool:
        """Whether any job with this key was erased."""
        return _key_digest(key) in self.requested_at

    def redact(self, lines: Iterable[HistoryLine]) -> list[HistoryLine]:
        """The lines that the history may hold."""
        return [
            line.as_proof if self.includes(JobKey(line.job_key), line.created_at) else line
            for line in lines
        ]

    def includes_line(self, line: Mapping[str, Any]) -> bool:
        """Whether the history may hold only the proof of a line, which is given as JSON."""
        # A line without this time is of a row that could not be read: it holds no data.
        created_at = None if "created_at" not in line else parse_time(line["created_at"])
        return self.includes(JobKey(line["job_key"]), created_at)


@dataclass(frozen=True)
class ErasureLog:
    """One object in the archive for each erased job, by day. Its name is all that is read."""

    objects: S3Objects

    def record(self, entry: ErasureEntry) -> None:
        """Record a job. Recording it again changes nothing."""
        day = entry.requested_at.astimezone(UTC).date()
        content = {
            "job_key": entry.job_key,
            "requested_at": format_time(entry.requested_at),
            "actor": entry.actor,
        }
        self.objects.put_json(f"{_JOBS_PREFIX}{day}/{entry.name}{_JSON}", content)

    def record_run(self, run: Mapping[str, object], *, at: datetime) -> None:
        """Write the audit entry of one erasure."""
        self.objects.put_json(f"{_AUDIT_PREFIX}{format_time(at)}{_JSON}", run)

    def erased(self, *, since: date | None = None) -> ErasedJobs:
        """Return the jobs that were recorded on this day or later, or all."""
        found = self.objects.list(_JOBS_PREFIX, after=f"{_JOBS_PREFIX}{since or ''}")
        return ErasedJobs.from_names(key.rpartition("/")[2].removesuffix(_JSON) for key, _ in found)


def erase_restored(job: JobRow, erased: ErasedJobs, *, now: datetime) -> JobRow:
    """A restored row, erased again if it was erased before the restore."""
    if job.erasure_requested_at is not None or not erased.includes(job.job_key, job.created_at):
        return job
    return erase_again(job, now)


def _key_digest(key: JobKey) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:_KEY_DIGEST_LENGTH]
