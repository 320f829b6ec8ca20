"""After the storm: everything is delivered and reconciled until nothing is left to happen.

Nobody else is alive, so the clock may jump to the next due time instead of being waited for.
"""

import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from infra.local.observer import Observer
from infra.local.verdict import receipts_missing
from infra.local.workload import Workload
from oncely.adapters.job_rows import from_attributes
from oncely.domain.jobs import Job
from oncely.domain.lifecycle import UNRESOLVED
from tests.soak.ground import QUEUES, VISIBILITY, Ground
from tests.soak.parts import MovedClock, Parts

# Every message is visible again by then, so nothing will happen any more.
PATIENCE: Final = 2.0 * VISIBILITY
# Less than the age at which jobs are given up.
FARTHEST: Final = timedelta(hours=20)


@dataclass
class Settling:
    """Brings a soak to rest."""

    ground: Ground
    workload: Workload
    clock: MovedClock = field(default_factory=MovedClock)
    done: Counter[str] = field(default_factory=Counter)

    def settle(self) -> bool:
        """Whether all came to rest."""
        parts = Parts(self.clock)
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and self.clock.seconds < FARTHEST.total_seconds():
            if self._round(parts):
                until = time.monotonic() + PATIENCE
                continue
            rows = self.rows()
            if self._rests(rows):
                return True
            if not self._jump(rows):
                time.sleep(1)  # only a message that is still invisible is left
        return False

    def rows(self) -> list[Job]:
        """Every job as it stands."""
        stack = self.ground.stack
        pages = stack.account.client("dynamodb").get_paginator("scan")
        found = pages.paginate(TableName=stack.outputs["JobsTableName"], ConsistentRead=True)
        return [from_attributes(row) for page in found for row in page["Items"] if "status" in row]

    def _round(self, parts: Parts) -> int:
        round_: Counter[str] = Counter()
        for queue in QUEUES:
            round_ += parts.work(queue, wait=0)
        round_ += parts.sweep()
        round_ += parts.clear_up()
        self.done += round_
        return round_.total()

    def _rests(self, rows: list[Job]) -> bool:
        observer = Observer(self.ground.stack)
        seen = observer.jobs()
        return (
            self.workload.jobs.keys() <= seen.keys()
            and not any(receipts_missing(seen))
            and not any(row.status in UNRESOLVED or row.due_at for row in rows)
            and {one.body for one in self.workload.wrong} <= set(observer.rejects())
        )

    def _jump(self, rows: list[Job]) -> bool:
        """Let the time pass until something is due; False: nothing ever will be."""
        due = min((row.due_at for row in rows if row.due_at), default=None)
        if due is None:
            return False
        wait = due - self.clock.now() + timedelta(milliseconds=10)
        if wait > timedelta(0):
            self.clock.seconds += wait.total_seconds()
            self.done["clock moved on"] += 1
        return True
