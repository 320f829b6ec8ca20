"""Which repair is open when: every status, and what each changes."""

from datetime import datetime, timedelta

import pytest

from oncely.domain.answers import Absent, Done, Odd, Processing, Refused
from oncely.domain.decide import ask_not_before
from oncely.domain.lifecycle import Event, Status
from oncely.domain.moves import MESSAGE_GRACE, Decision
from oncely.domain.profiles import SES, Profile, Safety, Terms
from oncely.domain.repairs import Repair, is_its_own_proof, offers, reopen, rule, tried_again
from tests.unit.samples import KEY, NOW, PROFILE, TERMS, TICK, a_job

NATURAL = Terms(safety=Safety.NATURAL, profile=PROFILE)
AT_MOST_ONCE = Terms(safety=Safety.AT_MOST_ONCE, profile=SES)
CANNOT_ASK = Terms(
    safety=Safety.KEYED,
    profile=Profile(
        name="Mute", request_timeout=timedelta(1), calls=1, key_window=timedelta(hours=24)
    ),
)
LATER = NOW + timedelta(hours=1)

OPEN: dict[Status, set[Repair]] = {
    Status.READY: {Repair.RESEND},
    Status.STARTED: {Repair.ASK},  # its lease is over an hour later
    Status.UNKNOWN: {Repair.ASK},
    Status.FINISHED: set(),
    Status.FAILED: {Repair.AGAIN},
    Status.NEEDS_REVIEW: {Repair.ASK, Repair.RETURN, Repair.FINISH, Repair.FAIL},
}


def allowed(status: Status, terms: Terms = TERMS, **changes: object) -> set[Repair]:
    job = a_job(status=status, **changes)
    return {
        one.repair for one in offers(job, terms, now=LATER, has_another_attempt=True) if one.allowed
    }


@pytest.mark.parametrize("status", Status)
def test_each_status_opens_exactly_its_own_repairs(status: Status) -> None:
    assert allowed(status) == OPEN[status]


@pytest.mark.parametrize("status", Status)
def test_every_repair_gives_one_line_reason(status: Status) -> None:
    told = offers(a_job(status=status), TERMS, now=LATER)

    assert [one.repair for one in told] == list(Repair)
    assert all(one.why and "\n" not in one.why for one in told)


def test_leased_job_allows_no_repair() -> None:
    told = offers(a_job(lease_until=LATER + timedelta(seconds=1)), TERMS, now=LATER)

    assert not any(one.allowed for one in told)


@pytest.mark.parametrize("terms", [AT_MOST_ONCE, CANNOT_ASK])
def test_job_without_lookup_may_be_marked_but_not_reopened(terms: Terms) -> None:
    assert allowed(Status.NEEDS_REVIEW, terms) == {Repair.FINISH, Repair.FAIL}


@pytest.mark.parametrize("terms", [AT_MOST_ONCE, CANNOT_ASK, TERMS])
def test_unclaimed_job_may_be_reopened(terms: Terms) -> None:
    assert Repair.RETURN in allowed(Status.NEEDS_REVIEW, terms, fence=0)


def test_natural_effect_may_be_reopened_without_lookup() -> None:
    terms = Terms(safety=Safety.NATURAL, profile=SES)

    assert allowed(Status.NEEDS_REVIEW, terms) == {Repair.RETURN, Repair.FINISH, Repair.FAIL}


@pytest.mark.parametrize(
    ("terms", "fence", "proof"), [(NATURAL, 1, True), (TERMS, 0, True), (TERMS, 1, False)]
)
def test_row_is_proof_when_natural_or_never_claimed(
    terms: Terms, fence: int, *, proof: bool
) -> None:
    assert is_its_own_proof(a_job(fence=fence), terms) is proof


def test_only_mark_finished_needs_reference_unless_natural() -> None:
    review = a_job(status=Status.NEEDS_REVIEW)

    def needing(terms: Terms) -> set[Repair]:
        return {one.repair for one in offers(review, terms, now=LATER) if one.needs_reference}

    assert needing(TERMS) == {Repair.FINISH}
    assert needing(NATURAL) == set()


def test_ready_job_past_age_limit_allows_no_repair() -> None:
    ready = a_job(status=Status.READY)

    told = offers(ready, TERMS, now=NOW + TERMS.stop.age)

    assert not any(one.allowed for one in told)


def test_failed_job_allows_no_repair_without_resubmission() -> None:
    assert not any(one.allowed for one in offers(a_job(status=Status.FAILED), TERMS, now=LATER))


REVIEW = a_job(status=Status.NEEDS_REVIEW, attempts=8, timeouts=5, unreachable=3)


