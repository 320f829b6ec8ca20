"""How long to wait: longer each time, never too long, and not all at the same moment."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncely.domain.answers import Absent, Answer, NotSent, Processing, Unreachable
from oncely.domain.decide import decide
from oncely.domain.lifecycle import Status
from oncely.domain.moves import backoff, retry_wait
from tests.unit.samples import NOW, TERMS, a_job

FIRST = timedelta(seconds=15)
LONGEST = timedelta(minutes=15)
SPREAD = st.floats(0, 1, exclude_max=True)
# Counters only rise: no limit of theirs may be a limit of the arithmetic.
TIMES = st.integers(0, 10**6)


@pytest.mark.parametrize(
    ("times", "seconds"), [(0, 15), (1, 15), (2, 30), (3, 60), (6, 480), (7, 900), (1000, 900)]
)
def test_backoff_doubles_up_to_maximum(times: int, seconds: int) -> None:
    assert backoff(FIRST, times, spread=0, longest=LONGEST) == timedelta(seconds=seconds)


@given(times=TIMES, spread=SPREAD)
def test_jitter_adds_at_most_one_quarter(times: int, spread: float) -> None:
    plain = backoff(FIRST, times, spread=0, longest=LONGEST)

    wait = backoff(FIRST, times, spread=spread, longest=LONGEST)

    assert plain <= wait <= plain * 1.25


@given(times=TIMES)
def test_backoff_never_shrinks(times: int) -> None:
    wait = backoff(FIRST, times, spread=0, longest=LONGEST)

    assert FIRST <= wait <= backoff(FIRST, times + 1, spread=0, longest=LONGEST) <= LONGEST


@pytest.mark.parametrize(
    ("timeouts", "minutes"), [(0, 0), (1, 4), (2, 8), (3, 16), (4, 32), (9, 120)]
)
def test_retry_waits_only_after_timeouts(timeouts: int, minutes: int) -> None:
    assert retry_wait(timeouts, 0) == timedelta(minutes=minutes)


def test_jobs_of_same_outage_retry_with_jitter() -> None:
    job = a_job(status=Status.UNKNOWN, unreachable=2)

    early = decide(job, TERMS, Unreachable("down"), now=NOW, spread=0.0)
    late = decide(job, TERMS, Unreachable("down"), now=NOW, spread=0.8)

    assert early.changes["due_at"] == NOW + timedelta(seconds=60)
    assert late.changes["due_at"] == NOW + timedelta(seconds=72)


def test_not_sent_effect_retries_with_growing_backoff() -> None:
    waits = [
        (decide(a_job(unreachable=times), TERMS, NotSent("refused"), now=NOW).run_at or NOW) - NOW
        for times in range(8)
    ]

    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (FIRST, LONGEST)


@pytest.mark.parametrize(
    ("status", "answer", "minutes"),
    [
        (Status.STARTED, Processing("not yet"), 1),
        (Status.UNKNOWN, Processing("not yet"), 1),
        (Status.UNKNOWN, Absent("none", proved=True), 15),  # until its new message was worked
        (Status.STARTED, NotSent("429", timedelta(hours=5)), 5 * 60),  # the row sends it then
        (Status.STARTED, NotSent("429", timedelta(hours=30)), 24 * 60),  # no provider may ask more
        (Status.STARTED, NotSent("429", timedelta(minutes=2)), 2 + 15),
    ],
)
def test_decided_job_is_due_after_fixed_time(status: Status, answer: Answer, minutes: int) -> None:
    decision = decide(a_job(status=status), TERMS, answer, now=NOW)

    assert decision.changes["due_at"] == NOW + timedelta(minutes=minutes)
