"""Invariants of `decide` over the whole grid of situations."""

from dataclasses import replace
from typing import get_args

from oncely.core.due import mark_alerted
from oncely.core.effect_outcomes import (
    Anomalous,
    Declined,
    EffectOutcome,
    LookupOutcome,
    NotSent,
    StillOpen,
    Succeeded,
)
from oncely.core.lifecycle import ENDED, TRANSITIONS, Event, Status, WaitKind
from oncely.core.profiles import RetrySafety
from oncely.core.text import MAX_REASON_LENGTH
from tests.unit.decision_grid import (
    EFFECT_OUTCOMES,
    LOOKUP_OUTCOMES,
    cases_with_outcome,
    decide_any,
    decision_cases,
)
from tests.unit.samples import NOW, TERMS, make_job


def test_grid_covers_every_outcome() -> None:
    assert {type(outcome) for outcome in EFFECT_OUTCOMES} == set(get_args(EffectOutcome))
    assert {type(outcome) for outcome in LOOKUP_OUTCOMES} == set(get_args(LookupOutcome))


def test_every_decision_is_allowed_and_adds_evidence() -> None:
    for case in decision_cases():
        assert TRANSITIONS[case.status, case.decision.event] is case.after.status, case
        assert case.after.version == case.job.version + 1, case
        assert case.after.evidence[-1].event is case.decision.event, case


def test_open_job_is_due_and_ended_job_keeps_its_due_time() -> None:
    for case in decision_cases():
        if case.after.ended:
            assert case.after.due_at == case.job.due_at, case
        else:
            assert case.after.due_at is not None, case
            assert case.after.due_at >= NOW, case


def test_ended_job_has_result() -> None:
    """A row that ended without a result is treated as forged."""
    for case in decision_cases():
        if case.after.ended:
            assert case.after.result is not None, case


def test_only_ready_job_has_run_time() -> None:
    for case in decision_cases():
        ready = case.after.status is Status.READY
        assert (case.decision.run_at is not None) is ready, case
        assert not (ready and case.after.lease_until), case


def test_only_escalated_job_alerts_and_it_never_expires() -> None:
    for case in decision_cases():
        assert case.decision.alert is (case.decision.event is Event.ESCALATE), case
        if case.decision.alert:
            assert (case.after.due_at, case.after.expires_at) == (NOW, None), case
            assert case.after.provider_ref, case


def test_alerted_job_is_not_due_until_operator_resolves_it() -> None:
    row = make_job(status=Status.NEEDS_REVIEW, due_at=NOW)
    after = mark_alerted().apply_to(row, now=NOW, actor="reconciler")
    assert (after.status, after.due_at) == (Status.NEEDS_REVIEW, None)


def test_alarm_is_raised_only_when_credentials_are_rejected() -> None:
    for case in decision_cases():
        unsent = case.outcome.close_failure if isinstance(case.outcome, StillOpen) else case.outcome
        expected = isinstance(unsent, NotSent) and unsent.credentials_rejected
        expected = expected and case.status is Status.STARTED
        assert (case.after.waits_for is WaitKind.SECRET) is expected, case


def test_success_always_finishes_job() -> None:
    for case, outcome in cases_with_outcome(Succeeded):
        after = case.after
        assert case.decision.event is Event.CONFIRM, case
        assert (after.provider_ref, after.result) == (outcome.ref or "pi_0", outcome.result), case
        assert (after.timeouts, after.unreachable, after.last_error) == (0, 0, None), case


def test_decline_fails_job() -> None:
    for case, outcome in cases_with_outcome(Declined):
        if case.status is Status.STARTED and case.safety is not RetrySafety.NATURAL:
            continue  # an earlier send of the grid's job is open
        assert case.decision.event is Event.DECLINE, case
        assert case.after.last_error == outcome.reason, case
        assert (case.after.result or {})["request_id"] == "req_1", case


def test_decline_while_an_earlier_send_is_open_fails_no_job() -> None:
    """The earlier request may have had the effect, and that is why this one was declined."""
    for case, outcome in cases_with_outcome(Declined, Status.STARTED):
        assert case.job.has_ambiguous_send, case
        if case.safety in {RetrySafety.KEYED, RetrySafety.LOOKUP}:
            assert (case.after.status, case.after.due_at) == (Status.UNKNOWN, NOW), case
            kept = {"reason": "declined", "code": outcome.code, "result": outcome.result}
            assert case.after.closing == kept, case
        elif case.safety is RetrySafety.AT_MOST_ONCE:
            assert case.after.status is Status.NEEDS_REVIEW, case
            assert case.decision.reason == (
                "declined; but an earlier request may have done it, and Acme has no lookup for "
                "this effect"
            )


def test_anomalous_outcome_always_escalates_with_its_findings() -> None:
    for case, outcome in cases_with_outcome(Anomalous):
        assert case.decision.event is Event.ESCALATE, case
        assert case.after.provider_ref == (outcome.ref or "pi_0"), case
        assert case.after.result == (outcome.result or None), case


def test_review_keeps_previous_result_when_nothing_new_is_found() -> None:
    job = make_job(result={"charge_id": "ch_1"})

    for outcome in (
        Anomalous("it was refunded"),
        Anomalous("two were found", "pi_2", {"count": 2}),
    ):
        after = decide_any(job, TERMS, outcome, now=NOW).apply_to(job, now=NOW, actor="worker")

        assert after.result == (outcome.result or {"charge_id": "ch_1"})


def test_only_definite_outcomes_end_job() -> None:
    for case in decision_cases():
        if not isinstance(case.outcome, Succeeded | Declined):
            assert case.after.status not in ENDED, case


def test_long_reason_is_cut_before_it_is_stored() -> None:
    for case in decision_cases():
        if case.outcome is None:
            continue
        long = replace(case.outcome, reason="x" * (MAX_REASON_LENGTH + 1))
        after = replace(case, outcome=long).after
        assert len(after.last_error or "") <= MAX_REASON_LENGTH, case
        assert len(after.evidence[-1].reason) <= MAX_REASON_LENGTH, case
