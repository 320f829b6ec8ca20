"""How long to wait: longer each time, never too long, and not all at the same moment."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncely.domain.decide import decide
from oncely.domain.decisions import backoff, retry_delay
from oncely.domain.effect_outcomes import EffectOutcome, LookupFailed, NotFound, NotSent, Pending
from oncely.domain.lifecycle import Status
from tests.unit.samples import NOW, TERMS, make_job

FIRST = timedelta(seconds=15)
MAX_DELAY = timedelta(minutes=15)
JITTER = st.floats(0, 1, exclude_max=True)
# Counters only rise: no limit of theirs may be a limit of the arithmetic.
TIMES = st.integers(0, 10**6)


@pytest.mark.parametrize(
    ("times", "seconds"), [(0, 15), (1, 15), (2, 30), (3, 60), (6, 480), (7, 900), (1000, 900)]
)
def test_backoff_doubles_up_to_maximum(times: int, seconds: int) -> None:
    assert backoff(FIRST, times, jitter=0, max_delay=MAX_DELAY) == timedelta(seconds=seconds)


@given(times=TIMES, spread=JITTER)
def test_jitter_adds_at_most_one_quarter(times: int, spread: float) -> None:
    plain = backoff(FIRST, times, jitter=0, max_delay=MAX_DELAY)

    wait = backoff(FIRST, times, jitter=spread, max_delay=MAX_DELAY)

    assert plain <= wait <= plain * 1.25


@given(times=TIMES)
def test_backoff_never_shrinks(times: int) -> None:
    wait = backoff(FIRST, times, jitter=0, max_delay=MAX_DELAY)

    assert FIRST <= wait <= backoff(FIRST, times + 1, jitter=0, max_delay=MAX_DELAY) <= MAX_DELAY


@pytest.mark.parametrize(
    ("timeouts", "minutes"), [(0, 0), (1, 4), (2, 8), (3, 16), (4, 32), (9, 120)]
)
def test_retry_waits_only_after_timeouts(timeouts: int, minutes: int) -> None:
    assert retry_delay(timeouts, 0) == timedelta(minutes=minutes)


def test_jobs_of_same_outage_retry_with_jitter() -> None:
    job = make_job(status=Status.UNKNOWN, unreachable=2)

    early = decide(job, TERMS, LookupFailed("down"), now=NOW, jitter=0.0)
    late = decide(job, TERMS, LookupFailed("down"), now=NOW, jitter=0.8)

    assert early.changes["due_at"] == NOW + timedelta(seconds=60)
    assert late.changes["due_at"] == NOW + timedelta(seconds=72)


def test_not_sent_effect_retries_with_growing_backoff() -> None:
    waits = [
        (decide(make_job(unreachable=times), TERMS, NotSent("refused"), now=NOW).run_at or NOW)
        - NOW
        for times in range(8)
    ]

    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (FIRST, MAX_DELAY)


@pytest.mark.parametrize(
    ("status", "answer", "minutes"),
    [
        (Status.STARTED, Pending("not yet"), 1),
        (Status.UNKNOWN, Pending("not yet"), 1),
        (Status.UNKNOWN, NotFound("none", conclusive=True), 15),  # until its new message was worked
        (Status.STARTED, NotSent("429", timedelta(hours=5)), 5 * 60),  # the row sends it then
        (Status.STARTED, NotSent("429", timedelta(hours=30)), 24 * 60),  # no provider may ask more
        (Status.STARTED, NotSent("429", timedelta(minutes=2)), 2 + 15),
    ],
)
def test_decided_job_is_due_after_fixed_time(
    status: Status, answer: EffectOutcome, minutes: int
) -> None:
    decision = decide(make_job(status=status), TERMS, answer, now=NOW)

    assert decision.changes["due_at"] == NOW + timedelta(minutes=minutes)
