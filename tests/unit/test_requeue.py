"""An unknown job is requeued only if the effect cannot happen twice."""

import pytest

from oncely.core.effect_outcomes import LookupUnsupported, NotFound, StillOpen
from oncely.core.lifecycle import Event, Status, WaitKind
from oncely.core.profiles import RetrySafety
from tests.unit.decision_grid import (
    CONCLUSIVE_NOT_FOUND,
    DecisionCase,
    cases_with_outcome,
    decision_cases,
)


def test_unknown_job_returns_to_ready_only_when_safe() -> None:
    for case in decision_cases(Status.UNKNOWN):
        if case.after.status is Status.READY:
            safe = _is_safe_to_retry(case) or _is_only_closing(case)
            assert safe or _is_conclusively_absent(case), case


def test_at_most_once_job_returns_to_ready_only_to_be_closed() -> None:
    for case in decision_cases(Status.UNKNOWN, RetrySafety.AT_MOST_ONCE):
        assert case.after.status is not Status.READY or _is_only_closing(case), case


def test_open_decline_returns_to_worker_until_limit_is_reached() -> None:
    for case, _ in cases_with_outcome(StillOpen, Status.UNKNOWN):
        stopped = case.last_attempt or case.too_old
        assert case.decision.event is (Event.ESCALATE if stopped else Event.REQUEUE), case
        assert stopped or _is_only_closing(case), case
    for case, answer in cases_with_outcome(StillOpen, Status.STARTED):
        assert case.decision.event is Event.RELEASE, case
        assert _is_only_closing(case), case
        is_rejected = case.after.waits_for is WaitKind.SECRET
        assert is_rejected is (answer.close_failure is not None), case


def test_unknown_job_escalates_without_lookup_or_safe_resend() -> None:
    for case, _ in cases_with_outcome(LookupUnsupported, Status.UNKNOWN):
        if case.absence_conclusive and not _is_safe_to_retry(case):
            assert case.decision.event is Event.ESCALATE, case


def test_unknown_job_returns_to_ready_until_limit_is_reached() -> None:
    for case in decision_cases(Status.UNKNOWN):
        if _is_conclusively_absent(case) or _is_safe_to_retry(case):
            never = case.safety is RetrySafety.AT_MOST_ONCE
            stopped = never or case.last_timeout or case.last_attempt or case.too_old
            stopped |= _keeps_key(case) and not (case.inside_window and case.same_scope)
            expected = Event.ESCALATE if stopped else Event.REQUEUE
            assert case.decision.event is expected, case


@pytest.mark.parametrize("kind", [NotFound, LookupUnsupported])
def test_absence_is_not_concluded_before_last_send_can_finish(
    kind: type[NotFound | LookupUnsupported],
) -> None:
    for case, answer in cases_with_outcome(kind, Status.UNKNOWN):
        if not case.absence_conclusive and answer is not CONCLUSIVE_NOT_FOUND:
            assert case.decision.event is Event.RECHECK, case


def test_key_number_rises_when_absent_and_no_request_can_arrive() -> None:
    for case in decision_cases():
        absent = isinstance(case.outcome, NotFound) and case.decision.event is Event.REQUEUE
        raised = absent and not _keeps_key(case)
        assert case.after.key_number == case.job.key_number + raised, case


def test_first_send_is_cleared_by_new_key_number_or_progress() -> None:
    for case in decision_cases():
        if case.after.ended:
            assert case.after.first_sent_at is None, case
        elif case.after.key_number != case.job.key_number or case.decision.send_new_message:
            assert (case.after.first_sent_at, case.after.key_scope) == (None, None), case
        else:
            kept = (case.job.first_sent_at, case.job.key_scope)
            assert (case.after.first_sent_at, case.after.key_scope) == kept, case


def _keeps_key(case: DecisionCase) -> bool:
    """Whether an earlier request may still arrive: only the same key makes both one."""
    if not isinstance(case.outcome, NotFound) or case.outcome is CONCLUSIVE_NOT_FOUND:
        return False
    return case.safety is RetrySafety.KEYED and not case.key_answered


def _is_conclusively_absent(case: DecisionCase) -> bool:
    return isinstance(case.outcome, NotFound) and (
        case.outcome is CONCLUSIVE_NOT_FOUND or case.absence_conclusive
    )


def _is_only_closing(case: DecisionCase) -> bool:
    closing = case.after.closing or {}
    return isinstance(case.outcome, StillOpen) and closing["code"] == case.outcome.code


def _is_safe_to_retry(case: DecisionCase) -> bool:
    keyed = case.safety is RetrySafety.KEYED and case.inside_window and case.same_scope
    natural = case.safety is RetrySafety.NATURAL
    unsupported = isinstance(case.outcome, LookupUnsupported)
    return unsupported and case.absence_conclusive and (natural or keyed)
