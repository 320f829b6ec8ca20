"""The stores in memory. The conformance suite compares them with DynamoDB."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from oncely.domain.alert_budget import (
    AlertDigest,
    AlertKind,
    AlertLimits,
    AlertWindow,
    add_to_digest,
    count_alert,
)
from oncely.domain.claims import Claim, apply_claim
from oncely.domain.due import DUE_SHARDS, DueAction, due_action, due_shard
from oncely.domain.effect_outcomes import BusinessWrite
from oncely.domain.erasure import erase_if_complete
from oncely.domain.errors import InvariantError, UnavailableError, UnreadableRowError
from oncely.domain.event_records import EventRecord
from oncely.domain.hints import apply_hint, misses_hint, with_hint
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import LISTED, Status
from oncely.domain.proofs import misses_proof, same_events, with_event
from oncely.ports import (
    AlreadyExists,
    BusinessWriteConflict,
    Claimed,
    ClaimFailed,
    ClaimResult,
    Created,
    CreateResult,
    DueEntry,
    ForgedRow,
    PrerequisiteNotMet,
    Swapped,
    SwapResult,
    TableOpen,
    TableState,
    UniqueWindow,
    VersionConflict,
    WindowTaken,
)
from oncely.search_ports import JobListEntry, UnreadableRow

BusinessRow = dict[str, object]


@dataclass
class MemoryBusinessRows:
    """Business tables: rows by table and key."""

    rows: dict[tuple[str, tuple[str, ...]], BusinessRow] = field(default_factory=dict)
    writable: frozenset[str] | None = None  # tables; None means all

    def put(self, table: str, key: Mapping[str, str], row: Mapping[str, object]) -> None:
        self.rows[table, tuple(key.values())] = {**key, **row}

    def get(self, table: str, key: Mapping[str, str]) -> BusinessRow | None:
        row = self.rows.get((table, tuple(key.values())))
        return None if row is None else dict(row)

    def query_index(
        self,
        table: str,
        index: str,
        *,
        partitions: tuple[str, Sequence[str]],
        max_sort_key: tuple[str, str],
    ) -> list[BusinessRow]:
        del index  # sparse: it contains the rows with both attributes
        indexed = [
            row
            for (name, _), row in self.rows.items()
            if name == table and row.get(partitions[0]) in partitions[1] and max_sort_key[0] in row
        ]
        matches = [row for row in indexed if str(row[max_sort_key[0]]) <= max_sort_key[1]]
        return sorted(matches, key=lambda row: str(row[max_sort_key[0]]))

    def update(self, write: BusinessWrite) -> bool:
        if self.conflict_reason(write):
            return False
        self.apply(write)
        return True

    def delete_partition(
        self, table: str, partition: Mapping[str, str], *, sort: str, dry_run: bool
    ) -> int:
        del sort  # a row's key has its parts in order
        (value,) = partition.values()
        found = [key for key in self.rows if key[0] == table and key[1][0] == value]
        for key in [] if dry_run else found:
            del self.rows[key]
        return len(found)

    def conflict_reason(self, write: BusinessWrite) -> str | None:
        if self.writable is not None and write.table not in self.writable:
            return f"{write}: list the table in the contract's `writes`"
        row = self.rows.get((write.table, tuple(write.key.values())))
        return None if write.applies_to(row) else str(write)

    def apply(self, write: BusinessWrite) -> None:
        row = self.rows.setdefault((write.table, tuple(write.key.values())), dict(write.key))
        row.update(write.set)
        for name in write.remove:
            row.pop(name, None)


@dataclass
class MemoryJobStore:
    """Job rows in a dictionary, one write at a time."""

    business_rows: MemoryBusinessRows = field(default_factory=MemoryBusinessRows)
    jobs: dict[JobKey, Job] = field(default_factory=dict)
    windows: dict[str, tuple[JobKey, UniqueWindow]] = field(default_factory=dict)
    # The partition of each row in the due index; it changes only with `due_at`.
    actions: dict[JobKey, DueAction] = field(default_factory=dict)
    unreadable: set[JobKey] = field(default_factory=set)  # rows edited by hand
    # A worker may hold a row of the table before a restore, with the version of one after it.
    was_restored: bool = False
    lock: threading.RLock = field(default_factory=threading.RLock)

    def get(self, key: JobKey) -> Job | None:
        if key in self.unreadable:
            raise UnreadableRowError(f"the row of {key} cannot be read")
        job = self.jobs.get(key)
        if job is not None and (reason := job.needs_newer_engine):
            raise UnreadableRowError(reason)
        return job

    def create(self, job: Job, *, replacing: ForgedRow | None = None) -> CreateResult:
        with self.lock:
            forged = self._forged_row(job.job_key)
            if forged is not None and (replacing is None or replacing.seen != forged.seen):
                return forged
            if forged is None and (row := self.get(job.job_key)) is not None:
                return Created(row) if row == job else AlreadyExists(row)
            self.unreadable.discard(job.job_key)
            self._put(None, job)
            return Created(job)

    def _forged_row(self, key: JobKey) -> ForgedRow | None:
        """The row if none of our functions wrote it. One that cannot be read may be ready."""
        row = self.jobs.get(key)
        is_unreadable = key in self.unreadable
        if row is None or row.needs_newer_engine:
            return None
        if not (replace(row, status=Status.UNKNOWN) if is_unreadable else row).is_forged:
            return None
        return ForgedRow("unreadable" if is_unreadable else str(row.status), seen={"row": row})

    def claim(self, claim: Claim) -> ClaimResult:
        with self.lock:
            row = self.jobs.get(claim.job_key)
            is_unreadable = claim.job_key in self.unreadable
            job = None if is_unreadable else apply_claim(row, claim)
            if job is None:
                if forged := self._forged_row(claim.job_key):
                    return forged
                row = self.get(claim.job_key)
                if row is None:
                    raise UnavailableError(f"the review of {claim.job_key} is gone")
                return Claimed(row) if row.owner == claim.owner else ClaimFailed(row)
            if claim.requires_failed is not None:
                other = self.jobs.get(claim.requires_failed)
                if not claim.prerequisite_met_by(other):
                    return PrerequisiteNotMet(other)
            self._put(None, job)
            return Claimed(job)

    def hint(self, key: JobKey, *, deployment: str | None, now: datetime) -> bool:
        with self.lock:
            row = self.jobs.get(key)
            hinted = None if row is None else apply_hint(row, deployment=deployment, now=now)
            if hinted is None:
                return False
            self._put(row, hinted)
            return True

    def save_event(self, row: Job, event: EventRecord) -> bool:
        with self.lock:
            stored = self.jobs.get(row.job_key)
            if stored is None or not same_events(row, stored):
                return False
            self.jobs[row.job_key] = with_event(stored, event)
            return True

    def compare_and_swap(
        self, before: Job, after: Job, *, business_writes: Sequence[BusinessWrite] = ()
    ) -> SwapResult:
        after = erase_if_complete(after)
        with self.lock:
            row = self.jobs.get(before.job_key)
            seen = (before.status, before.owner, before.version)
            if row is None or (row.status, row.owner, row.version) != seen:
                return VersionConflict(row)
            if misses_hint(row, before=before, after=after) or misses_proof(
                row, before=before, after=after
            ):
                return VersionConflict(row)
            if row != with_hint(before, before=before, row=row) and not self.was_restored:
                raise InvariantError(f"`before` is not the stored row of {before.job_key}")
            after = with_hint(after, before=before, row=row)
            conflicts = [
                reason
                for write in business_writes
                if (reason := self.business_rows.conflict_reason(write))
            ]
            if conflicts:
                return BusinessWriteConflict(", ".join(conflicts))
            for write in business_writes:
                self.business_rows.apply(write)
            self._put(row, after)
            return Swapped(after)

    def expire(self, key: JobKey) -> None:
        """Remove a row as TTL does."""
        del self.jobs[key]

    def _put(self, before: Job | None, after: Job) -> None:
        if before is None or before.due_at != after.due_at:
            self.actions[after.job_key] = due_action(after.status)
        self.jobs[after.job_key] = after


@dataclass
class MemoryTableGuard:
    """A table guard with a fixed state."""

    state: TableState = field(default_factory=lambda: TableOpen(deployment=None))

    def check(self) -> TableState:
        return self.state


@dataclass
class MemoryJobInserter:
    """Inserts rows and unique windows into a memory store."""

    store: MemoryJobStore

    def insert(self, job: Job) -> CreateResult:
        return self.store.create(job)

    def insert_unique(
        self, job: Job, window: UniqueWindow, *, replacing: JobKey | None = None
    ) -> CreateResult | WindowTaken:
        with self.store.lock:
            if self.store.get(job.job_key) is not None:
                return self.store.create(job)
            name = f"{job.job_type}:{window.name}"
            holder = self.store.windows.get(name)
            if (
                holder
                and holder[1].until > window.now
                and holder[0] not in (job.job_key, replacing)
            ):
                return WindowTaken(holder[0])
            self.store.windows[name] = (job.job_key, window)
            return self.store.create(job)


@dataclass
class MemoryAlertBudget:
    """Windows, digests and reservations of alerts by their keys."""

    limits: AlertLimits = field(default_factory=AlertLimits)
    windows: dict[str, AlertWindow] = field(default_factory=dict)
    digests: dict[str, AlertDigest] = field(default_factory=dict)
    reserved: dict[str, datetime] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def admit(self, kind: AlertKind, names: Sequence[str], *, now: datetime) -> bool:
        with self.lock:
            window, is_sent = count_alert(self.windows.get(kind.key), now=now, limits=self.limits)
            self.windows[kind.key] = window
            if not is_sent:
                since = window.until - self.limits.window
                new = AlertDigest(kind=kind, since=since, until=window.until)
                self.digests[new.key] = add_to_digest(self.digests.get(new.key, new), names)
            return is_sent

    def reserve(
        self, kind: AlertKind, name: str, *, now: datetime, until: datetime
    ) -> datetime | None:
        with self.lock:
            held_until = self.reserved.get(kind.key_of_job(name), now)
            if held_until > now:
                return held_until
            self.reserved[kind.key_of_job(name)] = until
            return None

    def keep(self, kind: AlertKind, name: str, *, until: datetime) -> None:
        self.reserved[kind.key_of_job(name)] = until

    def take_digest(self, key: str, *, now: datetime, until: datetime) -> AlertDigest | None:
        with self.lock:
            digest = self.digests.get(key)
            if digest is None or digest.due_at is None or digest.due_at > now:
                return None
            self.digests[key] = replace(digest, due_at=until)
            return self.digests[key]

    def close_digest(self, digest: AlertDigest, *, now: datetime) -> bool:
        del now  # the expiry of a table
        with self.lock:
            if self.digests[digest.key] != digest:
                return False
            self.digests[digest.key] = replace(digest, due_at=None)
            return True


@dataclass
class MemoryDueIndex:
    """The due rows of a memory store, and the due digests of a budget."""

    store: MemoryJobStore
    shards: int = DUE_SHARDS
    budget: MemoryAlertBudget = field(default_factory=MemoryAlertBudget)

    def due(
        self, action: DueAction, shard: int, *, since: datetime | None, until: datetime
    ) -> Iterator[DueEntry]:
        entries = [
            DueEntry(job_key=job.job_key, due_at=job.due_at)
            for job in self.store.jobs.values()
            if job.due_at is not None
            and (since or job.due_at) <= job.due_at <= until
            and due_shard(job.job_key, self.shards) == shard
            and self.store.actions.get(job.job_key, due_action(job.status)) is action
        ]
        entries += [
            DueEntry(job_key=JobKey(digest.key), due_at=digest.due_at)
            for digest in self.budget.digests.values()
            if digest.due_at is not None
            and (since or digest.due_at) <= digest.due_at <= until
            and due_shard(JobKey(digest.key), self.shards) == shard
            and action is DueAction.PUBLISH
        ]
        return iter(sorted(entries, key=lambda entry: entry.due_at))


@dataclass
class MemorySweepLeases:
    """The holder and the expiry of each shard's lease."""

    held: dict[int, tuple[str, datetime]] = field(default_factory=dict)

    def acquire(self, shard: int, *, holder: str, now: datetime, until: datetime) -> bool:
        other, ends = self.held.get(shard, (holder, now))
        if other != holder and ends > now:
            return False
        self.held[shard] = (holder, until)
        return True

    def release(self, shard: int, *, holder: str) -> None:
        if self.held.get(shard, ("", None))[0] == holder:
            del self.held[shard]


