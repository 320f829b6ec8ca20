"""The demo's progress, its verdict (every violation, nothing else) and its report."""

from collections import Counter
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from oncely.core.lifecycle import Status
from oncely.testing.sandbox import EffectState, RecordedEffect
from oncely_local.demo_report import DemoReport, DemoSnapshot, render_line, render_tables
from oncely_local.logs import LogCounts
from oncely_local.observer import LedgerTotals, QueueDepth
from oncely_local.verdict import DemoFinalState, DemoVerdict, JobSnapshot, evaluate

PAYMENT = "payment.charge:order_1"
REVIEW = JobSnapshot(
    key="receipt.send:order_1", status=Status.NEEDS_REVIEW, reason="may have gone out"
)
CHARGE = RecordedEffect(kind="charges", key=PAYMENT, reference="ch_1")
FACTS = DemoFinalState(
    requested=frozenset({PAYMENT}),
    jobs={PAYMENT: JobSnapshot(key=PAYMENT, status=Status.FINISHED), REVIEW.key: REVIEW},
    effects=(CHARGE,),
    paid=frozenset({"1"}),
    history={PAYMENT: "finished"},
)
DONE, DECLINED = ("charges", EffectState.DONE), ("charges", EffectState.DECLINED)


def render_report(facts: DemoFinalState, totals: LedgerTotals) -> list[str]:
    tally = LogCounts(deliveries=5, duplicates=Counter({"finished": 2}))
    report = DemoReport(
        final_state=facts,
        verdict=evaluate(facts),
        log_counts=tally,
        last=DemoSnapshot(
            seconds=30, phase="finishing", sent=3, kills=2, sweeps=4, ledger_totals=totals
        ),
        timeouts=1,
        p90_seconds=10,
        peak_memory_bytes=512_000_000,
    )
    written = StringIO()
    Console(width=120, file=written).print(report.render())
    return [line.strip(" │") for line in written.getvalue().splitlines()]


def test_report_counts_jobs_faults_charges_and_reviews() -> None:
    lines = render_report(
        FACTS, LedgerTotals(Counter({DONE: 1, DECLINED: 2}), faults=Counter({"slow": 1}))
    )

    for line in (
        "2  jobs from 3 messages: 1 payment.charge, 1 receipt.send",
        "2  duplicates detected: 2 finished",
        "2  worker processes killed at random times",
        "1  provider faults: 1 slow",
        "1  charges at the provider, 2 declined",
        "0  double charges",
        "0  jobs or messages lost",
        "0  jobs left unknown or unfinished",
        "1  jobs need review, with a reason for each",
        "0.2  jobs per second: 90 % ended after 10 s, the last after 30 s",
        "512 MB  peak memory: the local AWS, its workers and this demo",
        "1  may have gone out  receipt.send:order_1",
        "Every guarantee held: many attempts, one real outcome.",
    ):
        assert line in lines


def test_double_charge_is_named_and_fails_report() -> None:
    lines = render_report(
        replace(FACTS, effects=(CHARGE, CHARGE)),
        LedgerTotals(Counter({DONE: 2}), Counter({"charges": 1})),
    )

    assert "1  double charges" in lines
    assert f"{PAYMENT} has 2 charges" in lines
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


QUEUES = ("payments", "sync", "mail", "dead letters", "rejects")
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
    depths={name: QueueDepth(3, 1, 0) for name in QUEUES},
    jobs={job.key: job for job in JOBS},
    ledger_totals=LedgerTotals(
        Counter({(kind, EffectState.DONE): 1 for kind in ("charges", "contacts", "emails")})
    ),
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
        "1 charges, 1 contacts, 1 emails, 0 double, 2 kills"
    )


def test_jobs_in_review_count_as_ended() -> None:
    assert (VIEW.ended, VIEW.waiting) == (2, 15)


RECEIPT = "receipt.send:order_1"
PUSH = "sync.push:hubspot:shop#1:1"
EMAIL = RecordedEffect(kind="emails", key=RECEIPT, reference="mail_1")
CONTACT = RecordedEffect(kind="contacts", key="shop#1", reference="7")
CANCELLED = "payment.charge:order_cancelled"


def job_snapshot(key: str, status: Status = Status.FINISHED, **more: Any) -> JobSnapshot:  # noqa: ANN401  # fields
    return JobSnapshot(key=key, status=status, is_published=True, **more)


