"""Retry delays grow up to a maximum, with jitter."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncely.core.decide import backoff, pending_delay, retry_delay
from oncely.core.effect_outcomes import EffectOutcome, LookupFailed, NotFound, NotSent, Pending
from oncely.core.lifecycle import Status
from oncely.core.profiles import RetryLimits
from tests.unit.decision_grid import decide_any
from tests.unit.samples import NOW, TERMS, make_job

FIRST = timedelta(seconds=15)
MAX_DELAY = timedelta(minutes=15)
JITTER = st.floats(0, 1, exclude_max=True)
# Counters only increase, so the delay must be valid for any count.
TIMES = st.integers(0, 10**6)


@pytest.mark.parametrize(
    ("times", "seconds"), [(0, 15), (1, 15), (2, 30), (3, 60), (6, 480), (7, 900), (1000, 900)]
)
def test_backoff_doubles_up_to_maximum(times: int, seconds: int) -> None:
    assert backoff(FIRST, times, jitter=0, max_delay=MAX_DELAY) == timedelta(seconds=seconds)


@given(times=TIMES, jitter=JITTER)
def test_jitter_adds_at_most_one_quarter(times: int, jitter: float) -> None:
    plain = backoff(FIRST, times, jitter=0, max_delay=MAX_DELAY)
    assert plain <= backoff(FIRST, times, jitter=jitter, max_delay=MAX_DELAY) <= plain * 1.25


@given(times=TIMES)
def test_backoff_never_shrinks(times: int) -> None:
    wait = backoff(FIRST, times, jitter=0, max_delay=MAX_DELAY)
    assert FIRST <= wait <= backoff(FIRST, times + 1, jitter=0, max_delay=MAX_DELAY) <= MAX_DELAY


@pytest.mark.parametrize(
    ("timeouts", "minutes"), [(0, 0), (1, 0), (2, 9), (3, 18), (4, 36), (9, 120)]
)
def test_retry_waits_after_second_timeout(timeouts: int, minutes: int) -> None:
    assert retry_delay(timeouts, 0) == timedelta(minutes=minutes)


def test_five_timeouts_take_an_hour() -> None:
    limit = RetryLimits().max_consecutive_timeouts
    delays = [retry_delay(timeouts, 0) for timeouts in range(1, limit)]
    assert sum(delays, timedelta(0)) >= timedelta(hours=1)


def test_jobs_of_same_outage_retry_with_jitter() -> None:
    job = make_job(status=Status.UNKNOWN, unreachable=2)
    for jitter, seconds in ((0.0, 60), (0.8, 72)):
        decision = decide_any(job, TERMS, LookupFailed("down"), now=NOW, jitter=jitter)
        assert decision.changes["due_at"] == NOW + timedelta(seconds=seconds)


def test_not_sent_effect_retries_with_growing_backoff() -> None:
    jobs = [make_job(unreachable=times) for times in range(8)]
    times = [decide_any(job, TERMS, NotSent("refused"), now=NOW).run_at or NOW for job in jobs]
    assert times == sorted(times)
    assert (times[0], times[-1]) == (NOW + FIRST, NOW + MAX_DELAY)


@pytest.mark.parametrize(
    ("status", "outcome", "minutes"),
    [
        (Status.STARTED, Pending("not yet"), 1),
        (Status.UNKNOWN, Pending("not yet"), 1),
        (Status.UNKNOWN, NotFound("none", conclusive=True), 15),  # until its new message ran
        (Status.STARTED, NotSent("429", timedelta(hours=5)), 5 * 60),  # the row sends it then
        (Status.STARTED, NotSent("429", timedelta(hours=30)), 24 * 60),  # the longest wait
        (Status.STARTED, NotSent("429", timedelta(minutes=2)), 2 + 15),
    ],
)
def test_job_is_due_after_fixed_time(status: Status, outcome: EffectOutcome, minutes: int) -> None:
    decision = decide_any(make_job(status=status), TERMS, outcome, now=NOW)
    assert decision.changes["due_at"] == NOW + timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("elapsed_minutes", "minutes"),
    [(0, 1), (1, 1), (5, 5), (59, 59), (61, 60), (24 * 60 - 1, 60), (24 * 60, 6 * 60)],
)
def test_pending_effect_is_looked_up_hourly_then_a_few_times_a_day(
    elapsed_minutes: int, minutes: int
) -> None:
    elapsed, delay = timedelta(minutes=elapsed_minutes), timedelta(minutes=minutes)
    assert pending_delay(elapsed, jitter=0) == delay
    assert pending_delay(elapsed, jitter=0.8) == delay * 1.2
