"""Which repair is open when: every status, and what each changes."""

from datetime import datetime, timedelta

import pytest

from oncely.domain.decisions import MESSAGE_GRACE, absence_conclusive_at
from oncely.domain.effect_outcomes import Anomalous, Declined, NotFound, Pending, Succeeded
from oncely.domain.jobs import Decision
from oncely.domain.lifecycle import Event, Status
from oncely.domain.profiles import ProviderProfile, RetryPolicy, RetrySafety
from oncely.domain.repairs import (
    Repair,
    can_reopen_without_lookup,
    note_resubmission,
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

OPEN: dict[Status, set[Repair]] = {
    Status.READY: {Repair.RESEND},
    Status.STARTED: {Repair.LOOK_UP},  # its lease is over an hour later
    Status.UNKNOWN: {Repair.LOOK_UP},
    Status.FINISHED: set(),
    Status.FAILED: {Repair.RESUBMIT},
    Status.NEEDS_REVIEW: {Repair.LOOK_UP, Repair.REOPEN, Repair.MARK_FINISHED, Repair.MARK_FAILED},
}


def allowed_repairs(status: Status, terms: RetryPolicy = TERMS, **changes: object) -> set[Repair]:
    job = make_job(status=status, **changes)
    return {
        one.repair
        for one in repair_options(job, terms, now=LATER, can_resubmit=True)
        if one.allowed
    }


@pytest.mark.parametrize("status", Status)
def test_each_status_opens_exactly_its_own_repairs(status: Status) -> None:
    assert allowed_repairs(status) == OPEN[status]


@pytest.mark.parametrize("status", Status)
def test_every_repair_gives_one_line_reason(status: Status) -> None:
    told = repair_options(make_job(status=status), TERMS, now=LATER)

    assert [one.repair for one in told] == list(Repair)
    assert all(one.reason and "\n" not in one.reason for one in told)


def test_leased_job_allows_no_repair() -> None:
    told = repair_options(make_job(lease_until=LATER + timedelta(seconds=1)), TERMS, now=LATER)

    assert not any(one.allowed for one in told)


@pytest.mark.parametrize("terms", [AT_MOST_ONCE, NO_LOOKUP])
def test_job_without_lookup_may_be_marked_but_not_reopened(terms: RetryPolicy) -> None:
    assert allowed_repairs(Status.NEEDS_REVIEW, terms) == {Repair.MARK_FINISHED, Repair.MARK_FAILED}


@pytest.mark.parametrize("terms", [AT_MOST_ONCE, NO_LOOKUP, TERMS])
def test_unclaimed_job_may_be_reopened(terms: RetryPolicy) -> None:
    assert Repair.REOPEN in allowed_repairs(Status.NEEDS_REVIEW, terms, fence=0)


def test_natural_effect_may_be_reopened_without_lookup() -> None:
    terms = RetryPolicy(safety=RetrySafety.NATURAL, profile=SES)

    assert allowed_repairs(Status.NEEDS_REVIEW, terms) == {
        Repair.REOPEN,
        Repair.MARK_FINISHED,
        Repair.MARK_FAILED,
    }


@pytest.mark.parametrize(
    ("terms", "fence", "proof"), [(NATURAL, 1, True), (TERMS, 0, True), (TERMS, 1, False)]
)
def test_row_is_proof_when_natural_or_never_claimed(
    terms: RetryPolicy, fence: int, *, proof: bool
) -> None:
    assert can_reopen_without_lookup(make_job(fence=fence), terms) is proof


def test_only_mark_finished_needs_reference_unless_natural() -> None:
    review = make_job(status=Status.NEEDS_REVIEW)

    def needing(terms: RetryPolicy) -> set[Repair]:
        return {
            one.repair for one in repair_options(review, terms, now=LATER) if one.needs_reference
        }

    assert needing(TERMS) == {Repair.MARK_FINISHED}
    assert needing(NATURAL) == set()


def test_ready_job_past_age_limit_allows_no_repair() -> None:
    ready = make_job(status=Status.READY)

    told = repair_options(ready, TERMS, now=NOW + TERMS.limits.max_age)

    assert not any(one.allowed for one in told)


def test_failed_job_allows_no_repair_without_resubmission() -> None:
    assert not any(
        one.allowed for one in repair_options(make_job(status=Status.FAILED), TERMS, now=LATER)
    )


REVIEW = make_job(status=Status.NEEDS_REVIEW, attempts=8, timeouts=5, unreachable=3)


def test_proved_absence_reopens_job_under_next_key() -> None:
    heard = NotFound("pi_1 was not confirmed")

    move = reopen(REVIEW, TERMS, reason="looked", lookup=heard, looked_up_at=LATER)

    assert isinstance(move, Decision)
    job = move.apply_to(REVIEW, now=LATER, actor="ada")
    assert job.status is Status.READY
    assert (job.attempts, job.timeouts, job.unreachable, job.key_number) == (0, 0, 0, 2)
    assert (job.first_sent_at, job.key_scope, job.reopened_at) == (None, None, LATER)
    assert job.evidence[-1].actor == "ada"
    assert job.evidence[-1].reason == "looked; pi_1 was not confirmed"


def test_row_that_is_own_proof_keeps_its_key() -> None:
    move = reopen(REVIEW, NATURAL, reason="looked", lookup=None, looked_up_at=LATER)

    assert isinstance(move, Decision)
    assert "key_number" not in move.changes


@pytest.mark.parametrize(
    "heard",
    [Succeeded("charged"), Declined("declined", code="x"), Anomalous("refunded"), Pending("wait")],
)
def test_other_effect_outcomes_do_not_reopen_job(
    heard: Succeeded | Declined | Anomalous | Pending,
) -> None:
    why = reopen(REVIEW, TERMS, reason="looked", lookup=heard, looked_up_at=LATER)

    assert isinstance(why, str)
    assert heard.reason in why


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


@pytest.mark.parametrize(
    ("repair", "event", "status"),
    [
        (Repair.MARK_FINISHED, Event.RESOLVE_FINISHED, Status.FINISHED),
        (Repair.MARK_FAILED, Event.RESOLVE_FAILED, Status.FAILED),
    ],
)
def test_manual_resolution_ends_review_with_reference(
    repair: Repair, event: Event, status: Status
) -> None:
    move = resolve_manually(REVIEW, repair, reason="seen at Stripe", reference="ch_9")

    job = move.apply_to(REVIEW, now=LATER, actor="ada")

    assert (job.status, job.evidence[-1].event) == (status, event)
    assert job.provider_ref == ("ch_9" if repair is Repair.MARK_FINISHED else None)
    assert job.evidence[-1].reason == "seen at Stripe (reference ch_9)"


@pytest.mark.parametrize(
    ("repair", "result", "last_error"),
    [
        (Repair.MARK_FINISHED, {"reference": "ch_9"}, None),
        (
            Repair.MARK_FAILED,
            {"code": "resolved_by_operator", "reference": "ch_9"},
            "seen at Stripe (reference ch_9)",
        ),
    ],
)
def test_manual_resolution_records_error_only_for_failure(
    repair: Repair, result: dict[str, str], last_error: str | None
) -> None:
    move = resolve_manually(REVIEW, repair, reason="seen at Stripe", reference="ch_9")

    job = move.apply_to(REVIEW, now=LATER, actor="ada")

    assert (job.result, job.last_error) == (result, last_error)


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
    reopened = make_job(status=Status.READY, reopened_at=NOW + timedelta(days=5))

    told = repair_options(reopened, TERMS, now=NOW + timedelta(days=5, hours=1))

    assert [one.repair for one in told if one.allowed] == [Repair.RESEND]
