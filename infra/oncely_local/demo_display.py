"""The demo while it runs: a table that moves on a terminal, a line now and then elsewhere."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from oncely.domain.lifecycle import ENDED, UNRESOLVED, Status
from oncely.jobs import CONTRACTS
from oncely_local.observer import LedgerTotals, QueueDepth
from oncely_local.verdict import JobSnapshot

_COLORS = {
    Status.READY: "white",
    Status.STARTED: "cyan",
    Status.UNKNOWN: "yellow",
    Status.FINISHED: "green",
    Status.FAILED: "magenta",
    Status.NEEDS_REVIEW: "red",
}


@dataclass(frozen=True, kw_only=True)
class DemoSnapshot:
    """One moment of the demo."""

    seconds: float
    phase: str
    sent: int
    kills: int = 0
    sweeps: int = 0
    memory_bytes: int = 0  # bytes
    depths: Mapping[str, QueueDepth] = field(default_factory=dict)
    jobs: Mapping[str, JobSnapshot] = field(default_factory=dict)
    ledger_totals: LedgerTotals = field(default_factory=LedgerTotals)

    @property
    def ended(self) -> int:
        """Jobs that have come to an end, or to a person."""
        known = {*ENDED, Status.NEEDS_REVIEW}
        return sum(job.status in known for job in self.jobs.values())

    @property
    def unresolved(self) -> int:
        """Jobs that have not."""
        return sum(job.status in UNRESOLVED for job in self.jobs.values())

    @property
    def statuses(self) -> Counter[Status]:
        """How many jobs are where."""
        return Counter(job.status for job in self.jobs.values())

    @property
    def waiting(self) -> int:
        """Messages that nobody has received yet."""
        return sum(depth.waiting for depth in self.depths.values())


def render_line(view: DemoSnapshot) -> str:
    """The moment in one line."""
    statuses = view.statuses
    status_text = ", ".join(f"{statuses[one]} {one}" for one in Status if statuses[one])
    waiting = sum(depth.waiting + depth.in_flight for depth in view.depths.values())
    return (
        f"{view.seconds:5.0f} s  {view.phase}: {view.sent} sent, {waiting} in queues; "
        f"{status_text or 'no jobs yet'}; {view.ledger_totals.charges} charges, "
        f"{view.ledger_totals.double_charges} double, {view.kills} kills"
    )


def render_tables(view: DemoSnapshot) -> RenderableType:
    """The moment as tables."""
    head = Text.assemble(
        (f" {view.seconds:4.0f} s ", "bold reverse"),
        f"  {view.phase}: {view.sent} messages sent, ",
        (f"{view.kills} workers killed", "red" if view.kills else ""),
    )
    foot = (
        f"{view.ledger_totals.faults.total()} provider faults, {view.sweeps} sweeps started by "
        f"hand, {view.memory_bytes / 1e6:.0f} MB of memory"
    )
    beside = Table.grid(padding=(0, 1))
    beside.add_row(_queue_table(view.depths), _ledger_table(view.ledger_totals))
    return Group(head, _job_table(view.jobs), beside, Text(foot, "dim"))


def _queue_table(depths: Mapping[str, QueueDepth]) -> RenderableType:
    table = Table("queue", box=None)
    for title in ("waiting", "in flight", "later"):
        table.add_column(title, justify="right")
    for name, depth in depths.items():
        table.add_row(name, *(str(n) for n in (depth.waiting, depth.in_flight, depth.delayed)))
    return Panel(table, title="queues", border_style="dim")


def _job_table(jobs: Mapping[str, JobSnapshot]) -> RenderableType:
    counts = Counter((job.job_type, job.status) for job in jobs.values())
    table = Table("job", box=None)
    for status in Status:
        table.add_column(status.replace("_", " "), style=_COLORS[status], justify="right")
    for job_type in sorted(contract.job_type for contract in CONTRACTS):
        table.add_row(job_type, *(str(counts[job_type, status] or "·") for status in Status))
    return Panel(table, title="jobs", border_style="dim", expand=False)


def _ledger_table(totals: LedgerTotals) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    table.add_row("charges", str(totals.charges))
    table.add_row(
        "double charges", Text(str(totals.double_charges), _zero_style(totals.double_charges))
    )
    table.add_row("declined", str(totals.declined))
    table.add_row("processing", str(totals.processing))
    table.add_row("e-mails", str(totals.mails))
    table.add_row("contacts written", str(totals.contacts_written))
    return Panel(table, title="providers' ledger", border_style="dim")


def _zero_style(number: int) -> str:
    return "bold red" if number else "bold green"
