"""Erases personal data: in job rows, business rows, pauses, the history and rejected messages.

Safe to interrupt and to repeat. The log is written first, and every later step follows from it or
from the given ids.
"""

import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from oncely.aws.objects import GZIP, S3Objects
from oncely.contracts.job import AnyJob
from oncely.contracts.table_schema import TableSchema
from oncely.core.decide import on_forged_row
from oncely.core.ended_jobs import DataOwner, is_complete, request_erasure
from oncely.core.errors import InvalidInputError, InvalidRequestError, UnavailableError
from oncely.core.job_row import JobRow, operator_actor
from oncely.core.keys import JobKey
from oncely.core.store import Swapped, VersionConflict
from oncely.core.table_guard import TableBlocked
from oncely.history.archive import HISTORY_PREFIX, MAX_CONCURRENCY, SUFFIX
from oncely.history.erasure_log import ErasedJobs, ErasureEntry, Person
from oncely.history.lines import proof_of_line
from oncely.operate.job_index import UnreadableRow
from oncely.operate.job_lists import open_job_keys
from oncely.operate.job_view import contract_for
from oncely.operate.rejects import REJECT_SUFFIX, REJECTS_PREFIX

if TYPE_CHECKING:
    from oncely.app import App

Redact: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any]]

# Each retry lost a race with another writer of the row.
_MAX_CAS_RETRIES: Final = 20
# More jobs than a customer has. The index returns them page by page.
_ALL: Final = 1_000_000
# What to check if a request to the archive is refused.
ERASER_CHECK: Final = (
    "that the bucket exists, that this role has the Eraser policy, and that no object lock or MFA "
    "delete protects it"
)
# Another writer of the same object is rare: an archiver that retries, or a second erasure.
_MAX_OBJECT_RETRIES: Final = 5


@dataclass(frozen=True, kw_only=True)
class Erasure:
    """What an erasure did so far, or would do."""

    erased: tuple[JobKey, ...] = ()  # ended jobs, which now hold only the proof
    marked: tuple[JobKey, ...] = ()  # open jobs, which drop the data when they end
    unreadable: tuple[JobKey, ...] = ()  # rows of a newer version: not erased
    records: int = 0
    events: int = 0
    history_read: int = 0  # objects
    history: int = 0
    rejects_read: int = 0
    rejects: int = 0
    pauses: int = 0  # whose reasons named the person

    @property
    def found_nothing(self) -> bool:
        """Whether nothing contains the ids."""
        found = (self.erased, self.marked, self.unreadable, self.records, self.events)
        return not any((*found, self.history, self.rejects, self.pauses))

    def to_json(self) -> dict[str, Any]:
        return {
            "erased": list(self.erased),
            "marked": list(self.marked),
            "unreadable": list(self.unreadable),
            "records": self.records,
            "import_events": self.events,
            "history_objects": self.history,
            "rejects": self.rejects,
            "pauses": self.pauses,
        }


