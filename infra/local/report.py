"""The end of the demo in words that need no knowledge of the code."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from infra.local.observer import Books
from infra.local.tally import Tally
from infra.local.verdict import Facts, JobSeen, Verdict
from oncely.domain.lifecycle import Status

_MOST_SENTENCES = 20
_NINE_OF_TEN = 0.9
# Ids of providers, addresses and amounts, in a reason.
_OWN = re.compile(r"\b[a-z]+_[0-9a-f]{8,}\b|\"?http\S+|\b\d+\.\d\d [A-Z]{3}\b")

Line = tuple[int | str | Text, str]
_GAP: Line = ("", "")


@dataclass(frozen=True, kw_only=True)
class Run:
    """What the demo did to itself, and how it went."""

    sent: int
    kills: int
    timeouts: int
    sweeps: int
    seconds: float
    most_ended_after: float  # seconds until nine of ten jobs had ended
    peak_memory: int  # bytes

    def per_second(self, jobs: int) -> float:
        """Jobs in a second, before the last ones had to wait for leases and schedules."""
        return _NINE_OF_TEN * jobs / self.most_ended_after if self.most_ended_after else 0.0


@dataclass(frozen=True)
class Report:
    """Everything that is told at the end."""

    facts: Facts
    verdict: Verdict
    tally: Tally
    books: Books
    run: Run

    def render(self) -> RenderableType:
        """The report as a person reads it."""
        parts = [self._numbers()]
        if any(job.status is Status.NEEDS_REVIEW for job in self.facts.jobs.values()):
            parts.append(self._reviews())
        if not self.verdict.kept:
            wrong = "\n".join(self._sentences())
            parts.append(Panel(Text(wrong), title="What is wrong", border_style="red"))
        return Group(*parts, self._promise())

    def _numbers(self) -> RenderableType:
        table = Table.grid(padding=(0, 2))
        table.add_column(justify="right", style="bold")
        table.add_column()
        for number, words in (
            *self._what_went_in(),
            _GAP,
            *self._what_came_out(),
            _GAP,
            *self._speed(),
        ):
            table.add_row(number if isinstance(number, Text) else str(number), words)
        return Panel(table, title="What happened", border_style="blue", expand=False)

    def _what_went_in(self) -> list[Line]:
        run, tally, faults = self.run, self.tally, self.books.faults
        kinds = Counter(job.job_type for job in self.facts.jobs.values())
        again = f"{tally.delivered_again} of them repeated by the queue"
        sweeps = f"{run.sweeps} sweeps and the schedule's"
        return [
            (kinds.total(), f"jobs, asked for by {run.sent} messages: {_listed(kinds)}"),
            (tally.deliveries, f"deliveries answered, {again}"),
            (tally.duplicates, f"duplicates recognised: {_listed(tally.recognised)}"),
            (tally.rejected, "messages put aside: bad, or in conflict with their order"),
            (run.kills, "worker processes killed at random moments"),
            (run.timeouts, "functions ended at their timeout: an answer that never ended"),
            (faults.total(), f"provider faults: {_listed(faults)}"),
            (tally.resolved, f"jobs moved on by the reconciler, in {sweeps}"),
        ]

    def _what_came_out(self) -> list[Line]:
        books, verdict = self.books, self.verdict
        reviews = sum(job.status is Status.NEEDS_REVIEW for job in self.facts.jobs.values())
        return [
            (books.charges, f"charges at the provider, and {books.declined} declined"),
            (_zero(books.double_charges), "double charges"),
            (books.mails, "e-mails at the provider"),
            (_zero(len(verdict.doubled)), "things done twice: charges, e-mails, contacts"),
            (_zero(len(verdict.lost)), "lost"),
            (_zero(len(verdict.unresolved)), "unknown or unfinished left"),
            (_zero(len(verdict.disagreeing)), "times our rows and the provider's books disagree"),
            (_zero(len(verdict.not_in_history)), "ended jobs that the history does not show"),
            (reviews, "wait for a person, each with its reason"),
        ]

    def _speed(self) -> list[Line]:
        run = self.run
        each = f"{run.per_second(len(self.facts.jobs)):.1f}"
        most, last = f"{run.most_ended_after:.0f} s", f"{run.seconds:.0f} s"
        memory = f"{run.peak_memory / 1e6:.0f} MB"
        return [
            (each, f"jobs per second: nine of ten had ended after {most}, the last after {last}"),
            (memory, "of memory at the peak: the local AWS, its workers and this demo"),
        ]

    def _reviews(self) -> RenderableType:
        waiting = [j for j in self.facts.jobs.values() if j.status is Status.NEEDS_REVIEW]
        alike: dict[tuple[str, str], list[str]] = {}
        for job in sorted(waiting, key=lambda one: one.key):
            alike.setdefault((job.job_type, _in_general(job)), []).append(job.key)
        table = Table("", "why a person must look", "such as", box=None, header_style="dim")
        most_first = sorted(alike.items(), key=lambda item: -len(item[1]))
        for (_, reason), keys in most_first[:_MOST_SENTENCES]:
            table.add_row(str(len(keys)), Text(reason), Text(keys[0]))
        if len(alike) > _MOST_SENTENCES:
            table.add_row("", f"… and {len(alike) - _MOST_SENTENCES} more reasons", "")
        return Panel(table, title="Needs review", border_style="yellow", expand=False)

    def _sentences(self) -> Iterator[str]:
        verdict = self.verdict
        disagreeing = (verdict.disagreeing, verdict.not_in_history)
        for sentences in (verdict.doubled, verdict.lost, verdict.unresolved, *disagreeing):
            yield from sentences[:_MOST_SENTENCES]

    def _promise(self) -> RenderableType:
        if self.verdict.kept:
            return Text("The promise was kept: many attempts, one real outcome.", "bold green")
        return Text("THE PROMISE WAS BROKEN: see what is wrong above.", "bold red")


def _in_general(job: JobSeen) -> str:
    """The reason without what is this job's alone, so that equal reasons can be counted."""
    return _OWN.sub("…", re.sub(rf"\b{re.escape(job.subject)}\b", "…", job.reason))


def _zero(number: int) -> Text:
    return Text(str(number), "bold red" if number else "bold green")


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.most_common()) or "none"
