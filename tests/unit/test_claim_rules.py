"""What a refused claim means for its message, and what forbids an owner to act."""

from dataclasses import replace
from datetime import timedelta

import pytest

from oncely.domain.claims import ClaimFailure, classify_claim_failure, on_prerequisite_not_met
from oncely.domain.decide import guard_before_effect
from oncely.domain.jobs import Job
from oncely.domain.lifecycle import Event, Status
from oncely.domain.profiles import RetrySafety
from tests.unit.samples import NOW, PROFILE, TERMS, TICK, make_claim, make_job

# Of 24 hours an hour is kept as a margin, and a run of two calls must fit.
SAFE_FOR = timedelta(hours=23) - PROFILE.max_run_time


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
def test_failed_claim_reason_follows_row(row: Job, refusal: ClaimFailure) -> None:
    assert classify_claim_failure(row, make_claim()) is refusal


@pytest.mark.parametrize("status", Status)
def test_other_business_values_conflict_in_any_status(status: Status) -> None:
    row = make_job(status=status, fingerprint="of another amount")

    assert classify_claim_failure(row, make_claim()) is ClaimFailure.CONFLICT


@pytest.mark.parametrize(("before", "now"), [(None, "of the order"), ("of the order", None)])
def test_unresolved_values_never_conflict(before: str | None, now: str | None) -> None:
    row = make_job(status=Status.FINISHED, fingerprint=before)

    assert classify_claim_failure(row, make_claim(fingerprint=now)) is ClaimFailure.ENDED


@pytest.mark.parametrize(("attempts", "may_act"), [(8, True), (9, False)])
def test_last_allowed_attempt_runs_and_next_does_not(attempts: int, *, may_act: bool) -> None:
    assert _can_execute(make_job(attempts=attempts)) is may_act


@pytest.mark.parametrize(("age", "may_act"), [(-TICK, True), (timedelta(0), False)])
def test_job_at_age_limit_does_not_run(age: timedelta, *, may_act: bool) -> None:
    assert _can_execute(make_job(created_at=NOW - TERMS.limits.max_age - age)) is may_act


@pytest.mark.parametrize(("left", "may_act"), [(TICK, True), (timedelta(0), False)])
def test_ambiguous_send_is_repeated_only_within_key_window(
    left: timedelta, *, may_act: bool
) -> None:
    assert _can_execute(make_job(first_sent_at=NOW - SAFE_FOR + left)) is may_act


def test_ambiguous_send_is_not_repeated_under_other_key_scope() -> None:
    job = make_job(first_sent_at=NOW - timedelta(hours=1))

    assert _can_execute(job, scope="live")
    assert not _can_execute(job, scope="test")


@pytest.mark.parametrize("safety", [RetrySafety.LOOKUP, RetrySafety.AT_MOST_ONCE])
def test_ambiguous_send_without_idempotency_key_is_not_repeated(safety: RetrySafety) -> None:
    assert not _can_execute(make_job(first_sent_at=NOW - timedelta(hours=1)), safety=safety)


def test_natural_effect_is_repeated_despite_ambiguous_send() -> None:
    job = make_job(first_sent_at=NOW - timedelta(hours=23))

    assert _can_execute(job, scope="test", safety=RetrySafety.NATURAL)


@pytest.mark.parametrize("safety", RetrySafety)
def test_first_send_is_made_in_any_safety_class(safety: RetrySafety) -> None:
    assert _can_execute(make_job(first_sent_at=NOW, claimed_at=NOW), scope="test", safety=safety)


@pytest.mark.parametrize("row", [None, *(make_job(status=status) for status in sorted(Status))])
def test_unmet_prerequisite_escalates_only_ready_job(row: Job | None) -> None:
    decision = on_prerequisite_not_met(row, "order_18452 has not failed")

    if row is None or row.status is not Status.READY:
        assert decision is None
    else:
        assert decision is not None
        assert (decision.event, decision.reason) == (Event.ESCALATE, "order_18452 has not failed")


def _can_execute(job: Job, *, scope: str = "live", safety: RetrySafety = RetrySafety.KEYED) -> bool:
    forbidden = guard_before_effect(job, replace(TERMS, safety=safety), key_scope=scope, now=NOW)
    if forbidden is None:
        return True
    assert (forbidden.event, forbidden.alert) == (Event.ESCALATE, True)
    return False
