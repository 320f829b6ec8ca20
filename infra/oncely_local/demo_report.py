"""What the demo prints: its progress, and the report at the end."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from oncely.core.lifecycle import ENDED, IN_REVIEW, UNRESOLVED, Status
from oncely.testing.sandbox import EffectState
from oncely_local.logs import LogCounts
from oncely_local.observer import LedgerTotals, QueueDepth
from oncely_local.verdict import DemoFinalState, DemoVerdict, JobSnapshot

# In the order of the life cycle.
_COLORS = dict(
    zip(Status, ("white", "cyan", "yellow", "green", "magenta", "blue", "red"), strict=True)
)
_MAX_SENTENCES = 20
_P90_SHARE = 0.9
# Provider ids, addresses and amounts in a reason.
_JOB_SPECIFIC = re.compile(r"\b[a-z]+_[0-9a-f]{8,}\b|\"?http\S+|\b\d+\.\d\d [A-Z]{3}\b")

ReportLine = tuple[int | str | Text, str]
_GAP: ReportLine = ("", "")


@dataclass(frozen=True, kw_only=True)
class DemoSnapshot:
    """The state of the demo at one moment."""

    seconds: float
    phase: str
    sent: int
    kills: int = 0
    sweeps: int = 0
    memory_bytes: int = 0
    depths: Mapping[str, QueueDepth] = field(default_factory=dict)
    jobs: Mapping[str, JobSnapshot] = field(default_factory=dict)
    ledger_totals: LedgerTotals = field(default_factory=LedgerTotals)

    @property
    def ended(self) -> int:
        known = ENDED | IN_REVIEW
        return sum(job.status in known for job in self.jobs.values())

    @property
    def unresolved(self) -> int:
        return sum(job.status in UNRESOLVED for job in self.jobs.values())

    @property
    def statuses(self) -> Counter[Status]:
        return Counter(job.status for job in self.jobs.values())

    @property
    def waiting(self) -> int:
        return sum(depth.waiting for depth in self.depths.values())


def render_line(view: DemoSnapshot) -> str:
    """Render a snapshot as one line."""
    statuses = view.statuses
    status_text = ", ".join(f"{statuses[one]} {one}" for one in Status if statuses[one])
    waiting = sum(depth.waiting + depth.in_flight for depth in view.depths.values())
    return (
        f"{view.seconds:5.0f} s  {view.phase}: {view.sent} sent, {waiting} in queues; "
        f"{status_text or 'no jobs yet'}; {_format_effects(view.ledger_totals)}, "
        f"{view.ledger_totals.doubles.total()} double, {view.kills} kills"
    )


def render_tables(view: DemoSnapshot) -> RenderableType:
    """Render a snapshot as tables."""
    head = Text.assemble(
        (f" {view.seconds:4.0f} s ", "bold reverse"),
        f"  {view.phase}: {view.sent} messages sent, ",
        (f"{view.kills} workers killed", "red" if view.kills else ""),
    )
    foot = (
        f"{view.ledger_totals.faults.total()} provider faults, {view.sweeps} extra sweeps, "
        f"{view.memory_bytes / 1e6:.0f} MB of memory"
    )
    beside = Table.grid(padding=(0, 1))
    beside.add_row(_queue_table(view.depths), _ledger_table(view.ledger_totals))
    return Group(head, _job_table(view.jobs), beside, Text(foot, "dim"))


def _queue_table(depths: Mapping[str, QueueDepth]) -> RenderableType:
    table = Table("queue", box=None)
    for title in ("waiting", "in flight", "delayed"):
        table.add_column(title, justify="right")
    for name, depth in depths.items():
        table.add_row(name, *(str(n) for n in (depth.waiting, depth.in_flight, depth.delayed)))
    return Panel(table, title="queues", border_style="dim")


def _job_table(jobs: Mapping[str, JobSnapshot]) -> RenderableType:
    counts = Counter((job.job_type, job.status) for job in jobs.values())
    table = Table("job", box=None)
    shown = [one for one in Status if not one.is_cancelled]  # the demo cancels nothing
    for status in shown:
        table.add_column(status.replace("_", " "), style=_COLORS[status], justify="right")
    for job_type in sorted({job.job_type for job in jobs.values()}):
        table.add_row(job_type, *(str(counts[job_type, status] or "·") for status in shown))
    return Panel(table, title="jobs", border_style="dim", expand=False)


def _ledger_table(totals: LedgerTotals) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    for kind in totals.kinds:
        table.add_row(kind, str(totals.done(kind)))
    table.add_row("done twice", _zero_text(totals.doubles.total()))
    for state in (EffectState.DECLINED, EffectState.PENDING):
        table.add_row(state, str(totals.count(state)))
    return Panel(table, title="providers' ledgers", border_style="dim")


@dataclass(frozen=True, kw_only=True)
class DemoReport:
    """The report at the end."""

    final_state: DemoFinalState
    verdict: DemoVerdict
    log_counts: LogCounts
    last: DemoSnapshot
    timeouts: int  # functions stopped at theirs
    p90_seconds: float  # until 90 % of the jobs had ended
    peak_memory_bytes: int

    def render(self) -> RenderableType:
        parts = [self._numbers_panel()]
        if any(job.status in IN_REVIEW for job in self.final_state.jobs.values()):
            parts.append(self._reviews_panel())
        if self.verdict.is_kept:
            end = Text("Every guarantee held: many attempts, one real outcome.", "bold green")
            return Group(*parts, end)
        problems = "\n".join(self._problems())
        parts.append(Panel(Text(problems), title="Violations", border_style="red"))
        return Group(*parts, Text("GUARANTEE VIOLATED: see the violations above.", "bold red"))

    def _numbers_panel(self) -> RenderableType:
        table = Table.grid(padding=(0, 2))
        table.add_column(justify="right", style="bold")
        table.add_column()
        lines = [*self._input_lines(), _GAP, *self._outcome_lines(), _GAP, *self._speed_lines()]
        for number, words in lines:
            table.add_row(number if isinstance(number, Text) else str(number), words)
        return Panel(table, title="Results", border_style="blue", expand=False)

    def _input_lines(self) -> list[ReportLine]:
        run, tally, faults = self.last, self.log_counts, self.last.ledger_totals.faults
        job_types = Counter(job.job_type for job in self.final_state.jobs.values())
        duplicates = _format_counts(tally.duplicates)
        return [
            (job_types.total(), f"jobs from {run.sent} messages: {_format_counts(job_types)}"),
            (
                tally.deliveries,
                f"deliveries processed, {tally.redelivered} of them redelivered by the queue",
            ),
            (tally.duplicates.total(), f"duplicates detected: {duplicates}"),
            (tally.rejected, "messages rejected: invalid, or in conflict with their order"),
            (run.kills, "worker processes killed at random times"),
            (self.timeouts, "functions stopped at their timeout, during an endless response"),
            (faults.total(), f"provider faults: {_format_counts(faults)}"),
            (tally.resolved, f"jobs resolved by the reconciler, with {run.sweeps} extra sweeps"),
        ]

    def _outcome_lines(self) -> list[ReportLine]:
        totals, verdict = self.last.ledger_totals, self.verdict
        reviews = sum(job.status in IN_REVIEW for job in self.final_state.jobs.values())
        return [
            *(line for kind in totals.kinds for line in _effect_lines(kind, totals)),
            (_zero_text(len(verdict.lost)), "jobs or messages lost"),
            (_zero_text(len(verdict.unresolved)), "jobs left unknown or unfinished"),
            (
                _zero_text(len(verdict.inconsistent)),
                "differences between the job table and the ledgers",
            ),
            (_zero_text(len(verdict.not_in_history)), "ended jobs missing from the history"),
            (
                _zero_text(len(verdict.broken_rules)),
                "rules of the life cycle broken in the history",
            ),
            (reviews, "jobs need review, with a reason for each"),
        ]

    def _speed_lines(self) -> list[ReportLine]:
        # Of the first 90 %: the last jobs wait for leases and schedules.
        first = _P90_SHARE * len(self.final_state.jobs)
        rate = f"{first / self.p90_seconds if self.p90_seconds else 0.0:.1f}"
        p90, last = f"{self.p90_seconds:.0f} s", f"{self.last.seconds:.0f} s"
        memory = f"{self.peak_memory_bytes / 1e6:.0f} MB"
        return [
            (rate, f"jobs per second: 90 % ended after {p90}, the last after {last}"),
            (memory, "peak memory: the local AWS, its workers and this demo"),
        ]

    def _reviews_panel(self) -> RenderableType:
        waiting = [j for j in self.final_state.jobs.values() if j.status in IN_REVIEW]
        alike: dict[tuple[str, str], list[str]] = {}
        for job in sorted(waiting, key=lambda one: one.key):
            alike.setdefault((job.job_type, _generalize_reason(job)), []).append(job.key)
        table = Table("", "reason", "example", box=None, header_style="dim")
        most_first = sorted(alike.items(), key=lambda item: -len(item[1]))
        for (_, reason), keys in most_first[:_MAX_SENTENCES]:
            table.add_row(str(len(keys)), Text(reason), Text(keys[0]))
        if len(alike) > _MAX_SENTENCES:
            table.add_row("", f"… and {len(alike) - _MAX_SENTENCES} more reasons", "")
        return Panel(table, title="Needs review", border_style="yellow", expand=False)

    def _problems(self) -> Iterator[str]:
        for sentences in self.verdict.violations:
            yield from sentences[:_MAX_SENTENCES]


def _generalize_reason(job: JobSnapshot) -> str:
    """Remove job-specific values from the reason, so that equal reasons can be counted."""
    return _JOB_SPECIFIC.sub("…", re.sub(rf"\b{re.escape(job.subject)}\b", "…", job.reason))


def _effect_lines(kind: str, totals: LedgerTotals) -> tuple[ReportLine, ReportLine]:
    declined = totals.effects[kind, EffectState.DECLINED]
    done = f"{kind} at the provider" + (f", {declined} declined" if declined else "")
    return (totals.done(kind), done), (_zero_text(totals.doubles[kind]), f"double {kind}")


def _format_effects(totals: LedgerTotals) -> str:
    return ", ".join(f"{totals.done(kind)} {kind}" for kind in totals.kinds) or "no effects yet"


def _zero_text(number: int) -> Text:
    return Text(str(number), "bold red" if number else "bold green")


def _format_counts(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.most_common()) or "none"
