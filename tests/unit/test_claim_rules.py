"""Why a claim fails, and when its owner must not execute the effect."""

from dataclasses import replace
from datetime import timedelta

import pytest

from oncely.core.claims import ClaimFailure, classify_claim_failure
from oncely.core.decide import guard_before_effect, on_prerequisite_not_met
from oncely.core.job_row import JobRow
from oncely.core.lifecycle import Event, Status
from oncely.core.profiles import RetrySafety
from tests.unit.samples import NO_LIMIT, NOW, PROFILE, TERMS, TICK, make_claim, make_job

# Of 24 hours, 1 hour is the margin, and a run of two calls must fit.
SAFE_FOR = timedelta(hours=23) - PROFILE.max_run_time
TOO_OLD = NOW - TERMS.limits.max_age


@pytest.mark.parametrize(
    ("row", "refusal"),
    [
        (make_job(status=Status.FINISHED), ClaimFailure.ENDED),
        (make_job(status=Status.FAILED), ClaimFailure.ENDED),
        (make_job(status=Status.UNKNOWN), ClaimFailure.AWAITING_RESOLUTION),
        (make_job(status=Status.NEEDS_REVIEW), ClaimFailure.AWAITING_RESOLUTION),
        (make_job(lease_until=NOW + TICK), ClaimFailure.LEASED),
        (make_job(lease_until=NOW), ClaimFailure.LEASE_EXPIRED),
        (make_job(lease_until=None), ClaimFailure.LEASE_EXPIRED),
        (make_job(status=Status.READY), ClaimFailure.RACE_LOST),
    ],
)
def test_failed_claim_reason_follows_row(row: JobRow, refusal: ClaimFailure) -> None:
    assert classify_claim_failure(row, make_claim(), NOW, NO_LIMIT) is refusal


@pytest.mark.parametrize("status", Status)
def test_other_business_values_conflict_in_any_status(status: Status) -> None:
    row = make_job(status=status, fingerprint="of another amount")
    assert classify_claim_failure(row, make_claim(), NOW, NO_LIMIT) is ClaimFailure.CONFLICT


@pytest.mark.parametrize(("before", "now"), [(None, "of the order"), ("of the order", None)])
def test_unresolved_values_never_conflict(before: str | None, now: str | None) -> None:
    row = make_job(status=Status.FINISHED, fingerprint=before)
    assert (
        classify_claim_failure(row, make_claim(fingerprint=now), NOW, NO_LIMIT)
        is ClaimFailure.ENDED
    )


def can_execute(
    job: JobRow, *, scope: str = "live", safety: RetrySafety = RetrySafety.KEYED
) -> bool:
    claim = make_claim(key_scope=scope)
    refusal = guard_before_effect(job, replace(TERMS, safety=safety), claim, now=NOW)
    if refusal is None:
        return True
    assert (refusal.event, refusal.alert) == (Event.ESCALATE, True)
    return False


@pytest.mark.parametrize(
    ("job", "allowed"),
    [
        pytest.param(make_job(attempts=8), True, id="last attempt"),
        pytest.param(make_job(attempts=9), False, id="one attempt too many"),
        pytest.param(make_job(created_at=TOO_OLD + TICK), True, id="before age limit"),
        pytest.param(make_job(created_at=TOO_OLD), False, id="at age limit"),
        pytest.param(make_job(first_sent_at=NOW - SAFE_FOR + TICK), True, id="in key window"),
        pytest.param(make_job(first_sent_at=NOW - SAFE_FOR), False, id="after key window"),
    ],
)
def test_effect_runs_only_within_its_limits(job: JobRow, *, allowed: bool) -> None:
    assert can_execute(job) is allowed


@pytest.mark.parametrize("scope", ["live", "test"])
@pytest.mark.parametrize("safety", RetrySafety)
def test_ambiguous_send_is_repeated_only_if_safe(safety: RetrySafety, scope: str) -> None:
    job = make_job(first_sent_at=NOW - timedelta(hours=1))

    same_key = safety is RetrySafety.KEYED and scope == "live"
    assert can_execute(job, scope=scope, safety=safety) is (
        same_key or safety is RetrySafety.NATURAL
    )


@pytest.mark.parametrize("safety", RetrySafety)
def test_first_send_is_made_in_any_safety_class(safety: RetrySafety) -> None:
    assert can_execute(make_job(first_sent_at=NOW, claimed_at=NOW), scope="test", safety=safety)


@pytest.mark.parametrize("row", [make_job(status=status) for status in sorted(Status)])
def test_unmet_prerequisite_escalates_only_ready_job(row: JobRow) -> None:
    decision = on_prerequisite_not_met(row, "order_18452 has not failed")
    escalated = decision and (decision.event, decision.reason)
    ready = row.status is Status.READY
    assert escalated == ((Event.ESCALATE, "order_18452 has not failed") if ready else None)
