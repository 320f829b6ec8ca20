"""What a refused claim means for its message, and what forbids an owner to act."""

from dataclasses import replace
from datetime import timedelta

import pytest

from oncely.domain.claims import Refusal, refused_claim, unmet
from oncely.domain.decide import before_effect
from oncely.domain.jobs import Job
from oncely.domain.lifecycle import Event, Status
from oncely.domain.profiles import Safety
from tests.unit.samples import NOW, PROFILE, TERMS, TICK, a_claim, a_job

# Of 24 hours an hour is kept as a margin, and a run of two calls must fit.
SAFE_FOR = timedelta(hours=23) - PROFILE.longest_run


@pytest.mark.parametrize(
    ("row", "refusal"),
    [
        (a_job(status=Status.FINISHED), Refusal.ENDED),
        (a_job(status=Status.FAILED), Refusal.ENDED),
        (a_job(status=Status.UNKNOWN), Refusal.PARKED),
        (a_job(status=Status.NEEDS_REVIEW), Refusal.PARKED),
        (a_job(lease_until=NOW + TICK), Refusal.HELD),
        (a_job(lease_until=NOW), Refusal.ABANDONED),
        (a_job(lease_until=None), Refusal.ABANDONED),
        (a_job(status=Status.READY), Refusal.RACED),
    ],
)
def test_the_row_that_stands_tells_what_becomes_of_the_message(row: Job, refusal: Refusal) -> None:
    assert refused_claim(row, a_claim()) is refusal


@pytest.mark.parametrize("status", Status)
def test_other_business_values_are_a_conflict_whatever_the_status(status: Status) -> None:
    row = a_job(status=status, fingerprint="of another amount")

    assert refused_claim(row, a_claim()) is Refusal.CONFLICT


@pytest.mark.parametrize(("before", "now"), [(None, "of the order"), ("of the order", None)])
def test_values_that_nobody_resolved_conflict_with_nothing(
    before: str | None, now: str | None
) -> None:
    row = a_job(status=Status.FINISHED, fingerprint=before)

    assert refused_claim(row, a_claim(fingerprint=now)) is Refusal.ENDED


@pytest.mark.parametrize(("attempts", "may_act"), [(8, True), (9, False)])
def test_the_last_attempt_allowed_is_made_and_one_more_is_not(
    attempts: int, *, may_act: bool
) -> None:
    assert _may_act(a_job(attempts=attempts)) is may_act


@pytest.mark.parametrize(("age", "may_act"), [(-TICK, True), (timedelta(0), False)])
def test_a_job_that_has_reached_its_age_limit_is_not_run(age: timedelta, *, may_act: bool) -> None:
    assert _may_act(a_job(created_at=NOW - TERMS.stop.age - age)) is may_act


@pytest.mark.parametrize(("left", "may_act"), [(TICK, True), (timedelta(0), False)])
def test_an_open_send_is_repeated_only_inside_its_window(left: timedelta, *, may_act: bool) -> None:
    assert _may_act(a_job(first_sent_at=NOW - SAFE_FOR + left)) is may_act


def test_an_open_send_is_not_repeated_under_another_scope() -> None:
    job = a_job(first_sent_at=NOW - timedelta(hours=1))

    assert _may_act(job, scope="live")
    assert not _may_act(job, scope="test")


@pytest.mark.parametrize("safety", [Safety.LOOKUP, Safety.AT_MOST_ONCE])
def test_an_open_send_without_a_key_is_not_repeated(safety: Safety) -> None:
    assert not _may_act(a_job(first_sent_at=NOW - timedelta(hours=1)), safety=safety)


def test_a_natural_effect_is_repeated_whatever_is_open() -> None:
    job = a_job(first_sent_at=NOW - timedelta(hours=23))

    assert _may_act(job, scope="test", safety=Safety.NATURAL)


@pytest.mark.parametrize("safety", Safety)
def test_a_first_send_is_made_whatever_its_safety(safety: Safety) -> None:
    assert _may_act(a_job(first_sent_at=NOW, claimed_at=NOW), scope="test", safety=safety)


@pytest.mark.parametrize("row", [None, *(a_job(status=status) for status in sorted(Status))])
def test_unmet_requirement_escalates_a_job_that_waits_and_leaves_any_other(row: Job | None) -> None:
    decision = unmet(row, "order_18452 has not failed")

    if row is None or row.status is not Status.READY:
        assert decision is None
    else:
        assert decision is not None
        assert (decision.event, decision.reason) == (Event.ESCALATE, "order_18452 has not failed")


def _may_act(job: Job, *, scope: str = "live", safety: Safety = Safety.KEYED) -> bool:
    forbidden = before_effect(job, replace(TERMS, safety=safety), scope=scope, now=NOW)
    if forbidden is None:
        return True
    assert (forbidden.event, forbidden.alert) == (Event.ESCALATE, True)
    return False
