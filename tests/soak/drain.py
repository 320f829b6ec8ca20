"""After the faults: deliver and reconcile until nothing is left to do.

No other process runs, so the clock jumps to the next due time instead of waiting.
"""

import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from oncely.core.job_row import JobRow
from oncely.core.lifecycle import UNRESOLVED
from oncely.core.row_items import deserialize_job
from oncely_local.observer import Observer
from oncely_local.verdict import find_missing_receipts
from oncely_local.workload import Workload
from tests.soak.environment import QUEUES, VISIBILITY_SECONDS, SoakEnvironment
from tests.soak.services import SkewedClock, SoakServices

# Every message is visible again by then, so nothing more will happen.
IDLE_TIMEOUT_SECONDS: Final = 2.0 * VISIBILITY_SECONDS
# Less than the age limit of jobs.
MAX_CLOCK_ADVANCE: Final = timedelta(hours=20)


@dataclass
class Drain:
    environment: SoakEnvironment
    workload: Workload
    clock: SkewedClock = field(default_factory=SkewedClock)
    counts: Counter[str] = field(default_factory=Counter)

    def run(self) -> bool:
        parts = SoakServices(self.clock)
        until = time.monotonic() + IDLE_TIMEOUT_SECONDS
        while (
            time.monotonic() < until
            and self.clock.offset_seconds < MAX_CLOCK_ADVANCE.total_seconds()
        ):
            if self._run_round(parts):
                until = time.monotonic() + IDLE_TIMEOUT_SECONDS
                continue
            rows = self.rows()
            if self._is_drained(rows):
                return True
            if not self._advance_clock(rows):
                time.sleep(1)  # only a message that is still invisible is left
        return False

    def rows(self) -> list[JobRow]:
        stack = self.environment.stack
        pages = stack.account.client("dynamodb").get_paginator("scan")
        found = pages.paginate(TableName=stack.outputs["JobsTableName"], ConsistentRead=True)
        return [deserialize_job(row) for page in found for row in page["Items"] if "status" in row]

    def _run_round(self, parts: SoakServices) -> int:
        round_: Counter[str] = Counter()
        for queue in QUEUES:
            round_ += parts.process_batch(queue, wait=0)
        round_ += parts.sweep()
        round_ += parts.handle_leftovers()
        self.counts += round_
        return round_.total()

    def _is_drained(self, rows: list[JobRow]) -> bool:
        observer = Observer(self.environment.stack)
        seen = observer.jobs()
        return (
            self.workload.jobs.keys() <= seen.keys()
            and not any(find_missing_receipts(seen))
            and not any(row.status in UNRESOLVED or row.due_at for row in rows)
            and {one.body for one in self.workload.invalid} <= set(observer.rejects())
        )

    def _advance_clock(self, rows: list[JobRow]) -> bool:
        """Advance to the next due time. Returns False if there is none."""
        due = min((row.due_at for row in rows if row.due_at), default=None)
        if due is None:
            return False
        wait = due - self.clock.now() + timedelta(milliseconds=10)
        if wait > timedelta(0):
            self.clock.offset_seconds += wait.total_seconds()
            self.counts["clock moved on"] += 1
        return True