@dataclass(frozen=True, kw_only=True)
class Eraser:
    """Erases in two parts: the tables at once, the archive once no older write can reach it."""

    app: "App"
    report: Callable[[Erasure], None] = lambda _: None

    def erase_tables(self, person: Person, *, actor: str, dry_run: bool = False) -> Erasure:
        """Erase job rows and business rows. The log comes first: it forbids older writes."""
        self._require_declared_table()
        jobs, unreadable = self._rows(person)
        for job in jobs:
            if not dry_run and job.erasure_requested_at is None:
                self.record_job(job.job_key, operator_actor(actor))
        done, open_records = Erasure(unreadable=unreadable), set[str]()
        for job in jobs:
            row = job if dry_run else self._mark(job, actor)
            if row is None:
                continue  # it has expired
            if is_complete(row):
                done = replace(done, erased=(*done.erased, row.job_key))
            else:
                done = replace(done, marked=(*done.marked, row.job_key))
                open_records.add(row.subject or "")
            self.report(done)
        done = replace(done, pauses=self._erase_pauses(person, dry_run=dry_run))
        return self._erase_business_rows(person, done, open_records, dry_run=dry_run)

    def archive_ready_at(self) -> datetime | None:
        """From when `erase_archive` finds everything. Returns None if it does now."""
        at = self.app.ports.erasure_log.erased().effective_at
        return None if at is None or at <= self.app.ports.clock.now() else at

    def erase_archive(
        self, person: Person, done: Erasure, *, actor: str, dry_run: bool = False
    ) -> Erasure:
        """Erase the history of every job in the log, and the matching rejected messages.

        An interrupted run may have erased rows, which no longer contain the ids.
        """
        self._require_declared_table()
        planned = (*done.erased, *done.marked) if dry_run else ()
        logged = self._erased(planned)
        found: set[JobKey] = set()  # matched by id, not in the log before

        def redact(line: Mapping[str, Any]) -> Mapping[str, Any]:
            if logged.includes_line(line):
                return proof_of_line(line)
            if not person.is_owner_of(line):
                return line
            # The row of a matching job may have expired, so that only its history is left. It is
            # recorded first: a backup of the table may still hold the row.
            key = JobKey(line["job_key"])
            if not dry_run and key not in found:
                self.record_job(key, operator_actor(actor))
            found.add(key)
            return proof_of_line(line)

        for had_data in self.app.ports.erasable_archive.redact_history(redact, dry_run=dry_run):
            history = done.history + had_data
            done = replace(done, history_read=done.history_read + 1, history=history)
            self.report(done)
        erased = self._erased((*planned, *found))

        def matches(reject: Mapping[str, Any]) -> bool:
            texts = [str(value) for value in reject.values()]  # the reason quotes business rows
            body = str(reject.get("body", ""))
            return any(map(person.is_named_in, texts)) or self._is_of_erased_job(body, erased)

        for matched in self.app.ports.erasable_archive.delete_rejects(matches, dry_run=dry_run):
            rejects = done.rejects + matched
            done = replace(done, rejects_read=done.rejects_read + 1, rejects=rejects)
            self.report(done)
        return done

    def record_run(self, done: Erasure, *, actor: str) -> None:
        """Record who erased what and when: job keys, never the customer."""
        now = self.app.ports.clock.now()
        self.app.ports.erasure_log.record_run(
            {"actor": operator_actor(actor), **done.to_json()}, at=now
        )

    def record_job(self, key: JobKey, actor: str) -> None:
        """Record a job in the log, before its data is erased anywhere."""
        now = self.app.ports.clock.now()
        self.app.ports.erasure_log.record(ErasureEntry(job_key=key, requested_at=now, actor=actor))

    def _erased(self, planned: Iterable[JobKey]) -> ErasedJobs:
        """The jobs in the log, and those that this run adds or would add."""
        now, log = self.app.ports.clock.now(), self.app.ports.erasure_log.erased()
        names = (ErasureEntry(job_key=key, requested_at=now, actor="").name for key in planned)
        added = ErasedJobs.from_names(names)
        return ErasedJobs({**log.requested_at, **added.requested_at})

    def _require_declared_table(self) -> None:
        # A restored table lacks rows until its proofs are restored.
        if isinstance(table := self.app.ports.table_guard.check(), TableBlocked):
            raise InvalidRequestError(table.reason)

    def _rows(self, person: Person) -> tuple[list[JobRow], tuple[JobKey, ...]]:
        """The matching rows, and the keys of those that this version cannot read."""
        keys: list[JobKey] = []
        if person.customer_id is not None:
            keys += self.app.ports.job_index.by_customer(person.customer_id, limit=_ALL)
        for record_id in person.record_ids:
            keys += self.app.ports.job_index.by_subject(record_id, limit=_ALL)
        indexed = self.app.ports.job_index.get_many(keys)
        unreadable = (key for key, row in indexed.items() if isinstance(row, UnreadableRow))
        rows = indexed | self.app.ports.job_index.get_many(list(self._open_keys(person)))
        jobs = (row for row in rows.values() if isinstance(row, JobRow))
        return [job for job in jobs if self._is_of(job, person)], tuple(unreadable)

    def _open_keys(self, person: Person) -> Iterator[JobKey]:
        """Find open jobs by their message, which alone has the customer before the first claim."""
        if person.customer_id is None:
            return
        yield from open_job_keys(self.app.ports.due_index, self.app.ports.job_index)

    def _is_of(self, row: JobRow, person: Person) -> bool:
        names = {row.customer_id, row.message.get("customer_id")}
        if person.customer_id is not None and person.customer_id in names:
            return True
        contract = contract_for(row, self.app.registry)
        # A job type that is no longer deployed may hold data of the record.
        is_owner = contract is None or contract.data_owner is DataOwner.RECORD
        return is_owner and row.subject in person.record_ids

    def _mark(self, job: JobRow, actor: str) -> JobRow | None:
        """Mark a row. The store drops the data of an ended one in the same write."""
        row: JobRow | None = job
        for _ in range(_MAX_CAS_RETRIES):
            if row is None or row.erasure_requested_at is not None:
                return row
            now = self.app.ports.clock.now()
            # The mark would make a forged row ours, and its status would be believed.
            decision = on_forged_row(row) if row.is_forged else request_erasure(now)
            after = decision.apply_to(row, now=now, actor=operator_actor(actor))
            match self.app.ports.job_store().swap(row, after):
                case Swapped(job=newer) | VersionConflict(row=newer):
                    row = newer
                case _:
                    break
        raise UnavailableError(f"the row of {job.job_key} kept changing; run the erasure again")

    def _erase_pauses(self, person: Person, *, dry_run: bool) -> int:
        """Remove the reasons that name the person. The pauses and who made them stay."""
        for _ in range(_MAX_CAS_RETRIES):
            pauses = self.app.ports.gate_table.read().pauses.values()
            changed = [
                after
                for pause in pauses
                if (after := pause.without_reasons(person.is_named_in)) != pause
            ]
            if dry_run or all(map(self.app.ports.gate_table.write_pause, changed)):
                return len(changed)
        raise UnavailableError("the pauses kept changing; run the erasure again")

    def _erase_business_rows(
        self, person: Person, done: Erasure, open_records: set[str], *, dry_run: bool
    ) -> Erasure:
        for contract_type in self.app.registry:
            if contract_type.data_owner is not DataOwner.RECORD:
                continue
            for record_id in person.record_ids:
                is_open = record_id in open_records
                erased = self._erase_record(
                    contract_type, record_id, is_open=is_open, dry_run=dry_run
                )
                events = sum(
                    self._delete_partition(table, record_id, dry_run=dry_run)
                    for table in contract_type.all_tables()
                    if isinstance(table, TableSchema) and table.erased_by_partition
                )
                done = replace(done, records=done.records + erased, events=done.events + events)
                self.report(done)
        return done

    def _erase_record(
        self, contract_type: type[AnyJob], record_id: str, *, is_open: bool, dry_run: bool
    ) -> bool:
        for _ in range(_MAX_CAS_RETRIES):
            now = self.app.ports.clock.now()
            write = contract_type.erase_record(
                self.app.ports, record_id, now=now, has_open_jobs=is_open
            )
            if write is None:
                return False
            if dry_run or self.app.ports.table(write.table).update(write):
                return True
        raise UnavailableError(f"record {record_id} kept changing; run the erasure again")

    def _delete_partition(self, table: TableSchema, record_id: str, *, dry_run: bool) -> int:
        return self.app.ports.table(table.name).delete_partition(
            {table.key.partition: record_id}, sort=str(table.key.sort), dry_run=dry_run
        )

    def _is_of_erased_job(self, body: str, erased: ErasedJobs) -> bool:
        key = self._intended_key(body)
        return key is not None and erased.has_key(key)

    def _intended_key(self, body: str) -> JobKey | None:
        """The job key of a rejected message, if its fields are enough."""
        try:
            fields = json.loads(body)
            contract_type = self.app.registry.contract(fields["job"])
            known = {name: fields[name] for name in contract_type.model_fields if name in fields}
            return contract_type.model_construct(**known).job_key()
        except (InvalidInputError, ValueError, LookupError, TypeError, AttributeError):
            return None


