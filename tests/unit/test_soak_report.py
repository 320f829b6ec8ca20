"""The soak's verdict: its report has every violation, and nothing else."""

from collections import Counter
from dataclasses import replace

import pytest

from oncely.core.lifecycle import Event, Status
from oncely.testing.sandbox import RecordedEffect
from oncely_local.observer import LedgerTotals
from oncely_local.verdict import DemoFinalState, JobSnapshot
from tests.soak.report import SoakReport
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
REVIEW = make_job(status=Status.NEEDS_REVIEW, last_error="two were found")


def job_snapshot(key: str, *, published: bool = True) -> JobSnapshot:
    return JobSnapshot(key=key, status=Status.FINISHED, is_published=published)


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
    totals=LedgerTotals(),
)


def test_single_agreed_charge_breaks_no_invariant() -> None:
    assert KEPT.violations == []
    assert "the promise was kept" in list(KEPT.lines())


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
        (replace(KEPT, is_drained=False), "it never came to rest"),
    ],
)
def test_broken_invariant_is_a_sentence(broken: SoakReport, sentence: str) -> None:
    assert broken.violations == [sentence]
    assert list(broken.lines())[-2:] == ["THE PROMISE IS BROKEN", f"  {sentence}"]


def test_refund_that_voided_a_charge_leaves_it_to_its_payment() -> None:
    refund = "payment.refund:order_18452:rma"
    voided = replace(CHARGE, kind="refunds", key=refund)
    jobs = {**FACTS.jobs, refund: job_snapshot(refund)}
    facts = replace(FACTS, jobs=jobs, effects=(*FACTS.effects, voided))
    assert replace(KEPT, facts=facts).violations == []


def test_review_is_listed_with_its_reason() -> None:
    assert "  review       1 times two were found" in list(KEPT.lines())
