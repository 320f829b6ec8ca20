"""The demo while it runs: a table that moves on a terminal, a line now and then elsewhere."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from infra.local.observer import Books, Depth
from infra.local.verdict import JobSeen
from oncely.contracts import CONTRACTS
from oncely.domain.lifecycle import ENDED, UNRESOLVED, Status

_COLOURS = {
    Status.READY: "white",
    Status.STARTED: "cyan",
    Status.UNKNOWN: "yellow",
    Status.FINISHED: "green",
    Status.FAILED: "magenta",
    Status.NEEDS_REVIEW: "red",
}


@dataclass(frozen=True, kw_only=True)
class View:
    """One moment of the demo."""

    seconds: float
    doing: str
    sent: int
    kills: int = 0
    sweeps: int = 0
    memory: int = 0  # bytes
    depths: Mapping[str, Depth] = field(default_factory=dict)
    jobs: Mapping[str, JobSeen] = field(default_factory=dict)
    books: Books = field(default_factory=Books)

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


def as_line(view: View) -> str:
    """The moment in one line."""
    statuses = view.statuses
    told = ", ".join(f"{statuses[one]} {one}" for one in Status if statuses[one])
    waiting = sum(depth.waiting + depth.in_flight for depth in view.depths.values())
    return (
        f"{view.seconds:5.0f} s  {view.doing}: {view.sent} sent, {waiting} in queues; "
        f"{told or 'no jobs yet'}; {view.books.charges} charges, "
        f"{view.books.double_charges} double, {view.kills} kills"
    )


def as_tables(view: View) -> RenderableType:
    """The moment as tables."""
    head = Text.assemble(
        (f" {view.seconds:4.0f} s ", "bold reverse"),
        f"  {view.doing}: {view.sent} messages sent, ",
        (f"{view.kills} workers killed", "red" if view.kills else ""),
    )
    foot = (
        f"{view.books.faults.total()} provider faults, {view.sweeps} sweeps started by hand, "
        f"{view.memory / 1e6:.0f} MB of memory"
    )
    beside = Table.grid(padding=(0, 1))
    beside.add_row(_queues(view.depths), _books(view.books))
    return Group(head, _jobs(view.jobs), beside, Text(foot, "dim"))


def _queues(depths: Mapping[str, Depth]) -> RenderableType:
    table = Table("queue", box=None)
    for title in ("waiting", "in flight", "later"):
        table.add_column(title, justify="right")
    for name, depth in depths.items():
        table.add_row(name, *(str(n) for n in (depth.waiting, depth.in_flight, depth.delayed)))
    return Panel(table, title="queues", border_style="dim")


def _jobs(jobs: Mapping[str, JobSeen]) -> RenderableType:
    counts = Counter((job.job_type, job.status) for job in jobs.values())
    table = Table("job", box=None)
    for status in Status:
        table.add_column(status.replace("_", " "), style=_COLOURS[status], justify="right")
    for kind in sorted(contract.job_type for contract in CONTRACTS):
        table.add_row(kind, *(str(counts[kind, status] or "·") for status in Status))
    return Panel(table, title="jobs", border_style="dim", expand=False)


def _books(books: Books) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    table.add_row("charges", str(books.charges))
    table.add_row("double charges", Text(str(books.double_charges), _good(books.double_charges)))
    table.add_row("declined", str(books.declined))
    table.add_row("processing", str(books.processing))
    table.add_row("e-mails", str(books.mails))
    table.add_row("contacts written", str(books.contacts_written))
    return Panel(table, title="providers' ledger", border_style="dim")


def _good(number: int) -> str:
    return "bold red" if number else "bold green"