KEPT = DemoFinalState(
    requested=frozenset({PAYMENT, PUSH, CANCELLED}),
    jobs={
        PAYMENT: job_snapshot(PAYMENT),
        RECEIPT: job_snapshot(RECEIPT),
        PUSH: job_snapshot(PUSH),
        CANCELLED: job_snapshot(CANCELLED, Status.NEEDS_REVIEW, reason="its status is cancelled"),
    },
    effects=(CHARGE, EMAIL, CONTACT),
    paid=frozenset({"1"}),
    imported=frozenset({"4"}),
    to_import=frozenset({"4"}),
    rejected=Counter(["not JSON"]),
    invalid=frozenset({"not JSON"}),
    history=dict.fromkeys((PAYMENT, RECEIPT, PUSH), "finished"),
)


def jobs_without(key: str) -> dict[str, JobSnapshot]:
    return {name: job for name, job in KEPT.jobs.items() if name != key}


def jobs_with_status(key: str, status: Status) -> dict[str, JobSnapshot]:
    return {**KEPT.jobs, key: replace(KEPT.jobs[key], status=status)}


def test_expected_effects_break_no_invariant() -> None:
    assert evaluate(KEPT) == DemoVerdict((), (), (), (), (), (), ())
    assert evaluate(KEPT).is_kept


@pytest.mark.parametrize(
    ("changes", "part", "sentence"),
    [
        ({"effects": (*KEPT.effects, CHARGE)}, "duplicated", f"{PAYMENT} has 2 charges"),
        ({"effects": (*KEPT.effects, EMAIL)}, "duplicated", f"{RECEIPT} has 2 emails"),
        ({"effects": (*KEPT.effects, CONTACT)}, "duplicated", "shop#1 has 2 contacts"),
        ({"jobs": jobs_without(CANCELLED)}, "lost", f"{CANCELLED} has no row"),
        ({"jobs": jobs_without(RECEIPT)}, "lost", f"{RECEIPT} was never created"),
        ({"imported": frozenset()}, "lost", "contact 4 was not imported"),
        ({"rejected": Counter()}, "lost", "invalid message not rejected: not JSON"),
        (
            {"jobs": jobs_with_status(RECEIPT, Status.UNKNOWN)},
            "unresolved",
            f"{RECEIPT} is still unknown: ",
        ),
        (
            {"effects": (replace(CHARGE, state=EffectState.PENDING), EMAIL, CONTACT)},
            "inconsistent",
            f"{PAYMENT} is finished, but the provider has no effect",
        ),
        (
            {"effects": (CHARGE, EMAIL)},
            "inconsistent",
            f"{PUSH} is finished, but the provider has no effect",
        ),
        (
            {"jobs": jobs_with_status(RECEIPT, Status.FAILED)},
            "inconsistent",
            f"{RECEIPT} is failed, but the provider performed it",
        ),
        ({"paid": frozenset()}, "inconsistent", f"{PAYMENT} is finished, but its order disagrees"),
        (
            {"effects": (*KEPT.effects, replace(CHARGE, key="payment.charge:order_9"))},
            "inconsistent",
            "ch_1 names payment.charge:order_9, which has no row",
        ),
    ],
)
def test_broken_invariant_is_a_sentence(changes: dict[str, Any], part: str, sentence: str) -> None:
    verdict = evaluate(replace(KEPT, **changes))
    assert getattr(verdict, part) == (sentence,)
    assert not verdict.is_kept


@pytest.mark.parametrize("recorded", [None, "started", "failed"])
def test_ended_job_missing_in_history_breaks_invariant(recorded: str | None) -> None:
    verdict = evaluate(replace(KEPT, history={**KEPT.history, PUSH: recorded}))
    assert verdict.not_in_history == (f"{PUSH} is finished, but in the history {recorded}",)
    assert not verdict.is_kept


def test_broken_rule_in_history_breaks_invariant() -> None:
    verdict = evaluate(replace(KEPT, broken_rules=("a job started again",)))
    assert verdict.broken_rules == ("a job started again",)
    assert not verdict.is_kept


def test_ambiguous_mail_in_review_breaks_no_invariant() -> None:
    assert evaluate(replace(KEPT, jobs=jobs_with_status(RECEIPT, Status.NEEDS_REVIEW))).is_kept


def test_unpublished_job_is_listed_and_breaks_no_invariant() -> None:
    late = {**KEPT.jobs, PUSH: replace(KEPT.jobs[PUSH], is_published=False)}
    verdict = evaluate(replace(KEPT, jobs=late))
    assert verdict.unpublished == (PUSH,)
    assert verdict.is_kept
