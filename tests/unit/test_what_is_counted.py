"""Attempts and timeouts: what spends one, what gives it back, and what costs nothing."""

from datetime import timedelta

import pytest

from oncely.domain.answers import (
    Absent,
    NotSent,
    OwnerGone,
    Processing,
    Unclear,
    Unfinished,
    Unreachable,
)
from oncely.domain.decide import decide, progressed
from oncely.domain.lifecycle import Event, Status
from oncely.domain.profiles import Safety
from tests.unit.grid import answered, cases
from tests.unit.samples import NOW, TERMS, a_job


def test_unreachable_provider_spends_no_attempt_or_timeout() -> None:
    for case, _ in answered(Unreachable, Status.UNKNOWN):
        assert case.after.attempts == case.job.attempts, case
        assert case.after.timeouts == case.job.timeouts, case


def test_pending_effect_spends_no_attempt_or_timeout() -> None:
    for case, _ in answered(Processing):
        assert case.after.attempts == case.job.attempts, case
        assert case.after.timeouts == case.job.timeouts, case


@pytest.mark.parametrize("kind", [Unreachable, Processing])
def test_unreachable_or_pending_escalates_only_at_age_limit(
    kind: type[Unreachable | Processing],
) -> None:
    for case, _ in answered(kind, Status.UNKNOWN):
        assert case.decision.event is (Event.ESCALATE if case.too_old else Event.WAIT), case


def test_outage_is_counted_apart_until_provider_responds() -> None:
    job = a_job(status=Status.UNKNOWN, unreachable=3)

    down = decide(job, TERMS, Unreachable("down"), now=NOW)
    back = decide(job, TERMS, Processing("not yet"), now=NOW)
    absent = decide(job, TERMS, Absent("none", proved=True), now=NOW)

    assert down.changes["unreachable"] == 4
    assert back.changes["unreachable"] == 0
    assert (absent.event, absent.changes["unreachable"]) == (Event.RETURN, 0)


def test_unsent_effect_returns_its_attempt() -> None:
    for case, answer in answered(NotSent, Status.STARTED):
        assert case.decision.event is Event.RELEASE, case
        assert case.after.attempts == case.job.attempts - 1, case
        assert case.decision.alarm is answer.alarm, case


def test_continued_job_returns_attempt_and_gets_fresh_message() -> None:
    for case, _ in answered(Unfinished, Status.STARTED):
        assert case.decision.event is Event.RELEASE, case
        assert case.after.attempts == case.job.attempts - 1, case
        assert (case.decision.fresh_message, case.decision.run_at) == (True, NOW), case


def test_no_other_outcome_returns_attempt() -> None:
    for case in cases():
        if case.status is Status.UNKNOWN or not isinstance(case.answer, NotSent | Unfinished):
            assert case.after.attempts == case.job.attempts, case
            assert not case.decision.fresh_message, case


def test_timeout_is_counted_and_crash_is_not() -> None:
    for case in cases(Status.STARTED):
        if isinstance(case.answer, Unclear | OwnerGone) and case.safety is not Safety.NATURAL:
            counted = isinstance(case.answer, Unclear)
            assert case.decision.event is Event.LOSE, case
            assert case.after.timeouts == case.job.timeouts + counted, case


def test_unreachable_effect_counts_as_timeout() -> None:
    for case, _ in answered(Unreachable, Status.STARTED):
        if case.safety is not Safety.NATURAL:
            assert case.decision.event is Event.LOSE, case
            assert case.after.timeouts == case.job.timeouts + 1, case


def test_unsent_effect_clears_first_use_of_idempotency_key() -> None:
    first = a_job(claimed_at=NOW, first_sent_at=NOW)

    released = decide(first, TERMS, NotSent("refused"), now=NOW)

    assert released.changes["first_sent_at"] is None
    assert released.changes["key_scope"] is None


def test_unsent_effect_keeps_earlier_send() -> None:
    second = a_job(claimed_at=NOW, first_sent_at=NOW - timedelta(hours=1))

    released = decide(second, TERMS, NotSent("refused"), now=NOW)

    assert not {"first_sent_at", "key_scope"} & released.changes.keys()


def test_progress_resets_attempts_and_timeouts() -> None:
    job = a_job(attempts=7, timeouts=4, unreachable=2)

    after = progressed({"page": 3}).on(job, now=NOW, actor="worker")

    assert (after.status, after.progress) == (Status.STARTED, {"page": 3})
    assert (after.attempts, after.timeouts, after.unreachable) == (1, 0, 0)
