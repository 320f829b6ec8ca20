"""An unknown job is sent again only when that cannot do the effect twice."""

import pytest

from oncely.domain.answers import Absent, CannotAsk, StillOpen
from oncely.domain.lifecycle import Event, Status
from oncely.domain.profiles import Safety
from tests.unit.grid import PROVED, Case, answered, cases


def test_unknown_job_returns_to_ready_only_when_safe() -> None:
    for case in cases(Status.UNKNOWN):
        if case.after.status is Status.READY:
            assert _certainly_absent(case) or _harmless_again(case) or _only_closes(case), case


def test_at_most_once_job_returns_to_ready_only_to_be_closed() -> None:
    for case in cases(Status.UNKNOWN, Safety.AT_MOST_ONCE):
        assert case.after.status is not Status.READY or _only_closes(case), case


def test_open_decline_returns_to_worker_until_limit_is_reached() -> None:
    for case, _ in answered(StillOpen, Status.UNKNOWN):
        stopped = case.last_attempt or case.too_old
        assert case.decision.event is (Event.ESCALATE if stopped else Event.RETURN), case
        assert stopped or _only_closes(case), case
    for case, answer in answered(StillOpen, Status.STARTED):
        assert case.decision.event is Event.RELEASE, case
        assert _only_closes(case), case
        assert case.decision.alarm is (answer.unsent is not None), case


def test_unknown_job_escalates_without_lookup_or_safe_resend() -> None:
    for case, _ in answered(CannotAsk, Status.UNKNOWN):
        if case.seen_through and not _harmless_again(case):
            assert case.decision.event is Event.ESCALATE, case


def test_unknown_job_returns_to_ready_until_limit_is_reached() -> None:
    for case in cases(Status.UNKNOWN):
        if _certainly_absent(case) or _harmless_again(case):
            never = case.safety is Safety.AT_MOST_ONCE
            stopped = never or case.last_timeout or case.last_attempt or case.too_old
            expected = Event.ESCALATE if stopped else Event.RETURN
            assert case.decision.event is expected, case


@pytest.mark.parametrize("kind", [Absent, CannotAsk])
def test_absence_is_not_concluded_before_last_send_can_finish(
    kind: type[Absent | CannotAsk],
) -> None:
    for case, answer in answered(kind, Status.UNKNOWN):
        if not case.seen_through and answer is not PROVED:
            assert case.decision.event is Event.WAIT, case


def test_key_number_rises_exactly_when_absence_is_certain() -> None:
    for case in cases():
        absent = isinstance(case.answer, Absent) and case.decision.event is Event.RETURN
        assert case.after.key_number == case.job.key_number + absent, case


def test_first_send_is_cleared_by_new_key_number_or_progress() -> None:
    for case in cases():
        if case.after.ended:
            assert case.after.first_sent_at is None, case
        elif case.after.key_number != case.job.key_number or case.decision.fresh_message:
            assert (case.after.first_sent_at, case.after.key_scope) == (None, None), case
        else:
            kept = (case.job.first_sent_at, case.job.key_scope)
            assert (case.after.first_sent_at, case.after.key_scope) == kept, case


def _certainly_absent(case: Case) -> bool:
    return isinstance(case.answer, Absent) and (case.answer is PROVED or case.seen_through)


def _only_closes(case: Case) -> bool:
    return isinstance(case.answer, StillOpen) and (case.after.closing or {})["code"] == (
        case.answer.code
    )


def _harmless_again(case: Case) -> bool:
    keyed = case.safety is Safety.KEYED and case.inside_window and case.same_scope
    natural = case.safety is Safety.NATURAL
    return isinstance(case.answer, CannotAsk) and case.seen_through and (natural or keyed)
