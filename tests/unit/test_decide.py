"""Examples of `decide`: its delays, conclusive absence, and natural effects that run again."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from oncely.core.decide import (
    MAX_BACKOFF,
    MESSAGE_GRACE,
    PENDING_RECHECK_INTERVAL,
    absence_conclusive_at,
    on_business_conflict,
    on_lease_expired,
)
from oncely.core.effect_outcomes import (
    Ambiguous,
    Declined,
    EffectOutcome,
    InProgress,
    LookupFailed,
    LookupOutcome,
    LookupUnsupported,
    NotFound,
    NotSent,
    Pending,
    Succeeded,
)
from oncely.core.job_row import JobRow
from oncely.core.lifecycle import Event, Status
from oncely.core.profiles import RetrySafety
from tests.unit.decision_grid import EFFECT_OUTCOMES, decide_any, decision_cases
from tests.unit.samples import NOW, PROFILE, TERMS, TICK, claim_row, make_claim, make_job

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
SECONDS_40 = timedelta(seconds=40)  # a request's 10 s, and 30 s of the lookup's lag


def _claim(job: JobRow | None, now: datetime) -> JobRow:
    return claim_row(job, make_claim(now=now, lease_until=now + timedelta(seconds=60)))


@pytest.mark.parametrize("safety", [RetrySafety.KEYED, RetrySafety.NATURAL])
def test_timeouts_before_escalation_span_at_least_one_hour(safety: RetrySafety) -> None:
    terms = replace(TERMS, safety=safety)
    job, timeouts = _claim(None, NOW), [NOW]
    while True:
        decision = decide_any(job, terms, Ambiguous("timeout"), now=timeouts[-1])
        job = decision.apply_to(job, now=timeouts[-1], actor="worker")
        if safety is RetrySafety.KEYED:
            looked_up = absence_conclusive_at(job, terms)
            decision = decide_any(job, terms, NotFound("none"), now=looked_up, key_scope="live")
            job = decision.apply_to(job, now=looked_up, actor="reconciler")
        if decision.run_at is None:
            break
        timeouts.append(decision.run_at)
        job = _claim(job, decision.run_at)

    assert job.status is Status.NEEDS_REVIEW
    assert len(timeouts) == TERMS.limits.max_consecutive_timeouts
    assert timeouts[-1] - timeouts[0] >= timedelta(hours=1)


@pytest.mark.parametrize(
    ("outcome", "at", "counts_from"),
    [
        pytest.param(None, NOW + 5 * MINUTE, NOW + MINUTE, id="lease expiry"),
        pytest.param(Ambiguous("timeout"), NOW, NOW, id="timeout"),
    ],
)
def test_absence_counts_from_end_of_last_run(
    outcome: EffectOutcome | None, at: datetime, counts_from: datetime
) -> None:
    job = make_job(lease_until=NOW + MINUTE)
    after = decide_any(job, TERMS, outcome, now=at).apply_to(job, now=at, actor="worker")
    assert absence_conclusive_at(after, TERMS) == counts_from + SECONDS_40


def test_early_lookup_does_not_delay_when_absence_counts() -> None:
    job = make_job(status=Status.UNKNOWN, lease_until=NOW)
    early = NOW + SECONDS_40 - TICK

    after = decide_any(job, TERMS, NotFound("none"), now=early).apply_to(
        job, now=early, actor="test"
    )

    assert after.due_at == NOW + SECONDS_40
    counted = decide_any(after, TERMS, NotFound("none"), now=after.due_at, key_scope="live")
    assert counted.event is Event.REQUEUE


def test_absence_counts_after_request_timeout_without_lag() -> None:
    terms = replace(TERMS, profile=replace(PROFILE, lookup_lag=None))
    assert absence_conclusive_at(make_job(lease_until=NOW), terms) == NOW + timedelta(seconds=10)


@pytest.mark.parametrize(("timeouts", "run_in", "due_in"), [(0, 0, 15), (1, 0, 15), (2, 9, 9)])
def test_absent_effect_waits_by_count_of_timeouts(timeouts: int, run_in: int, due_in: int) -> None:
    job = make_job(status=Status.UNKNOWN, timeouts=timeouts)
    decision = decide_any(job, TERMS, NotFound("none", conclusive=True), now=NOW)
    assert (decision.event, decision.run_at) == (Event.REQUEUE, NOW + run_in * MINUTE)
    assert decision.changes["due_at"] == NOW + due_in * MINUTE


def test_unknown_job_is_resent_with_same_key_within_window() -> None:
    job = make_job(status=Status.UNKNOWN, lease_until=NOW - SECONDS_40)
    decision = decide_any(job, TERMS, LookupUnsupported(), now=NOW, key_scope="live")
    assert (decision.event, decision.run_at) == (Event.REQUEUE, NOW)
    assert decision.apply_to(job, now=NOW, actor="reconciler").key_number == job.key_number


@pytest.mark.parametrize(
    ("retry_after", "jitter", "run_in", "due_in"),
    [
        (7 * SECOND, 0, 7 * SECOND, 7 * SECOND + MESSAGE_GRACE),
        (HOUR, 0, HOUR, HOUR + MESSAGE_GRACE),
        (6 * HOUR, 0, 6 * HOUR, 6 * HOUR),
        (6 * HOUR, 0.5, 6 * HOUR + MAX_BACKOFF / 2, 6 * HOUR + MAX_BACKOFF / 2),
    ],
)
def test_long_wait_is_resent_by_row_and_short_one_by_message(
    retry_after: timedelta, jitter: float, run_in: timedelta, due_in: timedelta
) -> None:
    limited = NotSent("rate limited", retry_after=retry_after)
    decision = decide_any(make_job(), TERMS, limited, now=NOW, jitter=jitter)
    assert (decision.run_at, decision.changes["due_at"]) == (NOW + run_in, NOW + due_in)


@pytest.mark.parametrize(
    ("status", "outcome", "event", "due_in"),
    [
        (Status.STARTED, Pending("at the bank"), Event.MARK_UNKNOWN, PENDING_RECHECK_INTERVAL),
        (Status.UNKNOWN, LookupFailed("limit", retry_after=2 * HOUR), Event.RECHECK, 2 * HOUR),
    ],
)
def test_open_outcome_is_looked_up_later(
    status: Status, outcome: EffectOutcome | LookupOutcome, event: Event, due_in: timedelta
) -> None:
    decision = decide_any(make_job(status=status), TERMS, outcome, now=NOW)
    assert (decision.event, decision.changes["due_at"]) == (event, NOW + due_in)


@pytest.mark.parametrize("status", [Status.STARTED, Status.UNKNOWN])
def test_provider_requested_wait_does_not_count_as_age(status: Status) -> None:
    day = timedelta(hours=24)
    outcome: EffectOutcome | LookupOutcome = NotSent("limit", retry_after=day)
    if status is Status.UNKNOWN:
        outcome = LookupFailed("limit", retry_after=day)
    job = make_job(status=status, created_at=NOW - timedelta(hours=23))

    waited = decide_any(job, TERMS, outcome, now=NOW).apply_to(job, now=NOW, actor="test")

    assert waited.due_at is not None
    assert waited.past_max_age(TERMS.limits.max_age, NOW + day) is None
    assert waited.past_max_age(TERMS.limits.max_age, NOW + day + timedelta(hours=1)) is not None


def test_processing_after_a_send_does_not_count_as_age() -> None:
    job = make_job(created_at=NOW - timedelta(hours=23))
    sent = decide_any(job, TERMS, Pending("at the bank"), now=NOW)
    after = sent.apply_to(job, now=NOW, actor="worker")
    assert after.due_at is not None
    assert after.due_at - after.age_starts_at(after.due_at) == NOW - job.created_at


def test_next_part_of_long_job_begins_its_own_key_window() -> None:
    """What was sent before is in the progress, so the account may have changed since."""
    job, later = make_job(), NOW + 2 * HOUR
    part = decide_any(job, TERMS, InProgress("3 of 9"), now=NOW)
    saved = part.apply_to(job, now=NOW, actor="worker")
    claim = make_claim(now=later, lease_until=later + MINUTE, key_scope="another account")

    claimed = claim_row(saved, claim)

    assert (claimed.first_sent_at, claimed.key_scope) == (later, "another account")
    assert not claimed.has_ambiguous_send


def test_own_backoff_counts_as_age() -> None:
    job = make_job(created_at=NOW - timedelta(hours=23))
    waited = decide_any(job, TERMS, NotSent("refused"), now=NOW).apply_to(
        job, now=NOW, actor="test"
    )
    assert waited.age_starts_at(NOW) == job.age_starts_at(NOW)


@pytest.mark.parametrize("gone", ["key_window", "first_sent_at"])
def test_unknown_job_escalates_without_known_key_window(gone: str) -> None:
    terms, job = TERMS, make_job(status=Status.UNKNOWN, lease_until=NOW - SECONDS_40)
    if gone == "key_window":
        terms = replace(TERMS, profile=replace(PROFILE, key_ttl=None))
    else:
        job = replace(job, first_sent_at=None)

    decision = decide_any(job, terms, LookupUnsupported(), now=NOW, key_scope="live")

    assert decision.event is Event.ESCALATE


def test_escalation_reason_includes_last_error() -> None:
    job = make_job(status=Status.UNKNOWN, lease_until=NOW - SECONDS_40, last_error="read timeout")
    decision = decide_any(job, TERMS, LookupUnsupported(), now=NOW, key_scope="another account")
    assert "it may have happened: read timeout" in decision.reason


def test_escalation_reason_keeps_error_across_lookups() -> None:
    terms = replace(TERMS, safety=RetrySafety.AT_MOST_ONCE)
    job = _claim(None, NOW)
    for outcome, at in (
        (Ambiguous("the mail server hung up"), NOW),
        (LookupUnsupported(), NOW + TICK),
        (LookupUnsupported(), NOW + timedelta(hours=1)),
    ):
        job = decide_any(job, terms, outcome, now=at).apply_to(job, now=at, actor="anyone")

    assert job.status is Status.NEEDS_REVIEW
    assert "the mail server hung up" in job.evidence[-1].reason


LOOKED_UP = replace(TERMS, safety=RetrySafety.LOOKUP)


def _kept_decline() -> JobRow:
    """A job whose re-send was declined just now."""
    sent = make_job(first_sent_at=NOW - MINUTE, attempts=2)
    declined = Declined("no credit", "credit", {"request": "req_2"})
    return decide_any(sent, TERMS, declined, now=NOW).apply_to(sent, now=NOW, actor="worker")


def test_kept_decline_fails_the_job_only_when_the_lookup_is_conclusive() -> None:
    job, conclusive = _kept_decline(), NOW + SECONDS_40
    early = decide_any(job, TERMS, NotFound("there is none"), now=conclusive - TICK)
    assert (early.event, early.changes["due_at"]) == (Event.RECHECK, conclusive)

    for absent, at in (
        (NotFound("there is none"), conclusive),
        (NotFound("there is none", conclusive=True), NOW),
    ):
        after = decide_any(job, TERMS, absent, now=at).apply_to(job, now=at, actor="reconciler")

        assert after.status is Status.FAILED
        assert after.result == {"code": "credit", "request": "req_2"}
        assert (after.last_error, after.closing) == ("no credit; there is none", None)


def test_effect_that_is_found_finishes_a_job_with_a_kept_decline() -> None:
    job = _kept_decline()
    found = decide_any(job, TERMS, Succeeded("issued", "v_1", {}), now=NOW)
    after = found.apply_to(job, now=NOW, actor="reconciler")
    assert (after.status, after.closing) == (Status.FINISHED, None)


def test_kept_decline_is_not_sent_again_if_the_lookup_is_gone() -> None:
    """A newer version of the job type may have none, although its key is still safe."""
    job, later = _kept_decline(), NOW + MINUTE
    decision = decide_any(job, TERMS, LookupUnsupported(), now=later, key_scope="live")
    assert decision.event is Event.ESCALATE
    assert decision.reason == (
        "no credit; but an earlier request may have done it, and this provider has no lookup"
    )


def test_decline_after_an_absence_is_looked_up_once_more() -> None:
    """The lookup may have lagged longer than its provider says: the effect is why it declines."""
    resent = make_job(attempts=2)
    assert not resent.has_ambiguous_send
    declined = Declined("the order has one", "taken")
    assert decide_any(resent, LOOKED_UP, declined, now=NOW).event is Event.MARK_UNKNOWN
    # Without a lookup, only an open send is a doubt.
    keyed = replace(TERMS, profile=replace(PROFILE, lookup_lag=None))
    assert decide_any(resent, keyed, declined, now=NOW).event is Event.DECLINE


def test_decline_of_the_only_send_fails_the_job() -> None:
    for policy in (TERMS, LOOKED_UP, NATURAL):
        decision = decide_any(make_job(), policy, Declined("no credit", "credit"), now=NOW)
        assert decision.event is Event.DECLINE


NATURAL = replace(TERMS, safety=RetrySafety.NATURAL)
DONE = decide_any(make_job(), NATURAL, EFFECT_OUTCOMES[0], now=NOW)


def test_natural_effect_never_becomes_unknown() -> None:
    for case in decision_cases(Status.STARTED, RetrySafety.NATURAL):
        assert case.after.status is not Status.UNKNOWN, case


def test_natural_effect_retries_at_once_when_lease_expires() -> None:
    decision = on_lease_expired(make_job(), NATURAL, now=NOW)
    assert (decision.event, decision.run_at) == (Event.RELEASE, NOW)
    assert decision.apply_to(make_job(), now=NOW, actor="worker").timeouts == 0


def test_natural_effect_retries_later_when_in_progress() -> None:
    decision = decide_any(make_job(), NATURAL, Pending("still importing"), now=NOW)
    assert (decision.event, decision.run_at) == (Event.RELEASE, NOW + PENDING_RECHECK_INTERVAL)


@pytest.mark.parametrize(
    ("before", "event"), [(0, Event.RELEASE), (3, Event.RELEASE), (4, Event.ESCALATE)]
)
def test_natural_effect_escalates_after_too_many_timeouts(before: int, event: Event) -> None:
    assert (
        decide_any(make_job(timeouts=before), NATURAL, Ambiguous("timeout"), now=NOW).event is event
    )


@pytest.mark.parametrize(("attempts", "event"), [(7, Event.RELEASE), (8, Event.ESCALATE)])
def test_natural_effect_retries_row_conflict_up_to_limit(attempts: int, event: Event) -> None:
    job = make_job(attempts=attempts)
    decision = on_business_conflict(job, NATURAL, DONE, reason="contacts 7", now=NOW)
    assert decision.event is event
    assert "contacts 7" in decision.reason


def test_unknown_natural_effect_retries_when_rows_conflict() -> None:
    job = make_job(status=Status.UNKNOWN)
    decision = on_business_conflict(job, NATURAL, DONE, reason="contacts 7", now=NOW)
    after = decision.apply_to(job, now=NOW, actor="reconciler")
    assert (after.status, decision.run_at) == (Status.READY, NOW)


def test_unknown_natural_effect_retries_under_any_key_scope() -> None:
    job = make_job(status=Status.UNKNOWN, lease_until=NOW - timedelta(hours=1), key_scope="other")
    decision = decide_any(job, NATURAL, LookupUnsupported(), now=NOW, key_scope="live")
    assert (decision.event, decision.reason) == (Event.REQUEUE, "safe to run again")
