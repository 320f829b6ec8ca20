"""The demo while it runs: a table that fits a terminal, and a line for where there is none."""

from io import StringIO

from rich.console import Console

from oncely.domain.lifecycle import Status
from oncely_local.demo_report import DemoSnapshot, render_line, render_tables
from oncely_local.observer import QUEUE_OUTPUTS, LedgerTotals, QueueDepth
from oncely_local.verdict import JobSnapshot

JOBS = [
    JobSnapshot(key="payment.charge:order_1", status=Status.FINISHED),
    JobSnapshot(key="payment.charge:order_2", status=Status.UNKNOWN),
    JobSnapshot(key="receipt.send:order_1", status=Status.NEEDS_REVIEW),
]
VIEW = DemoSnapshot(
    seconds=12,
    phase="running",
    sent=7,
    kills=2,
    depths={name: QueueDepth(3, 1, 0) for name in QUEUE_OUTPUTS},
    jobs={job.key: job for job in JOBS},
    ledger_totals=LedgerTotals(charges=1),
)


def test_tables_fit_ordinary_terminal() -> None:
    written = StringIO()
    Console(width=80, file=written).print(render_tables(VIEW))
    lines = written.getvalue().splitlines()

    assert len(lines) <= 22
    assert any("payment.charge" in one and one.split()[3:6] == ["·", "1", "1"] for one in lines)
    assert any("dead letters" in one and "3" in one for one in lines)


def test_line_summarizes_same_numbers() -> None:
    assert render_line(VIEW) == (
        "   12 s  running: 7 sent, 20 in queues; 1 unknown, 1 finished, 1 needs_review; "
        "1 charges, 0 double, 2 kills"
    )


def test_jobs_in_review_count_as_ended() -> None:
    assert (VIEW.ended, VIEW.waiting) == (2, 15)
