"""The end of the demo in words that need no knowledge of the code."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from oncely.domain.lifecycle import Status
from oncely_local.log_counts import LogCounts
from oncely_local.observer import LedgerTotals
from oncely_local.verdict import DemoFinalState, DemoVerdict, JobSnapshot

_MAX_SENTENCES = 20
_P90_SHARE = 0.9
# Ids of providers, addresses and amounts, in a reason.
_JOB_SPECIFIC = re.compile(r"\b[a-z]+_[0-9a-f]{8,}\b|\"?http\S+|\b\d+\.\d\d [A-Z]{3}\b")

ReportLine = tuple[int | str | Text, str]
_GAP: ReportLine = ("", "")


@dataclass(frozen=True, kw_only=True)
class RunStats:
    """What the demo did to itself, and how it went."""

    sent: int
    kills: int
    timeouts: int
    sweeps: int
    seconds: float
    p90_seconds: float  # seconds until nine of ten jobs had ended
    peak_memory_bytes: int  # bytes

    def jobs_per_second(self, jobs: int) -> float:
        """Jobs in a second, before the last ones had to wait for leases and schedules."""
        return _P90_SHARE * jobs / self.p90_seconds if self.p90_seconds else 0.0


@dataclass(frozen=True)
class DemoReport:
    """Everything that is told at the end."""

    final_state: DemoFinalState
    verdict: DemoVerdict
    log_counts: LogCounts
    ledger_totals: LedgerTotals
    stats: RunStats

    def render(self) -> RenderableType:
        """The report as a person reads it."""
        parts = [self._numbers_panel()]
        if any(job.status is Status.NEEDS_REVIEW for job in self.final_state.jobs.values()):
            parts.append(self._reviews_panel())
        if not self.verdict.is_kept:
            problems = "\n".join(self._problems())
            parts.append(Panel(Text(problems), title="What is wrong", border_style="red"))
        return Group(*parts, self._verdict_text())

    def _numbers_panel(self) -> RenderableType:
        table = Table.grid(padding=(0, 2))
        table.add_column(justify="right", style="bold")
        table.add_column()
        for number, words in (
            *self._input_lines(),
            _GAP,
            *self._outcome_lines(),
            _GAP,
            *self._speed_lines(),
        ):
            table.add_row(number if isinstance(number, Text) else str(number), words)
        return Panel(table, title="What happened", border_style="blue", expand=False)

    def _input_lines(self) -> list[ReportLine]:
        run, tally, faults = self.stats, self.log_counts, self.ledger_totals.faults
        job_types = Counter(job.job_type for job in self.final_state.jobs.values())
        redelivered = f"{tally.redelivered} of them repeated by the queue"
        sweeps = f"{run.sweeps} sweeps and the schedule's"
        return [
            (
                job_types.total(),
                f"jobs, asked for by {run.sent} messages: {_format_counts(job_types)}",
            ),
            (tally.deliveries, f"deliveries answered, {redelivered}"),
            (
                tally.duplicates,
                f"duplicates recognised: {_format_counts(tally.duplicates_by_reason)}",
            ),
            (tally.rejected, "messages put aside: bad, or in conflict with their order"),
            (run.kills, "worker processes killed at random moments"),
            (run.timeouts, "functions ended at their timeout: an answer that never ended"),
            (faults.total(), f"provider faults: {_format_counts(faults)}"),
            (tally.resolved, f"jobs moved on by the reconciler, in {sweeps}"),
        ]

    def _outcome_lines(self) -> list[ReportLine]:
        totals, verdict = self.ledger_totals, self.verdict
        reviews = sum(job.status is Status.NEEDS_REVIEW for job in self.final_state.jobs.values())
        return [
            (totals.charges, f"charges at the provider, and {totals.declined} declined"),
            (_zero_text(totals.double_charges), "double charges"),
            (totals.mails, "e-mails at the provider"),
            (_zero_text(len(verdict.duplicated)), "things done twice: charges, e-mails, contacts"),
            (_zero_text(len(verdict.lost)), "lost"),
            (_zero_text(len(verdict.unresolved)), "unknown or unfinished left"),
            (
                _zero_text(len(verdict.inconsistent)),
                "times our rows and the provider's books disagree",
            ),
            (_zero_text(len(verdict.not_in_history)), "ended jobs that the history does not show"),
            (reviews, "wait for a person, each with its reason"),
        ]

    def _speed_lines(self) -> list[ReportLine]:
        run = self.stats
        each = f"{run.jobs_per_second(len(self.final_state.jobs)):.1f}"
        p90, last = f"{run.p90_seconds:.0f} s", f"{run.seconds:.0f} s"
        memory = f"{run.peak_memory_bytes / 1e6:.0f} MB"
        return [
            (each, f"jobs per second: nine of ten had ended after {p90}, the last after {last}"),
            (memory, "of memory at the peak: the local AWS, its workers and this demo"),
        ]

    def _reviews_panel(self) -> RenderableType:
        waiting = [j for j in self.final_state.jobs.values() if j.status is Status.NEEDS_REVIEW]
        alike: dict[tuple[str, str], list[str]] = {}
        for job in sorted(waiting, key=lambda one: one.key):
            alike.setdefault((job.job_type, _generalize_reason(job)), []).append(job.key)
        table = Table("", "why a person must look", "such as", box=None, header_style="dim")
        most_first = sorted(alike.items(), key=lambda item: -len(item[1]))
        for (_, reason), keys in most_first[:_MAX_SENTENCES]:
            table.add_row(str(len(keys)), Text(reason), Text(keys[0]))
        if len(alike) > _MAX_SENTENCES:
            table.add_row("", f"… and {len(alike) - _MAX_SENTENCES} more reasons", "")
        return Panel(table, title="Needs review", border_style="yellow", expand=False)

    def _problems(self) -> Iterator[str]:
        verdict = self.verdict
        disagreeing = (verdict.inconsistent, verdict.not_in_history)
        for sentences in (verdict.duplicated, verdict.lost, verdict.unresolved, *disagreeing):
            yield from sentences[:_MAX_SENTENCES]

    def _verdict_text(self) -> RenderableType:
        if self.verdict.is_kept:
            return Text("The promise was kept: many attempts, one real outcome.", "bold green")
        return Text("THE PROMISE WAS BROKEN: see what is wrong above.", "bold red")


def _generalize_reason(job: JobSnapshot) -> str:
    """The reason without what is this job's alone, so that equal reasons can be counted."""
    return _JOB_SPECIFIC.sub("…", re.sub(rf"\b{re.escape(job.subject)}\b", "…", job.reason))


def _zero_text(number: int) -> Text:
    return Text(str(number), "bold red" if number else "bold green")


def _format_counts(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.most_common()) or "none"