def test_proved_absence_reopens_job_under_next_key() -> None:
    heard = Absent("pi_1 was not confirmed")

    move = reopen(REVIEW, TERMS, reason="looked", heard=heard, asked_at=LATER)

    assert isinstance(move, Decision)
    job = move.on(REVIEW, now=LATER, actor="ada")
    assert job.status is Status.READY
    assert (job.attempts, job.timeouts, job.unreachable, job.key_number) == (0, 0, 0, 2)
    assert (job.first_sent_at, job.key_scope, job.reopened_at) == (None, None, LATER)
    assert job.evidence[-1].actor == "ada"
    assert job.evidence[-1].reason == "looked; pi_1 was not confirmed"


def test_row_that_is_own_proof_keeps_its_key() -> None:
    move = reopen(REVIEW, NATURAL, reason="looked", heard=None, asked_at=LATER)

    assert isinstance(move, Decision)
    assert "key_number" not in move.changes


@pytest.mark.parametrize(
    "heard", [Done("charged"), Refused("declined", code="x"), Odd("refunded"), Processing("wait")]
)
def test_other_effect_outcomes_do_not_reopen_job(heard: Done | Refused | Odd | Processing) -> None:
    why = reopen(REVIEW, TERMS, reason="looked", heard=heard, asked_at=LATER)

    assert isinstance(why, str)
    assert heard.reason in why


def test_unproved_absence_does_not_reopen_job_too_early() -> None:
    why = reopen(REVIEW, TERMS, reason="looked", heard=Absent("not there"), asked_at=NOW)
    proved = Absent("never prepared", proved=True)

    assert isinstance(why, str)
    assert "try again after 2026-11-16 03:01 UTC" in why
    assert isinstance(reopen(REVIEW, TERMS, reason="x", heard=proved, asked_at=NOW), Decision)


def test_absence_is_proof_after_last_possible_request() -> None:
    proof_from = ask_not_before(REVIEW, TERMS)
    absent = Absent("not there")

    early = reopen(REVIEW, TERMS, reason="x", heard=absent, asked_at=proof_from - TICK)
    in_time = reopen(REVIEW, TERMS, reason="x", heard=absent, asked_at=proof_from)

    assert isinstance(early, str)
    assert isinstance(in_time, Decision)


@pytest.mark.parametrize(
    ("repair", "event", "status"),
    [
        (Repair.FINISH, Event.RULE_FINISHED, Status.FINISHED),
        (Repair.FAIL, Event.RULE_FAILED, Status.FAILED),
    ],
)
def test_manual_resolution_ends_review_with_reference(
    repair: Repair, event: Event, status: Status
) -> None:
    move = rule(REVIEW, repair, reason="seen at Stripe", reference="ch_9")

    job = move.on(REVIEW, now=LATER, actor="ada")

    assert (job.status, job.evidence[-1].event) == (status, event)
    assert job.provider_ref == ("ch_9" if repair is Repair.FINISH else None)
    assert job.evidence[-1].reason == "seen at Stripe (reference ch_9)"


@pytest.mark.parametrize(
    ("repair", "result", "last_error"),
    [
        (Repair.FINISH, {"reference": "ch_9"}, None),
        (
            Repair.FAIL,
            {"code": "ruled_by_a_person", "reference": "ch_9"},
            "seen at Stripe (reference ch_9)",
        ),
    ],
)
def test_manual_resolution_records_error_only_for_failure(
    repair: Repair, result: dict[str, str], last_error: str | None
) -> None:
    move = rule(REVIEW, repair, reason="seen at Stripe", reference="ch_9")

    job = move.on(REVIEW, now=LATER, actor="ada")

    assert (job.result, job.last_error) == (result, last_error)


@pytest.mark.parametrize("repair", [Repair.FINISH, Repair.FAIL])
def test_manual_resolution_invents_no_reference(repair: Repair) -> None:
    move = rule(REVIEW, repair, reason="seen at Stripe", reference=None)

    job = move.on(REVIEW, now=LATER, actor="ada")

    assert (job.timeouts, job.unreachable) == (0, 0)
    assert job.provider_ref is None
    assert "reference" not in (job.result or {})
    assert job.evidence[-1].reason == "seen at Stripe"


@pytest.mark.parametrize(
    ("expires_at", "expected"),
    [
        (None, None),
        (NOW, NOW + TERMS.stop.age + MESSAGE_GRACE),
        (NOW + timedelta(days=90), NOW + timedelta(days=90)),
    ],
)
def test_failed_job_expires_only_after_resubmission_could_run(
    expires_at: datetime | None, expected: datetime | None
) -> None:
    failed = a_job(status=Status.FAILED, expires_at=expires_at)

    move = tried_again(failed, TERMS, as_key=KEY, reason="a new card", now=NOW + TICK)

    after = move.on(failed, now=NOW, actor="ada")
    assert (after.status, after.expires_at) == (Status.FAILED, expected)


def test_reopened_job_restarts_its_age() -> None:
    reopened = a_job(status=Status.READY, reopened_at=NOW + timedelta(days=5))

    told = offers(reopened, TERMS, now=NOW + timedelta(days=5, hours=1))

    assert [one.repair for one in told if one.allowed] == [Repair.RESEND]
