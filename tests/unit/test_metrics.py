"""Attempts and timeouts: what uses one, what returns it, and what uses none."""

from datetime import timedelta

from oncely.core.decide import save_progress
from oncely.core.effect_outcomes import (
    Ambiguous,
    InProgress,
    LookupFailed,
    NotFound,
    NotSent,
    Pending,
)
from oncely.core.lifecycle import Event, Status, WaitKind
from oncely.core.profiles import RetrySafety
from tests.unit.decision_grid import cases_with_outcome, decide_any, decision_cases
from tests.unit.samples import NOW, TERMS, make_job


def test_unreachable_or_pending_spends_no_attempt_or_timeout() -> None:
    cases = [*cases_with_outcome(LookupFailed, Status.UNKNOWN), *cases_with_outcome(Pending)]
    for case, _ in cases:
        assert case.after.attempts == case.job.attempts, case
        assert case.after.timeouts == case.job.timeouts, case


def test_unreachable_provider_escalates_at_age_limit() -> None:
    for case, _ in cases_with_outcome(LookupFailed, Status.UNKNOWN):
        assert case.decision.event is (Event.ESCALATE if case.too_old else Event.RECHECK), case


def test_pending_effect_has_a_limit_of_its_own() -> None:
    for case, _ in cases_with_outcome(Pending, Status.UNKNOWN):
        assert case.decision.event is Event.RECHECK, case


def test_outage_is_counted_apart_until_provider_responds() -> None:
    job = make_job(status=Status.UNKNOWN, unreachable=3)

    down = decide_any(job, TERMS, LookupFailed("down"), now=NOW)
    back = decide_any(job, TERMS, Pending("not yet"), now=NOW)
    absent = decide_any(job, TERMS, NotFound("none", conclusive=True), now=NOW)

    assert down.changes["unreachable"] == 4
    assert back.changes["unreachable"] == 0
    assert (absent.event, absent.changes["unreachable"]) == (Event.REQUEUE, 0)


def test_unsent_effect_returns_its_attempt() -> None:
    for case, answer in cases_with_outcome(NotSent, Status.STARTED):
        assert case.decision.event is Event.RELEASE, case
        assert case.after.attempts == case.job.attempts - 1, case
        assert (case.after.waits_for is WaitKind.SECRET) is answer.credentials_rejected, case


def test_continued_job_returns_attempt_and_gets_fresh_message() -> None:
    for case, _ in cases_with_outcome(InProgress, Status.STARTED):
        assert case.decision.event is Event.RELEASE, case
        assert case.after.attempts == case.job.attempts - 1, case
        assert (case.decision.send_new_message, case.decision.run_at) == (True, NOW), case


def test_no_other_outcome_returns_attempt() -> None:
    for case in decision_cases():
        if case.status is Status.UNKNOWN or not isinstance(case.outcome, NotSent | InProgress):
            assert case.after.attempts == case.job.attempts, case
            assert not case.decision.send_new_message, case


def test_timeout_is_counted_and_crash_is_not() -> None:
    for case in decision_cases(Status.STARTED):
        lost = case.outcome is None or isinstance(case.outcome, Ambiguous)
        if lost and case.safety is not RetrySafety.NATURAL:
            counted = case.outcome is not None
            assert case.decision.event is Event.MARK_UNKNOWN, case
            assert case.after.timeouts == case.job.timeouts + counted, case


def test_unsent_effect_clears_only_its_own_send() -> None:
    first = make_job(claimed_at=NOW, first_sent_at=NOW)
    second = make_job(claimed_at=NOW, first_sent_at=NOW - timedelta(hours=1))

    cleared = decide_any(first, TERMS, NotSent("refused"), now=NOW).changes
    kept = decide_any(second, TERMS, NotSent("refused"), now=NOW).changes

    assert (cleared["first_sent_at"], cleared["key_scope"]) == (None, None)
    assert not {"first_sent_at", "key_scope"} & kept.keys()


def test_progress_resets_attempts_and_timeouts() -> None:
    job = make_job(attempts=7, timeouts=4, unreachable=2)
    after = save_progress({"page": 3}).apply_to(job, now=NOW, actor="worker")
    assert (after.status, after.progress) == (Status.STARTED, {"page": 3})
    assert (after.attempts, after.timeouts, after.unreachable) == (1, 0, 0)
