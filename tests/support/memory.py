"""The stores in memory: the same contract suite holds them to what DynamoDB does."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from oncely.domain.jobs import Claim, Job, claimed
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Status
from oncely.domain.writes import LocalWrite
from oncely.ports import (
    Claimed,
    ClaimRefused,
    ClaimResult,
    Created,
    CreateResult,
    Exists,
    LocalRefused,
    Overtaken,
    RequirementUnmet,
    SwapResult,
    Window,
    WindowHeld,
    Written,
)

Row = dict[str, object]


@dataclass
class MemoryRows:
    """Business tables: rows by table and key."""

    rows: dict[tuple[str, tuple[str, ...]], Row] = field(default_factory=dict)

    def put(self, table: str, key: Mapping[str, str], row: Mapping[str, object]) -> None:
        self.rows[table, tuple(key.values())] = {**key, **row}

    def get(self, table: str, key: Mapping[str, str]) -> Row | None:
        row = self.rows.get((table, tuple(key.values())))
        return None if row is None else dict(row)

    def update(self, write: LocalWrite) -> bool:
        if self.refusal(write):
            return False
        self.apply(write)
        return True

    def refusal(self, write: LocalWrite) -> str | None:
        row = self.rows.get((write.table, tuple(write.key.values())))
        if row is None:
            return None if write.may_create and not write.expect else str(write)
        wrong = (expect for expect in write.expect if row.get(expect.name) not in expect.one_of)
        return str(write) if any(wrong) else None

    def apply(self, write: LocalWrite) -> None:
        row = self.rows.setdefault((write.table, tuple(write.key.values())), dict(write.key))
        row.update(write.set)
        for name in write.remove:
            row.pop(name, None)


@dataclass
class MemoryJobStore:
    """Job rows in a dictionary, one write at a time."""

    business: MemoryRows = field(default_factory=MemoryRows)
    jobs: dict[JobKey, Job] = field(default_factory=dict)
    windows: dict[str, tuple[JobKey, Window]] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def get(self, key: JobKey) -> Job | None:
        return self.jobs.get(key)

    def create(self, job: Job) -> CreateResult:
        with self.lock:
            if (row := self.jobs.get(job.job_key)) is not None:
                return Exists(row)
            self.jobs[job.job_key] = job
            return Created(job)

    def claim(self, claim: Claim) -> ClaimResult:
        with self.lock:
            if claim.requires_failed is not None:
                other = self.jobs.get(claim.requires_failed)
                if other is None or other.status is not Status.FAILED:
                    return RequirementUnmet(other)
            row = self.jobs.get(claim.job_key)
            job = claimed(row, claim)
            if job is None:
                assert row is not None, "only a row can refuse a claim"
                return ClaimRefused(row)
            self.jobs[claim.job_key] = job
            return Claimed(job)

    def swap(self, before: Job, after: Job, *, local: Sequence[LocalWrite] = ()) -> SwapResult:
        with self.lock:
            row = self.jobs.get(before.job_key)
            seen = (before.status, before.owner, before.version)
            if row is None or (row.status, row.owner, row.version) != seen:
                return Overtaken(row)
            refusals = [why for write in local if (why := self.business.refusal(write))]
            if refusals:
                return LocalRefused(", ".join(refusals))
            for write in local:
                self.business.apply(write)
            self.jobs[before.job_key] = after
            return Written(after)

    def expire(self, key: JobKey) -> None:
        """Remove a row as TTL does."""
        del self.jobs[key]


@dataclass
class MemoryWindows:
    """Unique windows beside a memory store."""

    store: MemoryJobStore

    def create(
        self, job: Job, window: Window, *, instead_of: JobKey | None = None
    ) -> CreateResult | WindowHeld:
        with self.store.lock:
            if (row := self.store.get(job.job_key)) is not None:
                return Exists(row)
            holder = self.store.windows.get(window.name)
            if (
                holder
                and holder[1].until > window.now
                and holder[0] not in (job.job_key, instead_of)
            ):
                return WindowHeld(holder[0])
            self.store.windows[window.name] = (job.job_key, window)
            return self.store.create(job)
