"""The demo's verdict: it finds every violation, and reports nothing else."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from oncely.domain.lifecycle import Status
from oncely_local.verdict import DemoFinalState, DemoVerdict, JobSnapshot, evaluate

PAYMENT = "payment.charge:order_1"
RECEIPT = "receipt.send:order_1"
PUSH = "sync.push:hubspot:shop#1:1"
MISSING = "payment.charge:order_missing"


def job_snapshot(key: str, status: Status = Status.FINISHED, **more: Any) -> JobSnapshot:  # noqa: ANN401  # fields
    return JobSnapshot(key=key, status=status, is_published=True, **more)


KEPT = DemoFinalState(
    requested=frozenset({PAYMENT, PUSH, MISSING}),
    jobs={
        PAYMENT: job_snapshot(PAYMENT),
        RECEIPT: job_snapshot(RECEIPT),
        PUSH: job_snapshot(PUSH),
        MISSING: job_snapshot(MISSING, Status.NEEDS_REVIEW, reason="order missing does not exist"),
    },
    charges={PAYMENT: 1},
    mails={"1": 1},
    contacts={"shop#1": 1},
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
    assert evaluate(KEPT) == DemoVerdict((), (), (), (), (), ())
    assert evaluate(KEPT).is_kept


@pytest.mark.parametrize(
    ("changes", "part", "sentence"),
    [
        ({"charges": {PAYMENT: 2}}, "duplicated", f"{PAYMENT} was charged 2 times"),
        ({"mails": {"1": 2}}, "duplicated", "the receipt of order 1 was sent 2 times"),
        ({"contacts": {"shop#1": 3}}, "duplicated", "shop#1 has 3 contacts in the CRM"),
        ({"jobs": jobs_without(MISSING)}, "lost", f"{MISSING} has no row"),
        ({"jobs": jobs_without(RECEIPT)}, "lost", f"{RECEIPT} was never created"),
        ({"imported": frozenset()}, "lost", "contact 4 was not imported"),
        ({"rejected": Counter()}, "lost", "invalid message not rejected: not JSON"),
        (
            {"jobs": jobs_with_status(RECEIPT, Status.UNKNOWN)},
            "unresolved",
            f"{RECEIPT} is still unknown: ",
        ),
        ({"charges": {}}, "inconsistent", f"{PAYMENT} is finished, but the provider has no effect"),
        (
            {"jobs": jobs_with_status(RECEIPT, Status.FAILED)},
            "inconsistent",
            f"{RECEIPT} is failed, but the provider performed it",
        ),
        ({"paid": frozenset()}, "inconsistent", f"{PAYMENT} is finished, but its order disagrees"),
        (
            {"charges": {PAYMENT: 1, "payment.charge:order_9": 1}},
            "inconsistent",
            "a charge names payment.charge:order_9, which has no row",
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


def test_ambiguous_mail_in_review_breaks_no_invariant() -> None:
    assert evaluate(replace(KEPT, jobs=jobs_with_status(RECEIPT, Status.NEEDS_REVIEW))).is_kept


def test_unpublished_job_is_listed_and_breaks_no_invariant() -> None:
    late = {**KEPT.jobs, PUSH: replace(KEPT.jobs[PUSH], is_published=False)}
    verdict = evaluate(replace(KEPT, jobs=late))
    assert verdict.unpublished == (PUSH,)
    assert verdict.is_kept
