"""The report of a soak: both ledgers, the injected faults, and the verdict."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from oncely.core.job_row import JobRow
from oncely.core.lifecycle import ENDED, Status
from oncely.history.checker import check_history
from oncely_local.observer import LedgerTotals
from oncely_local.verdict import PAYMENT, DemoFinalState, DemoVerdict, evaluate
from tests.soak.stream_history import StreamLines

# What the processes write while the engine ends. With more missing, little was checked.
MAX_LOST_PER_RESTART: Final = 50


@dataclass(frozen=True, kw_only=True)
class SoakReport:
    seed: int
    minutes: float
    sent: int
    restarts: int
    is_drained: bool
    process_counts: Counter[str]
    reported_counts: Counter[str]
    drain_counts: Counter[str]
    facts: DemoFinalState
    rows: Sequence[JobRow]
    history: StreamLines
    totals: LedgerTotals

    @property
    def violations(self) -> list[str]:
        """The violations as sentences. Empty if every guarantee held."""
        verdict: DemoVerdict = evaluate(self.facts)
        return [
            *verdict.duplicated,
            *verdict.lost,
            *verdict.unresolved,
            *verdict.inconsistent,
            *(f"{key} ended and still owes something" for key in verdict.unpublished),
            *self._evidence_violations(),
            *self._history_violations(),
            *([] if self.is_drained else ["it never came to rest"]),
        ]

    def lines(self) -> Iterator[str]:
        statuses = Counter(str(row.status) for row in self.rows)
        in_review = (row for row in self.rows if row.status is Status.NEEDS_REVIEW)
        reviews = Counter(row.last_error or "" for row in in_review)
        yield f"soak of {self.minutes:g} minutes, seed {self.seed}"
        yield f"  sent         {self.sent} messages for {len(self.facts.requested)} jobs"
        processes = _format_counts(self.process_counts)
        yield f"  processes    {processes}; engine restarted {self.restarts} times"
        yield f"  faults       {_format_counts(self.totals.faults)}"
        yield f"  in the storm {_format_counts(self.reported_counts)}"
        yield f"  afterwards   {_format_counts(self.drain_counts)}"
        yield f"  rows         {len(self.rows)}: {_format_counts(statuses)}"
        read = f"{self.history.writes} writes in the stream, {self.history.lost} lost in restarts"
        yield f"  history      {len(self.history.lines)} lines checked: {read}"
        done = Counter({kind: self.totals.done(kind) for kind in self.totals.kinds})
        yield f"  providers    {_format_counts(done)}"
        for reason, times in reviews.most_common(8):
            yield f"  review       {times} times {reason[:110]}"
        yield "the promise was kept" if not self.violations else "THE PROMISE IS BROKEN"
        yield from (f"  {wrong}" for wrong in self.violations[:40])

    def _evidence_violations(self) -> Iterator[str]:
        # A refund that voids a charge has its reference.
        made = {one.reference: one.key for one in self.facts.effects if one.kind == "charges"}
        for row in self.rows:
            if row.job_type == PAYMENT and row.status is Status.FINISHED:
                charge = str((row.result or {}).get("charge_id"))
                if made.get(charge) != row.job_key:
                    yield f"{row.job_key} names the charge {charge}, which is not its own"
            if row.status in ENDED and row.evidence[-1].to_status is not row.status:
                yield f"{row.job_key} is {row.status}, and its history ends otherwise"

    def _history_violations(self) -> Iterator[str]:
        yield from (f"{found} ({found.rule})" for found in check_history(self.history.lines))
        if not 0 <= self.history.lost <= MAX_LOST_PER_RESTART * self.restarts:
            read, made = self.history.writes, self.history.writes + self.history.lost
            yield f"the stream has {read} of {made} writes, after {self.restarts} restarts"


def _format_counts(counts: Counter[str]) -> str:
    return ", ".join(f"{times} {what}" for what, times in counts.most_common()) or "nothing"


def print_lines(lines: Iterable[str]) -> int:
    """Print each line as it comes. Returns the exit code: 1 if a guarantee was violated."""
    violated = False
    for line in lines:
        violated |= line.startswith("VIOLATED")
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    return int(violated)
