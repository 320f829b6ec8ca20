"""Preview: ports that answer like the real ones, but neither write nor send.

A dry run is the repair itself over these ports, so it says what the repair would say.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from oncely.domain.claims import Claim
from oncely.domain.effect_outcomes import BusinessWrite
from oncely.domain.errors import InvariantError
from oncely.domain.event_records import EventRecord
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.enqueue.enqueuer import Enqueuer
from oncely.ports import (
    AlreadyExists,
    BusinessTable,
    BusinessWriteConflict,
    ClaimResult,
    Created,
    CreateResult,
    ForgedRow,
    JobStore,
    Swapped,
    SwapResult,
    UniqueWindow,
    VersionConflict,
    WindowTaken,
)
from oncely.reconcile.reconciler import Reconciler


@dataclass(frozen=True)
class PreviewStore:
    """A job store whose writes stay in memory. It reads the business rows to find conflicts."""

    store: JobStore
    table: Callable[[str], BusinessTable]
    written: dict[JobKey, Job] = field(default_factory=dict)

    def get(self, key: JobKey) -> Job | None:
        return self.written.get(key) or self.store.get(key)

    def create(self, job: Job, *, replacing: ForgedRow | None = None) -> CreateResult:
        del replacing  # only workers replace a row
        if row := self.get(job.job_key):
            return AlreadyExists(row)
        self.written[job.job_key] = job
        return Created(job)

    def hint(self, key: JobKey, *, deployment: str | None, now: datetime) -> bool:
        del key, deployment, now
        raise InvariantError("a preview receives no events")

    def save_event(self, row: Job, event: EventRecord) -> bool:
        del row, event
        raise InvariantError("a preview receives no events")

    def claim(self, claim: Claim) -> ClaimResult:
        raise InvariantError(f"a preview cannot claim {claim.job_key}")

    def compare_and_swap(
        self, before: Job, after: Job, *, business_writes: Sequence[BusinessWrite] = ()
    ) -> SwapResult:
        row = self.get(before.job_key)
        if row is None or row.version != before.version:
            return VersionConflict(row)
        conflicts = [
            str(one)
            for one in business_writes
            if not one.applies_to(self.table(one.table).get(one.key))
        ]
        if conflicts:
            return BusinessWriteConflict(", ".join(conflicts))
        self.written[after.job_key] = after
        return Swapped(after)

    def insert(self, job: Job) -> CreateResult:
        return self.create(job)

    def insert_unique(
        self, job: Job, window: UniqueWindow, *, replacing: JobKey | None = None
    ) -> CreateResult | WindowTaken:
        del window, replacing
        return self.create(job)


class _PreviewSender:
    """Accepts every message and sends none."""

    def send(self, bodies: Sequence[str], *, groups: Sequence[str | None] = ()) -> list[bool]:
        del groups
        return [True for _ in bodies]


def preview_ports(reconciler: Reconciler, enqueuer: Enqueuer) -> tuple[Reconciler, Enqueuer]:
    """The same services, which change nothing."""
    store = PreviewStore(reconciler.store, reconciler.dependencies.table)

    def sender(_queue: str) -> _PreviewSender:
        return _PreviewSender()

    return (
        replace(reconciler, store=store, sender_for_queue=sender),
        replace(enqueuer, store=store, inserter=store, sender_for_queue=sender),
    )
