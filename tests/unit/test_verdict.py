"""The demo's verdict: what breaks the promise is found, and what keeps it is not blamed."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from infra.local.verdict import Facts, JobSeen, Verdict, judge
from oncely.domain.lifecycle import Status

PAYMENT = "payment.charge:order_1"
RECEIPT = "receipt.send:order_1"
PUSH = "sync.push:hubspot:shop#1:1"
MISSING = "payment.charge:order_missing"


def seen(key: str, status: Status = Status.FINISHED, **more: Any) -> JobSeen:  # noqa: ANN401  # fields
    return JobSeen(key=key, status=status, published=True, **more)


KEPT = Facts(
    asked_for=frozenset({PAYMENT, PUSH, MISSING}),
    jobs={
        PAYMENT: seen(PAYMENT),
        RECEIPT: seen(RECEIPT),
        PUSH: seen(PUSH),
        MISSING: seen(MISSING, Status.NEEDS_REVIEW, reason="order missing does not exist"),
    },
    charges={PAYMENT: 1},
    mails={"1": 1},
    contacts={"shop#1": 1},
    paid=frozenset({"1"}),
    imported=frozenset({"4"}),
    to_import=frozenset({"4"}),
    put_aside=Counter(["not JSON"]),
    wrong=frozenset({"not JSON"}),
    history=dict.fromkeys((PAYMENT, RECEIPT, PUSH), "finished"),
)


def without(key: str) -> dict[str, JobSeen]:
    return {name: job for name, job in KEPT.jobs.items() if name != key}


def with_status(key: str, status: Status) -> dict[str, JobSeen]:
    return {**KEPT.jobs, key: replace(KEPT.jobs[key], status=status)}


def test_expected_effects_break_no_invariant() -> None:
    assert judge(KEPT) == Verdict((), (), (), (), (), ())
    assert judge(KEPT).kept


@pytest.mark.parametrize(
    ("changes", "part", "sentence"),
    [
        ({"charges": {PAYMENT: 2}}, "doubled", f"{PAYMENT} was charged 2 times"),
        ({"mails": {"1": 2}}, "doubled", "the receipt of order 1 was sent 2 times"),
        ({"contacts": {"shop#1": 3}}, "doubled", "shop#1 is 3 contacts at the CRM"),
        ({"jobs": without(MISSING)}, "lost", f"{MISSING} has no row"),
        ({"jobs": without(RECEIPT)}, "lost", f"{RECEIPT} never followed"),
        ({"imported": frozenset()}, "lost", "contact 4 was not imported"),
        ({"put_aside": Counter()}, "lost", "nobody put aside: not JSON"),
        (
            {"jobs": with_status(RECEIPT, Status.UNKNOWN)},
            "unresolved",
            f"{RECEIPT} is still unknown: ",
        ),
        (
            {"charges": {}},
            "disagreeing",
            f"{PAYMENT} is finished, and the provider knows nothing of it",
        ),
        (
            {"jobs": with_status(RECEIPT, Status.FAILED)},
            "disagreeing",
            f"{RECEIPT} is failed, and the provider did it",
        ),
        (
            {"paid": frozenset()},
            "disagreeing",
            f"{PAYMENT} is finished, and its order says otherwise",
        ),
        (
            {"charges": {PAYMENT: 1, "payment.charge:order_9": 1}},
            "disagreeing",
            "a charge names payment.charge:order_9, which is no job",
        ),
    ],
)
def test_broken_invariant_is_stated_in_one_sentence(
    changes: dict[str, Any], part: str, sentence: str
) -> None:
    verdict = judge(replace(KEPT, **changes))

    assert getattr(verdict, part) == (sentence,)
    assert not verdict.kept


@pytest.mark.parametrize("told", [None, "started", "failed"])
def test_ended_job_missing_in_history_breaks_invariant(told: str | None) -> None:
    verdict = judge(replace(KEPT, history={**KEPT.history, PUSH: told}))

    assert verdict.not_in_history == (f"{PUSH} is finished, and the history says {told}",)
    assert not verdict.kept


def test_ambiguous_mail_in_review_breaks_no_invariant() -> None:
    assert judge(replace(KEPT, jobs=with_status(RECEIPT, Status.NEEDS_REVIEW))).kept


def test_unpublished_job_is_listed_and_breaks_no_invariant() -> None:
    late = {**KEPT.jobs, PUSH: replace(KEPT.jobs[PUSH], published=False)}
    verdict = judge(replace(KEPT, jobs=late))

    assert verdict.unpublished == (PUSH,)
    assert verdict.kept