@dataclass(kw_only=True)
class _Object:
    """One object with all its versions; `current` is None if it was deleted."""

    key: str
    versions: list[str] = field(default_factory=list)
    markers: list[str] = field(default_factory=list)  # of deletions
    current: str | None = None


@dataclass(frozen=True)
class ErasableArchive:
    """Rewrites history objects and deletes rejects, with every version that holds the data.

    No function ships this file, and none may delete a version.
    """

    objects: S3Objects
    max_concurrency: int = MAX_CONCURRENCY

    def redact_history(self, redact: Redact, *, dry_run: bool) -> Iterator[bool]:
        """Yield for each object whether any version held lines that `redact` changes."""

        def work(found: _Object) -> bool:
            return self._redact_object(found, redact, dry_run=dry_run)

        return self._for_each(HISTORY_PREFIX, SUFFIX, work)

    def delete_rejects(
        self, matches: Callable[[Mapping[str, Any]], bool], *, dry_run: bool
    ) -> Iterator[bool]:
        """Yield for each reject whether any version matched."""

        def work(found: _Object) -> bool:
            read = (self.objects.find(found.key, version=version) for version in found.versions)
            matched = any(matches(_parse_reject(one.body)) for one in read if one is not None)
            if matched and not dry_run:
                self._delete_versions(found.key, [*found.versions, *found.markers])
            return matched

        return self._for_each(REJECTS_PREFIX, REJECT_SUFFIX, work)

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
        with self.objects.translated():
            pages = self.objects.client.get_paginator("list_object_versions").paginate(
                Bucket=self.objects.bucket, Prefix=prefix
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

    def _redact_object(self, found: _Object, redact: Redact, *, dry_run: bool) -> bool:
        """Replace the current version first, then delete every version that holds the data."""
        for _ in range(_MAX_OBJECT_RETRIES):
            held: list[str] = []
            lost_race = False
            for version in found.versions:
                # Another erasure may have deleted it.
                if (read := self.objects.find(found.key, version=version)) is None:
                    continue
                if (redacted := _redact_lines(read.body, redact)) is None:
                    continue
                held.append(version)
                if version != found.current or dry_run:
                    continue
                written = self.objects.replace(found.key, redacted, GZIP, tag=read.tag)
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

    def _delete_versions(self, key: str, versions: Iterable[str]) -> None:
        client, bucket = self.objects.client, self.objects.bucket
        with self.objects.translated():
            for version in versions:
                client.delete_object(Bucket=bucket, Key=key, VersionId=version)


def _entries(pages: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Versions and delete markers in the order of keys, the newest version of each first."""
    for page in pages:
        both = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
        yield from sorted(both, key=lambda entry: str(entry["Key"]))


def _redact_lines(body: bytes, redact: Redact) -> bytes | None:
    """The object without the data. Returns None if it holds none: its bytes stay."""
    changed = False
    kept: list[bytes] = []
    for line in gzip.decompress(body).splitlines():
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
