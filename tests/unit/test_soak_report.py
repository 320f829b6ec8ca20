"""The soak's verdict: its report has every violation, and nothing else."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from oncely.core.job_row import JobRow
from oncely.core.lifecycle import Event, Status
from oncely.history.checker import Rule
from oncely.history.sources import lines_of_records
from oncely.testing.sandbox import RecordedEffect
from oncely_local.observer import LedgerTotals
from oncely_local.verdict import DemoFinalState, JobSnapshot
from tests.soak.report import MAX_LOST_PER_RESTART, SoakReport
from tests.soak.stream_history import StreamLines
from tests.support.stream import stream_record
from tests.unit.samples import KEY, make_entry, make_job

RECEIPT = "receipt.send:order_18452"
PAID = make_job(
    version=2,
    status=Status.FINISHED,
    result={"charge_id": "ch_1"},
    evidence=(
        make_entry(event=Event.CONFIRM, from_status=Status.STARTED, to_status=Status.FINISHED),
    ),
)
FAILED = replace(PAID, version=3, status=Status.FAILED)
REVIEW = make_job(status=Status.NEEDS_REVIEW, last_error="two were found")


def job_snapshot(key: str, *, published: bool = True) -> JobSnapshot:
    return JobSnapshot(key=key, status=Status.FINISHED, is_published=published)


def stream_history(*rows: JobRow) -> StreamLines:
    """The history of a job with these writes, one after another."""
    records = [stream_record(old, new) for old, new in pairwise((None, *rows))]
    return StreamLines(lines=lines_of_records(records, generation="soak"), writes=len(rows))


CHARGE = RecordedEffect(kind="charges", key=KEY, reference="ch_1")
EMAIL = RecordedEffect(kind="emails", key=RECEIPT, reference="mail_1")
FACTS = DemoFinalState(
    requested=frozenset({KEY}),
    jobs={KEY: job_snapshot(KEY), RECEIPT: job_snapshot(RECEIPT)},
    effects=(CHARGE, EMAIL),
    paid=frozenset({"18452"}),
)
KEPT = SoakReport(
    seed=1,
    minutes=5,
    sent=3,
    restarts=2,
    is_drained=True,
    process_counts=Counter(killed=4),
    reported_counts=Counter(Finished=1),
    drain_counts=Counter(),
    facts=FACTS,
    rows=(PAID, REVIEW),
    history=stream_history(make_job(), PAID),
    totals=LedgerTotals(),
)


def test_single_agreed_charge_breaks_no_invariant() -> None:
    assert KEPT.violations == []
    assert "the promise was kept" in list(KEPT.lines())
    history = "  history      2 lines checked: 2 writes in the stream, 0 lost in restarts"
    assert history in list(KEPT.lines())


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (
            replace(KEPT, facts=replace(FACTS, effects=(CHARGE, CHARGE, EMAIL))),
            f"{KEY} has 2 charges",
        ),
        (
            replace(KEPT, facts=replace(FACTS, requested=frozenset({KEY, "sync.push:x:1"}))),
            "sync.push:x:1 has no row",
        ),
        (
            replace(
                KEPT,
                facts=replace(FACTS, jobs={**FACTS.jobs, KEY: job_snapshot(KEY, published=False)}),
            ),
            f"{KEY} ended and still owes something",
        ),
        (
            replace(
                KEPT,
                facts=replace(FACTS, effects=(replace(CHARGE, reference="ch_2"), EMAIL)),
            ),
            f"{KEY} names the charge ch_1, which is not its own",
        ),
        (
            replace(KEPT, rows=(replace(PAID, evidence=(make_entry(to_status=Status.UNKNOWN),)),)),
            f"{KEY} is finished, and its history ends otherwise",
        ),
        (
            replace(KEPT, history=stream_history(make_job(), PAID, FAILED)),
            f"{KEY}, version 3: {Rule.NOT_CONTRADICTED.sentence} ({Rule.NOT_CONTRADICTED})",
        ),
        (
            replace(KEPT, history=replace(KEPT.history, lost=1), restarts=0),
            "the stream has 2 of 3 writes, after 0 restarts",
        ),
        (replace(KEPT, is_drained=False), "it never came to rest"),
    ],
)
def test_broken_invariant_is_a_sentence(broken: SoakReport, sentence: str) -> None:
    assert broken.violations == [sentence]
    assert list(broken.lines())[-2:] == ["THE PROMISE IS BROKEN", f"  {sentence}"]


def test_few_writes_may_be_lost_in_restarts() -> None:
    lossy = replace(KEPT, history=replace(KEPT.history, lost=MAX_LOST_PER_RESTART * KEPT.restarts))
    assert lossy.violations == []
    assert replace(lossy, restarts=KEPT.restarts - 1).violations != []


def test_refund_that_voided_a_charge_leaves_it_to_its_payment() -> None:
    refund = "payment.refund:order_18452:rma"
    voided = replace(CHARGE, kind="refunds", key=refund)
    jobs = {**FACTS.jobs, refund: job_snapshot(refund)}
    facts = replace(FACTS, jobs=jobs, effects=(*FACTS.effects, voided))
    assert replace(KEPT, facts=facts).violations == []


def test_review_is_listed_with_its_reason() -> None:
    assert "  review       1 times two were found" in list(KEPT.lines())
