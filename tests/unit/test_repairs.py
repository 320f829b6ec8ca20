"""Which repairs each status allows, and what each changes."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from oncely.core.decide import MESSAGE_GRACE, absence_conclusive_at
from oncely.core.effect_outcomes import (
    Anomalous,
    Declined,
    LookupOutcome,
    NotFound,
    Pending,
    Succeeded,
)
from oncely.core.job_row import MARKED_BY_OPERATOR, Decision
from oncely.core.lifecycle import Event, Status
from oncely.core.profiles import ProviderProfile, RetryPolicy, RetrySafety
from oncely.core.repairs import (
    Repair,
    can_reopen_without_lookup,
    note_resubmission,
    objection_to_failed,
    objection_to_finished,
    reopen,
    repair_options,
    resolve_manually,
)
from oncely.providers.ses.plugin import PROFILE as SES
from tests.unit.samples import KEY, NOW, PROFILE, TERMS, TICK, make_job

NATURAL = RetryPolicy(safety=RetrySafety.NATURAL, profile=PROFILE)
AT_MOST_ONCE = RetryPolicy(safety=RetrySafety.AT_MOST_ONCE, profile=SES)
NO_LOOKUP = RetryPolicy(
    safety=RetrySafety.KEYED,
    profile=ProviderProfile(
        name="Mute", request_timeout=timedelta(1), max_calls=1, key_ttl=timedelta(hours=24)
    ),
)
LATER = NOW + timedelta(hours=1)
YEAR = timedelta(days=365)

OPEN: dict[Status, set[Repair]] = {
    Status.READY: {Repair.RESEND},
    Status.STARTED: {Repair.LOOK_UP},  # its lease expires within the hour
    Status.UNKNOWN: {Repair.LOOK_UP},
    Status.FINISHED: set(),
    Status.FAILED: {Repair.RESUBMIT},
    Status.CANCELLED: set(),
    Status.NEEDS_REVIEW: {Repair.LOOK_UP, Repair.REOPEN, Repair.MARK_FINISHED, Repair.MARK_FAILED},
}


def allowed_repairs(
    status: Status, terms: RetryPolicy = TERMS, now: datetime = LATER, **changes: object
) -> set[Repair]:
    job = make_job(status=status, **changes)
    options = repair_options(job, terms, schedule_limit=YEAR, now=now, can_resubmit=True)
    return {one.repair for one in options if one.allowed}


@pytest.mark.parametrize("status", Status)
def test_each_status_opens_exactly_its_own_repairs(status: Status) -> None:
    options = repair_options(make_job(status=status), TERMS, schedule_limit=YEAR, now=LATER)
    assert allowed_repairs(status) == OPEN[status]
    assert [one.repair for one in options] == list(Repair)
    assert all(one.reason and "\n" not in one.reason for one in options)


def test_leased_or_too_old_job_allows_no_repair() -> None:
    assert allowed_repairs(Status.STARTED, lease_until=LATER + timedelta(seconds=1)) == set()
    assert allowed_repairs(Status.READY, now=NOW + TERMS.limits.max_age) == set()


def test_finished_job_that_moved_money_can_be_looked_up() -> None:
    assert allowed_repairs(Status.FINISHED, amount=1250) == {Repair.LOOK_UP}
    assert allowed_repairs(Status.FINISHED, AT_MOST_ONCE, amount=1250) == set()


def test_scheduled_job_can_be_run_now_or_rescheduled() -> None:
    later = LATER + TICK
    assert allowed_repairs(Status.READY, run_at=later) == {Repair.RUN_NOW, Repair.RESCHEDULE}
    assert allowed_repairs(Status.READY, run_at=LATER) == {Repair.RESEND}
    closing = {"reason": "ordered twice", "code": "cancelled_by_operator", "result": {}}
    assert allowed_repairs(Status.READY, run_at=later, closing=closing) == set()
    for status in set(Status) - {Status.READY}:
        assert not allowed_repairs(status, run_at=later) & {Repair.RUN_NOW, Repair.RESCHEDULE}


@pytest.mark.parametrize("terms", [AT_MOST_ONCE, NO_LOOKUP])
def test_job_without_lookup_may_be_marked_but_not_reopened(terms: RetryPolicy) -> None:
    assert allowed_repairs(Status.NEEDS_REVIEW, terms) == {Repair.MARK_FINISHED, Repair.MARK_FAILED}


@pytest.mark.parametrize("terms", [AT_MOST_ONCE, NO_LOOKUP, TERMS])
def test_unclaimed_job_may_be_reopened(terms: RetryPolicy) -> None:
    assert Repair.REOPEN in allowed_repairs(Status.NEEDS_REVIEW, terms, fence=0)


def test_natural_effect_may_be_reopened_without_lookup() -> None:
    terms = RetryPolicy(safety=RetrySafety.NATURAL, profile=SES)
    manual = {Repair.MARK_FINISHED, Repair.MARK_FAILED}
    assert allowed_repairs(Status.NEEDS_REVIEW, terms) == {Repair.REOPEN, *manual}


def test_row_is_proof_when_natural_or_never_claimed() -> None:
    for terms, fence, proof in ((NATURAL, 1, True), (TERMS, 0, True), (TERMS, 1, False)):
        assert can_reopen_without_lookup(make_job(fence=fence), terms) is proof


def test_reference_is_needed_only_where_provider_can_check_it() -> None:
    review = make_job(status=Status.NEEDS_REVIEW)
    finished = [Repair.MARK_FINISHED]
    for terms, needing in ((TERMS, finished), (NATURAL, []), (NO_LOOKUP, []), (AT_MOST_ONCE, [])):
        options = repair_options(review, terms, schedule_limit=YEAR, now=LATER)
        assert [one.repair for one in options if one.needs_reference] == needing


def test_failed_job_allows_no_repair_without_resubmission() -> None:
    options = repair_options(make_job(status=Status.FAILED), TERMS, schedule_limit=YEAR, now=LATER)
    assert not any(one.allowed for one in options)


REVIEW = make_job(status=Status.NEEDS_REVIEW, attempts=8, timeouts=5, unreachable=3)


def test_proved_absence_reopens_job_under_next_key() -> None:
    lookup = NotFound("pi_1 was not confirmed")
    review, policy = replace(REVIEW, provider_ref="pi_1"), replace(TERMS, leaves_open=True)

    decision = reopen(review, policy, reason="looked", lookup=lookup, looked_up_at=LATER)

    assert isinstance(decision, Decision)
    job = decision.apply_to(review, now=LATER, actor="ada")
    assert job.status is Status.READY
    assert (job.attempts, job.timeouts, job.unreachable, job.key_number) == (0, 0, 0, 2)
    assert (job.first_sent_at, job.key_scope, job.age_from) == (None, None, LATER)
    assert job.evidence[-1].actor == "ada"
    assert job.evidence[-1].reason == "looked; pi_1 was not confirmed"


@pytest.mark.parametrize(
    ("changes", "conclusive", "leaves_open", "key_number"),
    [
        ({}, False, False, 1),
        ({}, False, True, 1),  # without a reference, nothing ties its requests to one effect
        ({"provider_ref": "pi_1"}, False, False, 1),
        ({"provider_ref": "pi_1"}, False, True, 2),
        ({"key_answered": True}, False, False, 2),
        ({}, True, False, 2),
    ],
)
def test_reopened_job_keeps_key_while_a_request_may_arrive(
    changes: dict[str, Any], *, conclusive: bool, leaves_open: bool, key_number: int
) -> None:
    review, policy = replace(REVIEW, **changes), replace(TERMS, leaves_open=leaves_open)
    lookup = NotFound("none", conclusive=conclusive)

    decision = reopen(review, policy, reason="looked", lookup=lookup, looked_up_at=LATER)

    assert isinstance(decision, Decision)
    job = decision.apply_to(review, now=LATER, actor="ada")
    assert (job.status, job.key_number) == (Status.READY, key_number)
    assert (job.first_sent_at is None) is (key_number == 2)


UNPROVED = NotFound("none; its absence proves nothing", unproved=True)


def test_job_is_not_reopened_on_an_absence_that_proves_nothing() -> None:
    why = reopen(REVIEW, TERMS, reason="looked", lookup=UNPROVED, looked_up_at=LATER)
    assert why == (
        "the lookup does not prove that nothing was done: none; its absence proves nothing"
    )


def test_absence_that_proves_nothing_is_no_advice_to_an_operator() -> None:
    """Who has seen the effect must not mark its job as failed because the lookup is wrong."""
    fix = objection_to_finished(UNPROVED, reference="v_1", references=frozenset())
    assert fix == "correct the lookup and deploy it, then look up the job again"


def test_job_marked_as_failed_on_an_absence_that_proves_nothing_is_the_operators_word() -> None:
    assert objection_to_failed(REVIEW, TERMS, UNPROVED, looked_up_at=LATER) is None
    decision = resolve_manually(
        REVIEW, Repair.MARK_FAILED, reason="not in their list", reference=None, confirmed=UNPROVED
    )
    assert decision.changes["result"] == {"code": MARKED_BY_OPERATOR}


def test_row_that_is_own_proof_keeps_its_key() -> None:
    move = reopen(REVIEW, NATURAL, reason="looked", lookup=None, looked_up_at=LATER)
    assert isinstance(move, Decision)
    assert "key_number" not in move.changes


@pytest.mark.parametrize(
    "lookup",
    [Succeeded("charged"), Declined("declined", code="x"), Anomalous("refunded"), Pending("wait")],
)
def test_other_effect_outcomes_do_not_reopen_job(lookup: LookupOutcome) -> None:
    why = reopen(REVIEW, TERMS, reason="looked", lookup=lookup, looked_up_at=LATER)
    assert isinstance(why, str)
    assert lookup.reason in why


def test_unproved_absence_does_not_reopen_job_too_early() -> None:
    why = reopen(REVIEW, TERMS, reason="looked", lookup=NotFound("not there"), looked_up_at=NOW)
    proved = NotFound("never prepared", conclusive=True)

    assert isinstance(why, str)
    assert "retry after 2026-11-16 03:01 UTC" in why
    assert isinstance(reopen(REVIEW, TERMS, reason="x", lookup=proved, looked_up_at=NOW), Decision)


def test_absence_is_proof_after_last_possible_request() -> None:
    proof_from = absence_conclusive_at(REVIEW, TERMS)
    absent = NotFound("not there")

    early = reopen(REVIEW, TERMS, reason="x", lookup=absent, looked_up_at=proof_from - TICK)
    in_time = reopen(REVIEW, TERMS, reason="x", lookup=absent, looked_up_at=proof_from)

    assert isinstance(early, str)
    assert isinstance(in_time, Decision)


MARKED_RESULT = {"code": "marked_by_operator", "reference": "ch_9"}
NOTE = "seen at Stripe (reference ch_9)"


@pytest.mark.parametrize(
    ("repair", "event", "status", "outcome"),
    [
        (
            Repair.MARK_FINISHED,
            Event.RESOLVE_FINISHED,
            Status.FINISHED,
            ("ch_9", MARKED_RESULT, None),
        ),
        (Repair.MARK_FAILED, Event.RESOLVE_FAILED, Status.FAILED, (None, MARKED_RESULT, NOTE)),
    ],
)
def test_manual_resolution_ends_review_with_reference(
    repair: Repair, event: Event, status: Status, outcome: tuple[object, ...]
) -> None:
    decision = resolve_manually(REVIEW, repair, reason="seen at Stripe", reference="ch_9")
    job = decision.apply_to(REVIEW, now=LATER, actor="ada")
    assert (job.status, job.evidence[-1].event, job.evidence[-1].reason) == (status, event, NOTE)
    assert (job.provider_ref, job.result, job.last_error) == outcome


@pytest.mark.parametrize("repair", [Repair.MARK_FINISHED, Repair.MARK_FAILED])
def test_manual_resolution_invents_no_reference(repair: Repair) -> None:
    move = resolve_manually(REVIEW, repair, reason="seen at Stripe", reference=None)

    job = move.apply_to(REVIEW, now=LATER, actor="ada")

    assert (job.timeouts, job.unreachable) == (0, 0)
    assert job.provider_ref is None
    assert "reference" not in (job.result or {})
    assert job.evidence[-1].reason == "seen at Stripe"


@pytest.mark.parametrize(
    ("expires_at", "expected"),
    [
        (None, None),
        (NOW, NOW + TERMS.limits.max_age + MESSAGE_GRACE),
        (NOW + timedelta(days=90), NOW + timedelta(days=90)),
    ],
)
def test_failed_job_expires_only_after_resubmission_could_run(
    expires_at: datetime | None, expected: datetime | None
) -> None:
    failed = make_job(status=Status.FAILED, expires_at=expires_at)
    move = note_resubmission(failed, TERMS, new_key=KEY, reason="a new card", now=NOW + TICK)
    after = move.apply_to(failed, now=NOW, actor="ada")
    assert (after.status, after.expires_at) == (Status.FAILED, expected)


def test_reopened_job_restarts_its_age() -> None:
    reopened_at = NOW + timedelta(days=5)

    allowed = allowed_repairs(
        Status.READY, now=reopened_at + timedelta(hours=1), age_from=reopened_at
    )
    assert allowed == {Repair.RESEND}
