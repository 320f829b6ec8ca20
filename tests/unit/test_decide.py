"""Named examples of `decide`: how long it waits, and from when on "not there" counts."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from oncely.domain.claims import apply_claim
from oncely.domain.decide import decide
from oncely.domain.decisions import (
    MAX_BACKOFF,
    MESSAGE_GRACE,
    PENDING_RECHECK_INTERVAL,
    absence_conclusive_at,
)
from oncely.domain.effect_outcomes import (
    Ambiguous,
    EffectOutcome,
    LeaseExpired,
    LookupFailed,
    LookupUnsupported,
    NotFound,
    NotSent,
    Pending,
)
from oncely.domain.jobs import Job
from oncely.domain.lifecycle import Event, Status
from oncely.domain.profiles import RetrySafety
from tests.unit.samples import NOW, PROFILE, TERMS, TICK, make_claim, make_job

SECONDS_40 = timedelta(seconds=40)  # a request's 10 s, and 30 s of the lookup's lag


def _claim(job: Job | None, now: datetime) -> Job:
    taken = apply_claim(job, make_claim(now=now, lease_until=now + timedelta(seconds=60)))
    assert taken is not None
    return taken


def test_timeouts_before_escalation_span_at_least_one_hour() -> None:
    job, timeouts = _claim(None, NOW), [NOW]
    while True:
        lost = decide(job, TERMS, Ambiguous("timeout"), now=timeouts[-1])
        job = lost.apply_to(job, now=timeouts[-1], actor="worker")
        asked = absence_conclusive_at(job, TERMS)
        found = decide(job, TERMS, NotFound("none"), now=asked)
        job = found.apply_to(job, now=asked, actor="reconciler")
        if found.run_at is None:
            break
        timeouts.append(found.run_at)
        job = _claim(job, found.run_at)

    assert job.status is Status.NEEDS_REVIEW
    assert len(timeouts) == TERMS.limits.max_consecutive_timeouts
    assert timeouts[-1] - timeouts[0] >= timedelta(hours=1)


def test_natural_effect_timeouts_span_at_least_one_hour() -> None:
    natural = replace(TERMS, safety=RetrySafety.NATURAL)
    job, timeouts = _claim(None, NOW), [NOW]
    while (found := decide(job, natural, Ambiguous("timeout"), now=timeouts[-1])).run_at:
        job = _claim(found.apply_to(job, now=timeouts[-1], actor="worker"), found.run_at)
        timeouts.append(found.run_at)

    assert found.event is Event.ESCALATE
    assert len(timeouts) == TERMS.limits.max_consecutive_timeouts
    assert timeouts[-1] - timeouts[0] >= timedelta(hours=1)


def test_absence_counts_from_lease_expiry_after_crash() -> None:
    job = make_job(lease_until=NOW + timedelta(seconds=60))

    lost = decide(job, TERMS, LeaseExpired(), now=NOW + timedelta(minutes=5))
    after = lost.apply_to(job, now=NOW + timedelta(minutes=5), actor="reconciler")

    assert absence_conclusive_at(after, TERMS) == NOW + timedelta(seconds=60) + SECONDS_40


def test_absence_counts_from_report_after_timeout() -> None:
    job = make_job(lease_until=NOW + timedelta(seconds=60))

    lost = decide(job, TERMS, Ambiguous("timeout"), now=NOW)
    after = lost.apply_to(job, now=NOW, actor="worker")

    assert absence_conclusive_at(after, TERMS) == NOW + SECONDS_40


def test_early_lookup_does_not_delay_when_absence_counts() -> None:
    job = make_job(status=Status.UNKNOWN, lease_until=NOW)
    early = NOW + SECONDS_40 - TICK

    waiting = decide(job, TERMS, NotFound("none"), now=early)
    after = waiting.apply_to(job, now=early, actor="reconciler")

    assert after.due_at == NOW + SECONDS_40
    assert decide(after, TERMS, NotFound("none"), now=after.due_at).event is Event.REQUEUE


def test_absence_counts_after_request_timeout_without_lag() -> None:
    terms = replace(TERMS, profile=replace(PROFILE, lookup_lag=None))

    assert absence_conclusive_at(make_job(lease_until=NOW), terms) == NOW + timedelta(seconds=10)


def test_absent_effect_is_retried_at_once_after_crash() -> None:
    job = make_job(status=Status.UNKNOWN, timeouts=0)

    back = decide(job, TERMS, NotFound("no payment was prepared", conclusive=True), now=NOW)

    assert (back.event, back.run_at) == (Event.REQUEUE, NOW)
    assert back.changes["due_at"] == NOW + MESSAGE_GRACE


def test_row_is_due_at_retry_time_after_timeouts() -> None:
    job = make_job(status=Status.UNKNOWN, timeouts=2)

    back = decide(job, TERMS, NotFound("none", conclusive=True), now=NOW)

    assert back.run_at == back.changes["due_at"] == NOW + timedelta(minutes=8)


def test_retry_follows_provider_retry_after() -> None:
    limited = NotSent("rate limited", retry_after=timedelta(seconds=7))

    assert decide(make_job(), TERMS, limited, now=NOW).run_at == NOW + timedelta(seconds=7)


def test_effect_in_progress_is_looked_up_later() -> None:
    decision = decide(make_job(), TERMS, Pending("waits for the bank"), now=NOW)

    assert decision.event is Event.MARK_UNKNOWN
    assert decision.changes["due_at"] == NOW + PENDING_RECHECK_INTERVAL


def test_unknown_job_is_resent_with_same_key_within_window() -> None:
    job = make_job(status=Status.UNKNOWN, lease_until=NOW - SECONDS_40)

    decision = decide(job, TERMS, LookupUnsupported(), now=NOW, key_scope="live")

    assert (decision.event, decision.run_at) == (Event.REQUEUE, NOW)
    assert decision.apply_to(job, now=NOW, actor="reconciler").key_number == job.key_number


def test_long_wait_is_resent_by_row_and_short_one_by_message() -> None:
    limited = NotSent("daily limit", retry_after=timedelta(hours=6))

    back = decide(make_job(), TERMS, limited, now=NOW)
    short = decide(make_job(), TERMS, NotSent("busy", retry_after=timedelta(hours=1)), now=NOW)

    assert back.run_at == back.changes["due_at"] == NOW + timedelta(hours=6)
    assert (back.resend_when_due, short.resend_when_due) == (True, False)
    assert short.changes["due_at"] == NOW + timedelta(hours=1) + MESSAGE_GRACE


def test_long_waits_have_jitter() -> None:
    limited = NotSent("daily limit", retry_after=timedelta(hours=6))

    back = decide(make_job(), TERMS, limited, now=NOW, jitter=0.5)

    assert back.run_at == NOW + timedelta(hours=6) + MAX_BACKOFF / 2


@pytest.mark.parametrize("status", [Status.STARTED, Status.UNKNOWN])
def test_provider_requested_wait_does_not_count_as_age(status: Status) -> None:
    day = timedelta(hours=24)
    answer: EffectOutcome = NotSent("limit", retry_after=day)
    if status is Status.UNKNOWN:
        answer = LookupFailed("limit", retry_after=day)
    job = make_job(status=status, created_at=NOW - timedelta(hours=23))

    waited = decide(job, TERMS, answer, now=NOW).apply_to(job, now=NOW, actor="test")

    assert waited.due_at is not None
    assert waited.past_max_age(TERMS.limits.max_age, NOW + day) is None
    assert waited.past_max_age(TERMS.limits.max_age, NOW + day + timedelta(hours=1)) is not None


def test_own_backoff_counts_as_age() -> None:
    job = make_job(created_at=NOW - timedelta(hours=23))

    waited = decide(job, TERMS, NotSent("refused"), now=NOW).apply_to(job, now=NOW, actor="test")

    assert waited.age_starts_at == job.age_starts_at


def test_lookup_follows_provider_retry_after() -> None:
    job = make_job(status=Status.UNKNOWN)

    wait = decide(job, TERMS, LookupFailed("limit", retry_after=timedelta(hours=2)), now=NOW)

    assert (wait.event, wait.changes["due_at"]) == (Event.RECHECK, NOW + timedelta(hours=2))


@pytest.mark.parametrize("gone", ["key_window", "first_sent_at"])
def test_unknown_job_escalates_without_known_key_window(gone: str) -> None:
    terms, job = TERMS, make_job(status=Status.UNKNOWN, lease_until=NOW - SECONDS_40)
    if gone == "key_window":
        terms = replace(TERMS, profile=replace(PROFILE, key_ttl=None))
    else:
        job = replace(job, first_sent_at=None)

    decision = decide(job, terms, LookupUnsupported(), now=NOW, key_scope="live")

    assert decision.event is Event.ESCALATE


def test_escalation_reason_includes_last_error() -> None:
    job = make_job(status=Status.UNKNOWN, lease_until=NOW - SECONDS_40, last_error="read timeout")

    decision = decide(job, TERMS, LookupUnsupported(), now=NOW, key_scope="another account")

    assert "it may have happened: read timeout" in decision.reason


def test_escalation_reason_keeps_error_across_lookups() -> None:
    terms = replace(TERMS, safety=RetrySafety.AT_MOST_ONCE)
    job = _claim(None, NOW)
    for answer, at in (
        (Ambiguous("the mail server hung up"), NOW),
        (LookupUnsupported(), NOW + TICK),
        (LookupUnsupported(), NOW + timedelta(hours=1)),
    ):
        job = decide(job, terms, answer, now=at).apply_to(job, now=at, actor="anyone")

    assert job.status is Status.NEEDS_REVIEW
    assert "the mail server hung up" in job.evidence[-1].reason