@dataclass
class MemoryJobIndex:
    """The search index of a memory store."""

    store: MemoryJobStore

    def by_subject(self, subject: str, *, limit: int) -> list[JobKey]:
        return self._newest(lambda job: job.subject == subject, limit)

    def by_customer(self, customer_id: str, *, limit: int) -> list[JobKey]:
        return self._newest(lambda job: job.customer_id == customer_id, limit)

    def by_reference(self, ref: str, *, limit: int) -> list[JobKey]:
        return self._newest(lambda job: job.provider_ref == ref, limit)

    def by_status(
        self,
        statuses: Sequence[Status],
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        oldest_first: bool = False,
    ) -> Iterator[JobListEntry]:
        entries = [
            JobListEntry(job.job_key, job.since)
            for job in self.store.jobs.values()
            if job.status in statuses
            and job.status in LISTED
            and job.since is not None
            and (since or job.since) <= job.since <= (until or job.since)
        ]
        return iter(sorted(entries, key=lambda one: one.at, reverse=not oldest_first))

    def count(self, statuses: Sequence[Status], *, since: datetime | None, limit: int) -> int:
        return min(limit, len(list(self.by_status(statuses, since=since))))

    def get_many(self, keys: Sequence[JobKey]) -> dict[JobKey, Job | UnreadableRow]:
        return {key: row for key in keys if (row := self._row(key)) is not None}

    def _row(self, key: JobKey) -> Job | UnreadableRow | None:
        try:
            return self.store.get(key)
        except UnreadableRowError as error:
            return UnreadableRow(key, str(error))

    def _newest(self, matches: Callable[[Job], bool], limit: int) -> list[JobKey]:
        jobs = [job for job in self.store.jobs.values() if matches(job)]
        newest = sorted(jobs, key=lambda job: job.created_at, reverse=True)
        return [job.job_key for job in newest[:limit]]
