"""What holds for every situation that `decide` can meet."""

from dataclasses import replace
from typing import get_args

from oncely.domain.answers import Answer, Done, NotSent, Odd, Refused, StillOpen
from oncely.domain.decide import decide
from oncely.domain.due import told
from oncely.domain.lifecycle import ENDED, TRANSITIONS, Event, Status
from oncely.domain.text import MAX_REASON
from tests.unit.grid import ANSWERS, FRAUD, answered, cases
from tests.unit.samples import NOW, TERMS, a_job


def test_the_grid_knows_every_answer() -> None:
    assert {type(answer) for answer in ANSWERS} == set(get_args(Answer))


def test_every_situation_has_a_move_that_the_table_allows() -> None:
    for case in cases():
        assert TRANSITIONS[case.status, case.decision.event] is case.after.status, case


def test_every_move_is_the_next_version_and_leaves_its_line_of_evidence() -> None:
    for case in cases():
        assert case.after.version == case.job.version + 1, case
        assert case.after.evidence[-1].event is case.decision.event, case


def test_whatever_is_decided_falls_due_again_unless_it_ended() -> None:
    for case in cases():
        if not case.after.ended:
            assert case.after.due_at is not None, case
            assert case.after.due_at >= NOW, case


def test_an_end_leaves_its_due_time_to_what_it_owes() -> None:
    for case in cases():
        if case.after.ended:
            assert case.after.due_at == case.job.due_at, case


def test_only_a_job_that_is_ready_again_says_when_it_may_run() -> None:
    for case in cases():
        ready = case.after.status is Status.READY
        assert (case.decision.run_at is not None) is ready, case
        assert not (ready and case.after.lease_until), case


def test_an_escalation_never_expires_and_is_due_until_a_person_was_told() -> None:
    for case in cases():
        if case.decision.event is Event.ESCALATE:
            assert case.decision.alert, case
            assert (case.after.due_at, case.after.expires_at) == (NOW, None), case
            assert case.after.provider_ref, case


def test_once_a_person_was_told_nothing_is_due_until_that_person_rules() -> None:
    row = a_job(status=Status.NEEDS_REVIEW, due_at=NOW)

    after = told().on(row, now=NOW, actor="reconciler")

    assert (after.status, after.due_at) == (Status.NEEDS_REVIEW, None)


def test_no_person_is_told_of_anything_else() -> None:
    for case in cases():
        assert case.decision.alert is (case.decision.event is Event.ESCALATE), case


def test_alarm_is_raised_only_when_our_side_is_turned_away() -> None:
    for case in cases():
        unsent = case.answer.unsent if isinstance(case.answer, StillOpen) else case.answer
        expected = isinstance(unsent, NotSent) and unsent.alarm
        assert case.decision.alarm is (expected and case.status is Status.STARTED), case


def test_a_definite_yes_always_ends_the_job() -> None:
    for case, answer in answered(Done):
        after = case.after
        assert case.decision.event is Event.CONFIRM, case
        assert (after.provider_ref, after.result) == (answer.ref or "pi_0", answer.result), case
        assert (after.timeouts, after.unreachable, after.last_error) == (0, 0, None), case


def test_a_definite_no_ends_the_job_unless_a_person_is_to_look_at_it() -> None:
    for case, answer in answered(Refused):
        expected = Event.ESCALATE if answer.code == FRAUD else Event.REFUSE
        assert case.decision.event is expected, case
        assert case.after.last_error == answer.reason, case
        assert (case.after.result or {})["request_id"] == "req_1", case


def test_what_is_found_odd_always_goes_to_a_person_with_what_was_found() -> None:
    for case, answer in answered(Odd):
        assert case.decision.event is Event.ESCALATE, case
        assert case.after.provider_ref == (answer.ref or "pi_0"), case
        assert case.after.result == (answer.result or None), case


def test_review_keeps_the_result_of_before_when_nothing_new_was_found() -> None:
    job = a_job(result={"charge_id": "ch_1"})

    for answer in (Odd("it was refunded"), Odd("two were found", "pi_2", {"count": 2})):
        after = decide(job, TERMS, answer, now=NOW).on(job, now=NOW, actor="worker")

        assert after.result == (answer.result or {"charge_id": "ch_1"})


def test_nothing_else_ends_a_job() -> None:
    for case in cases():
        if not isinstance(case.answer, Done | Refused):
            assert case.after.status not in ENDED, case


def test_the_longest_reason_is_cut_before_it_is_stored() -> None:
    for case in cases():
        after = replace(case, answer=replace(case.answer, reason="x" * (MAX_REASON + 1))).after
        assert len(after.last_error or "") <= MAX_REASON, case
        assert len(after.evidence[-1].reason) <= MAX_REASON, case
