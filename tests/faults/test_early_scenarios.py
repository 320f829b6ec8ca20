"""The explorer finds what early and wrong messages would break without their guards."""

from dataclasses import replace

import pytest

from oncely.domain import claims
from oncely.domain.claims import Claim, apply_claim
from oncely.domain.jobs import Job
from oncely.domain.lifecycle import Status
from oncely.run import run_job
from oncely.testing import SearchLimits, memory
from tests.faults.test_explorer import BY_NAME, assert_replays, first_violation

ONE = SearchLimits(injections=1, max_violations=1)


def test_review_reopened_without_mark_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def any_review(row: Job, claim: Claim) -> bool:
        return claim.is_valid and row.status is Status.NEEDS_REVIEW

    def forgets_first_send(row: Job | None, claim: Claim) -> Job | None:
        return apply_claim(
            replace(row, first_sent_at=None) if row and claim.reopens else row, claim
        )

    for module in (claims, run_job):
        monkeypatch.setattr(module, "can_reopen", any_review)
    monkeypatch.setattr(memory, "apply_claim", forgets_first_send)

    script = first_violation(BY_NAME["receipt.send"], ONE)

    assert_replays(script, "the effect of receipt.send:order_18452 happened 2 times")


def test_claim_that_keeps_wrong_message_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def keeps_first(row: Job | None, claim: Claim) -> Job | None:
        job = apply_claim(row, claim)
        return replace(job, message=row.message) if row and job else job

    monkeypatch.setattr(memory, "apply_claim", keeps_first)
    assert first_violation(BY_NAME["payment.charge/wrong-first"], ONE)


def test_claim_that_changes_message_later_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def changes_always(row: Job | None, claim: Claim) -> Job | None:
        job = apply_claim(row, claim)
        return job and replace(job, message=claim.message)

    monkeypatch.setattr(memory, "apply_claim", changes_always)
    script = first_violation(BY_NAME["payment.charge/wrong-refused"], ONE)
    problem = "the message of payment.charge:order_18452 changed after its fingerprint was set"
    assert_replays(script, problem)
