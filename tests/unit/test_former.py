"""What an archived end means for a new run of the same key."""

from datetime import timedelta

import pytest

from oncely.domain.answers import NotSent
from oncely.domain.former import not_looked_up, restored, takes_the_place_of
from oncely.domain.jobs import Job
from oncely.domain.lifecycle import Event, Status
from tests.unit.samples import NOW, TERMS, TICK, a_job

NO_ARCHIVE = NotSent("S3 gave no answer")
VALUES = ("fingerprint", "customer_id", "amount", "currency")


@pytest.mark.parametrize(
    ("job", "newer"),
    [
        (a_job(version=7), False),
        (a_job(version=6), False),
        (a_job(version=8), True),
        (a_job(version=2, created_at=NOW + TICK), True),
        (a_job(version=8, created_at=NOW - TICK), False),
    ],
)
def test_end_takes_the_place_of_an_archived_one_only_if_it_is_newer(
    job: Job, *, newer: bool
) -> None:
    assert takes_the_place_of(job, a_job(version=7)) is newer


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (Status.FINISHED, Status.FINISHED),
        (Status.FAILED, Status.FAILED),
        (Status.UNKNOWN, Status.NEEDS_REVIEW),
    ],
)
def test_archived_end_is_restored_and_anything_else_needs_review(
    status: Status, expected: Status
) -> None:
    former = a_job(status=status, provider_ref="pi_1", amount=1250, currency="eur")
    job = a_job(amount=9900, currency="usd")

    decision = restored(job, former, TERMS, now=NOW)

    after = decision.on(job, now=NOW, actor="worker")
    assert (after.status, after.provider_ref) == (expected, "pi_1")
    assert (after.amount, after.currency) == (1250, "eur")


@pytest.mark.parametrize(("fence", "bound"), [(1, False), (2, True)])
def test_claim_without_an_archive_binds_no_values_unless_an_earlier_one_did(
    fence: int, *, bound: bool
) -> None:
    job = a_job(fence=fence, amount=1250, currency="eur")

    decision = not_looked_up(job, TERMS, NO_ARCHIVE, now=NOW, spread=0.0)

    after = decision.on(job, now=NOW, actor="worker")
    assert decision.event is Event.RELEASE
    assert decision.run_at == NOW + timedelta(seconds=15)
    kept = [getattr(job, name) if bound else None for name in VALUES]
    assert [getattr(after, name) for name in VALUES] == kept
