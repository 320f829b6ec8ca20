"""The demo while it runs: a table that fits a terminal, and a line for where there is none."""

from io import StringIO

from rich.console import Console

from infra.local.live import View, as_line, as_tables
from infra.local.observer import QUEUES, Books, Depth
from infra.local.verdict import JobSeen
from oncely.domain.lifecycle import Status

JOBS = [
    JobSeen(key="payment.charge:order_1", status=Status.FINISHED),
    JobSeen(key="payment.charge:order_2", status=Status.UNKNOWN),
    JobSeen(key="receipt.send:order_1", status=Status.NEEDS_REVIEW),
]
VIEW = View(
    seconds=12,
    doing="working",
    sent=7,
    kills=2,
    depths={name: Depth(3, 1, 0) for name in QUEUES},
    jobs={job.key: job for job in JOBS},
    books=Books(charges=1),
)


def test_tables_fit_ordinary_terminal() -> None:
    written = StringIO()
    Console(width=80, file=written).print(as_tables(VIEW))
    lines = written.getvalue().splitlines()

    assert len(lines) <= 22
    assert any("payment.charge" in one and one.split()[3:6] == ["·", "1", "1"] for one in lines)
    assert any("dead letters" in one and "3" in one for one in lines)


def test_line_summarizes_same_numbers() -> None:
    assert as_line(VIEW) == (
        "   12 s  working: 7 sent, 20 in queues; 1 unknown, 1 finished, 1 needs_review; "
        "1 charges, 0 double, 2 kills"
    )


def test_jobs_in_review_count_as_ended() -> None:
    assert (VIEW.ended, VIEW.waiting) == (2, 15)
