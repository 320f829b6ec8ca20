"""Invariants of `decide` for generated rows, policies and outcomes."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from oncely.core.decide import absence_conclusive_at, guard_before_effect
from oncely.core.effect_outcomes import (
    Anomalous,
    Declined,
    EffectOutcome,
    InProgress,
    LookupOutcome,
    LookupUnsupported,
    NotFound,
    NotSent,
    StillOpen,
    Succeeded,
)
from oncely.core.job_row import MAX_EVIDENCE_ENTRIES, Decision, JobRow
from oncely.core.lifecycle import ENDED, TRANSITIONS, Event, Status
from oncely.core.profiles import ProviderProfile, RetryLimits, RetryPolicy, RetrySafety
from tests.unit.decision_grid import (
    EFFECT_OUTCOMES,
    LOOKUP_OUTCOMES,
    OUTCOMES_BY_STATUS,
    decide_any,
)
from tests.unit.samples import NOW, claim_row, make_claim, make_job

COUNTS = st.integers(0, 5) | st.integers(0, 40)
SPANS = st.timedeltas(timedelta(0), timedelta(days=3))
MOMENTS = st.builds(lambda ago: NOW - ago, SPANS) | st.builds(lambda later: NOW + later, SPANS)
PROFILES = st.builds(
    ProviderProfile,
    name=st.just("Any"),
    request_timeout=st.timedeltas(timedelta(seconds=1), timedelta(minutes=2)),
    max_calls=st.integers(1, 4),
    key_ttl=st.none() | SPANS,
    key_ttl_margin=st.timedeltas(timedelta(0), timedelta(hours=2)),
    lookup_lag=st.none() | st.timedeltas(timedelta(0), timedelta(minutes=5)),
)
TERMS = st.builds(
    RetryPolicy,
    safety=st.sampled_from(RetrySafety),
    profile=PROFILES,
    limits=st.builds(
        RetryLimits,
        max_attempts=st.integers(1, 20),
        max_consecutive_timeouts=st.integers(1, 20),
        max_age=st.timedeltas(timedelta(minutes=1), timedelta(days=30)),
    ),
    tolerates_row_changes=st.booleans(),
    leaves_open=st.booleans(),
)
ROWS = st.builds(
    make_job,
    status=st.sampled_from([Status.STARTED, Status.UNKNOWN]),
    created_at=st.builds(lambda ago: NOW - ago, SPANS),
    first_sent_at=st.none() | MOMENTS,
    claimed_at=st.none() | MOMENTS,
    lease_until=st.none() | MOMENTS,
    attempts=st.integers(1, 4) | st.integers(1, 12),
    timeouts=COUNTS,
    unreachable=COUNTS,
    key_number=st.integers(1, 9),
    key_answered=st.booleans(),
    key_scope=st.sampled_from(["live", "live", "live", "test", None]),
    provider_ref=st.sampled_from([None, "pi_0"]),
    closing=st.sampled_from([None, None, {"reason": "no credit", "code": "credit", "result": {}}]),
)
JITTERS = st.floats(0, 1, exclude_max=True)
# What follows a claim, and what a lookup then brings. Most sequences of outcomes end at once;
# these do not.
_ENDS: Final = Succeeded | Declined | Anomalous
UNENDING = st.tuples(
    st.sampled_from([one for one in (*EFFECT_OUTCOMES, None) if not isinstance(one, _ENDS)]),
    st.sampled_from([one for one in LOOKUP_OUTCOMES if not isinstance(one, _ENDS)]),
)


@dataclass(frozen=True)
class GeneratedCase:
    job: JobRow
    policy: RetryPolicy
    outcome: EffectOutcome | LookupOutcome | None
    decision: Decision

    @property
    def after(self) -> JobRow:
        return self.decision.apply_to(self.job, now=NOW, actor="worker")


@st.composite
def situations(draw: st.DrawFn) -> list[GeneratedCase]:
    """One row under one policy, with everything that may happen to it."""
    job, terms, jitter = draw(ROWS), draw(TERMS), draw(JITTERS)
    outcomes = OUTCOMES_BY_STATUS[job.status]
    made = (
        decide_any(job, terms, one, now=NOW, key_scope="live", jitter=jitter) for one in outcomes
    )
    return [GeneratedCase(job, terms, *one) for one in zip(outcomes, made, strict=True)]


@given(cases=situations())
def test_every_decision_is_transition_that_table_allows(cases: list[GeneratedCase]) -> None:
    for case in cases:
        after = case.after
        assert TRANSITIONS[case.job.status, case.decision.event] is after.status, case
        assert after.version == case.job.version + 1, case
        assert after.due_at is not None, case
        assert after.due_at >= NOW, case


@given(cases=situations())
def test_only_definite_outcome_ends_job(cases: list[GeneratedCase]) -> None:
    for case in cases:
        ended = case.after.status in ENDED
        match case.outcome:
            case Succeeded():
                assert ended, case
            case Declined():
                kept = case.after.closing or case.decision.event is Event.ESCALATE
                assert ended or kept, case
            case NotFound(conclusive=conclusive) if case.job.closing and ended:
                assert not case.policy.leaves_open, case
                assert conclusive or absence_conclusive_at(case.job, case.policy) <= NOW, case
            case _:
                assert not ended, case


@given(cases=situations())
def test_decline_of_a_resend_alone_ends_nothing(cases: list[GeneratedCase]) -> None:
    for case in cases:
        job, policy = case.job, case.policy
        repeatable = policy.safety is RetrySafety.NATURAL or policy.leaves_open
        if isinstance(case.outcome, Declined) and job.has_ambiguous_send and not repeatable:
            looked_up = job.status is Status.UNKNOWN
            assert case.after.status.is_failed is looked_up, case
            assert looked_up or policy.can_look_up or case.decision.alert, case


@given(cases=situations())
def test_key_number_rises_by_one_only_with_proof_of_absence(cases: list[GeneratedCase]) -> None:
    for case in cases:
        absent = isinstance(case.outcome, NotFound) and case.decision.event is Event.REQUEUE
        raised = case.after.key_number - case.job.key_number
        assert raised in ({0, 1} if absent else {0}), case
        if absent and isinstance(case.outcome, NotFound):
            conclusive_at = absence_conclusive_at(case.job, case.policy)
            assert case.outcome.conclusive or conclusive_at <= NOW, case
            keyed = case.policy.safety is RetrySafety.KEYED
            anchored = case.policy.leaves_open and case.job.provider_ref is not None
            settled = case.outcome.conclusive or case.job.key_answered or anchored
            assert raised == int(settled or not keyed), case


@given(cases=situations())
def test_unknown_job_returns_to_ready_only_when_resend_is_safe(cases: list[GeneratedCase]) -> None:
    for case in cases:
        if case.decision.event is not Event.REQUEUE:
            continue
        job, terms = case.job, case.policy
        if isinstance(case.outcome, StillOpen):
            assert case.after.closing, "the next run only closes it"
            continue
        assert terms.leaves_open or not job.closing, "a kept decline is never sent again"
        assert terms.safety is not RetrySafety.AT_MOST_ONCE, case
        assert isinstance(case.outcome, NotFound | LookupUnsupported), case
        if isinstance(case.outcome, LookupUnsupported) and terms.safety is not RetrySafety.NATURAL:
            window = terms.profile.key_ttl
            assert terms.safety is RetrySafety.KEYED, case
            assert job.key_scope == "live", case
            assert window is not None, case
            assert job.first_sent_at is not None, case
            assert job.first_sent_at + window - terms.profile.key_ttl_margin > NOW, case


@given(cases=situations())
def test_decision_never_loses_known_values(cases: list[GeneratedCase]) -> None:
    for case in cases:
        job, after = case.job, case.after
        assert after.provider_ref or not job.provider_ref, case
        same = ("job_key", "message", "fingerprint", "created_at", "fence", "owner")
        assert all(getattr(after, name) == getattr(job, name) for name in same), case
        assert job.attempts - 1 <= after.attempts <= job.attempts, case


@given(terms=TERMS, outcomes=st.lists(UNENDING, max_size=40), jitter=JITTERS)
def test_job_never_exceeds_attempt_limit(
    terms: RetryPolicy,
    outcomes: list[tuple[EffectOutcome | None, LookupOutcome]],
    jitter: float,
) -> None:
    now, acted, row = NOW, 0, None
    for number, (effect, lookup) in enumerate(outcomes):
        if row is None or row.status is Status.READY:
            lease_until = now + timedelta(seconds=60)
            claim = make_claim(owner=f"owner-{number}", now=now, lease_until=lease_until)
            row = claim_row(row, claim)
            refusal = guard_before_effect(row, terms, claim, now=now)
            if refusal is not None:
                row = refusal.apply_to(row, now=now, actor="worker")
                assert row.status is Status.NEEDS_REVIEW
                break
            acted += not isinstance(effect, NotSent | InProgress)
        if row.status not in {Status.STARTED, Status.UNKNOWN}:
            break
        outcome = effect if row.status is Status.STARTED else lookup
        decision = decide_any(row, terms, outcome, now=now, key_scope="live", jitter=jitter)
        after = decision.apply_to(row, now=now, actor="worker")
        assert after.version == row.version + 1
        row, now = after, max(now, after.due_at or now) + timedelta(seconds=1)

    assert acted <= terms.limits.max_attempts
    assert row is None or len(row.evidence) <= MAX_EVIDENCE_ENTRIES
