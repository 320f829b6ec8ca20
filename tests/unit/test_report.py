"""The demo's report, and that it fails if a guarantee was violated."""

from collections import Counter
from dataclasses import replace
from io import StringIO

from rich.console import Console

from oncely.domain.lifecycle import Status
from oncely_local.demo_report import DemoReport, RunStats
from oncely_local.logs import LogCounts
from oncely_local.observer import LedgerTotals
from oncely_local.verdict import DemoFinalState, JobSnapshot, evaluate

PAYMENT = "payment.charge:order_1"
REVIEW = JobSnapshot(
    key="receipt.send:order_1", status=Status.NEEDS_REVIEW, reason="may have gone out"
)
FACTS = DemoFinalState(
    requested=frozenset({PAYMENT}),
    jobs={PAYMENT: JobSnapshot(key=PAYMENT, status=Status.FINISHED), REVIEW.key: REVIEW},
    charges={PAYMENT: 1},
    paid=frozenset({"1"}),
    history={PAYMENT: "finished"},
)
RUN = RunStats(
    sent=3, kills=2, timeouts=1, sweeps=4, seconds=30, p90_seconds=10, peak_memory_bytes=512_000_000
)


def render_report(facts: DemoFinalState, books: LedgerTotals) -> list[str]:
    tally = LogCounts(deliveries=5, duplicates_by_reason=Counter({"finished": 2}))
    written = StringIO()
    Console(width=120, file=written).print(
        DemoReport(facts, evaluate(facts), tally, books, RUN).render()
    )
    return [line.strip(" │") for line in written.getvalue().splitlines()]


def test_report_counts_jobs_faults_charges_and_reviews() -> None:
    lines = render_report(FACTS, LedgerTotals(charges=1, faults=Counter({"slow": 1})))

    for told in (
        "2  jobs from 3 messages: 1 payment.charge, 1 receipt.send",
        "2  duplicates detected: 2 finished",
        "2  worker processes killed at random times",
        "1  provider faults: 1 slow",
        "1  charges at the provider, 0 declined",
        "0  double charges",
        "0  jobs or messages lost",
        "0  jobs left unknown or unfinished",
        "1  jobs need review, each with its reason",
        "512 MB  peak memory: the local AWS, its workers and this demo",
        "1  may have gone out  receipt.send:order_1",
        "Every guarantee held: many attempts, one real outcome.",
    ):
        assert told in lines


def test_double_charge_is_named_and_fails_report() -> None:
    lines = render_report(
        replace(FACTS, charges={PAYMENT: 2}), LedgerTotals(charges=2, double_charges=1)
    )

    assert "1  double charges" in lines
    assert f"{PAYMENT} was charged 2 times" in lines
    assert "GUARANTEE VIOLATED: see the violations above." in lines


def test_equal_reasons_are_counted_together() -> None:
    jobs = {
        f"payment.charge:order_x{n}": JobSnapshot(
            key=f"payment.charge:order_x{n}",
            status=Status.NEEDS_REVIEW,
            reason=f"order x{n}: charged {n}.00 EUR as ch_0123456789{n}, but the rows refuse",
        )
        for n in range(3)
    }
    lines = render_report(replace(FACTS, jobs={**FACTS.jobs, **jobs}), LedgerTotals())

    assert any(
        line.startswith("3  order …: charged … as …, but the rows refuse  payment.charge:order_x0")
        for line in lines
    )
