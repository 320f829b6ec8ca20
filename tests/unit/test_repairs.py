"""Which repair is open when: every status, and what each changes."""

from datetime import timedelta

import pytest

from oncely.domain.answers import Absent, Done, Odd, Processing, Refused
from oncely.domain.lifecycle import Event, Status
from oncely.domain.moves import ARCHIVE_GRACE, Decision
from oncely.domain.profiles import SES, Profile, Safety, Terms
from oncely.domain.repairs import Repair, offers, reopen, rule
from tests.unit.samples import NOW, PROFILE, TERMS, a_job

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
def test_every_repair_says_why_in_a_sentence(status: Status) -> None:
    told = offers(a_job(status=status), TERMS, now=LATER)

    assert [one.repair for one in told] == list(Repair)
    assert all(one.why and "\n" not in one.why for one in told)


def test_nobody_asks_about_a_job_that_a_worker_has() -> None:
    told = offers(a_job(lease_until=LATER + timedelta(seconds=1)), TERMS, now=LATER)

    assert not any(one.allowed for one in told)


@pytest.mark.parametrize("terms", [AT_MOST_ONCE, CANNOT_ASK])
def test_what_cannot_be_asked_for_is_marked_and_never_returned(terms: Terms) -> None:
    assert allowed(Status.NEEDS_REVIEW, terms) == {Repair.FINISH, Repair.FAIL}


@pytest.mark.parametrize("terms", [AT_MOST_ONCE, CANNOT_ASK, TERMS])
def test_a_job_that_no_worker_ever_took_may_be_returned(terms: Terms) -> None:
    assert Repair.RETURN in allowed(Status.NEEDS_REVIEW, terms, fence=0)


def test_only_marking_as_done_needs_a_reference_and_a_natural_effect_has_none() -> None:
    review = a_job(status=Status.NEEDS_REVIEW)

    def needing(terms: Terms) -> set[Repair]:
        return {one.repair for one in offers(review, terms, now=LATER) if one.needs_reference}

    assert needing(TERMS) == {Repair.FINISH}
    assert needing(NATURAL) == set()


def test_a_job_past_its_age_is_not_sent_again_by_hand() -> None:
    ready = a_job(status=Status.READY)

    told = offers(ready, TERMS, now=NOW + TERMS.stop.age)

    assert not any(one.allowed for one in told)


def test_a_contract_without_a_second_attempt_offers_none() -> None:
    assert not any(one.allowed for one in offers(a_job(status=Status.FAILED), TERMS, now=LATER))


REVIEW = a_job(status=Status.NEEDS_REVIEW, attempts=8, timeouts=5, unreachable=3)


def test_proof_of_absence_begins_everything_anew_under_the_next_key() -> None:
    heard = Absent("pi_1 was not confirmed")

    move = reopen(REVIEW, TERMS, reason="looked", heard=heard, asked_at=LATER)

    assert isinstance(move, Decision)
    job = move.on(REVIEW, now=LATER, actor="ada")
    assert job.status is Status.READY
    assert (job.attempts, job.timeouts, job.unreachable, job.key_number) == (0, 0, 0, 2)
    assert (job.first_sent_at, job.key_scope, job.reopened_at) == (None, None, LATER)
    assert job.evidence[-1].actor == "ada"
    assert job.evidence[-1].reason == "looked; pi_1 was not confirmed"


def test_a_row_that_is_its_own_proof_keeps_its_key() -> None:
    move = reopen(REVIEW, NATURAL, reason="looked", heard=None, asked_at=LATER)

    assert isinstance(move, Decision)
    assert "key_number" not in move.changes


@pytest.mark.parametrize(
    "heard", [Done("charged"), Refused("declined", code="x"), Odd("refunded"), Processing("wait")]
)
def test_any_other_answer_is_no_proof(heard: Done | Refused | Odd | Processing) -> None:
    why = reopen(REVIEW, TERMS, reason="looked", heard=heard, asked_at=LATER)

    assert isinstance(why, str)
    assert heard.reason in why


def test_not_there_is_no_proof_while_a_request_may_be_under_way() -> None:
    why = reopen(REVIEW, TERMS, reason="looked", heard=Absent("not there"), asked_at=NOW)
    proved = Absent("never prepared", proved=True)

    assert isinstance(why, str)
    assert "try again after 2026-11-16 03:01 UTC" in why
    assert isinstance(reopen(REVIEW, TERMS, reason="x", heard=proved, asked_at=NOW), Decision)


@pytest.mark.parametrize(
    ("repair", "event", "status"),
    [
        (Repair.FINISH, Event.RULE_FINISHED, Status.FINISHED),
        (Repair.FAIL, Event.RULE_FAILED, Status.FAILED),
    ],
)
def test_a_persons_word_ends_a_review_and_leaves_it_due_for_the_archive(
    repair: Repair, event: Event, status: Status
) -> None:
    move = rule(REVIEW, repair, reason="seen at Stripe", reference="ch_9", now=LATER)

    job = move.on(REVIEW, now=LATER, actor="ada")

    assert (job.status, job.evidence[-1].event) == (status, event)
    assert job.due_at == LATER + ARCHIVE_GRACE
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
def test_ruling_records_an_error_only_for_a_failure(
    repair: Repair, result: dict[str, str], last_error: str | None
) -> None:
    move = rule(REVIEW, repair, reason="seen at Stripe", reference="ch_9", now=LATER)

    job = move.on(REVIEW, now=LATER, actor="ada")

    assert (job.result, job.last_error) == (result, last_error)


def test_the_age_of_a_returned_job_begins_anew() -> None:
    reopened = a_job(status=Status.READY, reopened_at=NOW + timedelta(days=5))

    told = offers(reopened, TERMS, now=NOW + timedelta(days=5, hours=1))

    assert [one.repair for one in told if one.allowed] == [Repair.RESEND]
