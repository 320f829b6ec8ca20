"""Finding jobs for people: by business id, customer, reference and status, on every engine."""

from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Event, Status
from oncely.ports import Claimed, Swapped, UnreadableRow
from tests.conformance.samples import (
    KEY,
    claim_job,
    finish_job,
    make_claim,
    make_ready_job,
    time_at,
)
from tests.conformance.store_fixtures import StoreFixture


def key(number: int) -> JobKey:
    return JobKey(f"payment.charge:order_{number}")


def add_ready_job(store_fixture: StoreFixture, number: int, **changes: object) -> Job:
    """A row that came in a minute after the one before it."""
    moment = time_at(60 * number)
    job = make_ready_job(key(number), created_at=moment, **changes)
    store_fixture.store.create(job)
    return job


def test_subject_finds_its_jobs_newest_first(store_fixture: StoreFixture) -> None:
    for number in range(3):
        add_ready_job(store_fixture, number, subject="18452")
    add_ready_job(store_fixture, 3, subject="18453")
    add_ready_job(store_fixture, 4)

    assert store_fixture.finder.by_subject("18452", limit=10) == [key(2), key(1), key(0)]
    assert store_fixture.finder.by_subject("18452", limit=2) == [key(2), key(1)]
    assert store_fixture.finder.by_subject("1845", limit=10) == []


def test_claimed_job_is_found_by_subject_and_customer(store_fixture: StoreFixture) -> None:
    claim = make_claim(subject="18452", amount=1250, currency="eur")

    result = store_fixture.store.claim(claim)

    assert isinstance(result, Claimed)
    job = result.job
    assert (job.subject, job.amount, job.currency) == ("18452", 1250, "eur")
    assert store_fixture.finder.by_subject("18452", limit=10) == [KEY]
    assert store_fixture.finder.by_customer("customer_7", limit=10) == [KEY]


def test_claim_keeps_existing_subject_and_amount(store_fixture: StoreFixture) -> None:
    store_fixture.store.create(make_ready_job(subject="the first", amount=1, currency="usd"))

    job = claim_job(store_fixture.store, subject="another", amount=1250, currency="eur")

    assert (job.subject, job.amount, job.currency) == ("the first", 1, "usd")


def test_provider_reference_finds_its_job(store_fixture: StoreFixture) -> None:
    job = claim_job(store_fixture.store)
    store_fixture.store.compare_and_swap(job, finish_job(job))

    assert store_fixture.finder.by_reference("pi_1", limit=10) == [KEY]
    assert store_fixture.finder.by_reference("pi_2", limit=10) == []


def test_hostile_ids_find_exactly_their_own_job(store_fixture: StoreFixture) -> None:
    ids = ["'; DROP--", '"quoted"', "<script>", "null\x00byte", "日本語", "x" * 200]
    for number, subject in enumerate(ids):
        add_ready_job(
            store_fixture, number, subject=subject, customer_id=subject, provider_ref=subject
        )

    for number, subject in enumerate(ids):
        assert store_fixture.finder.by_subject(subject, limit=10) == [key(number)]
        assert store_fixture.finder.by_customer(subject, limit=10) == [key(number)]
        assert store_fixture.finder.by_reference(subject, limit=10) == [key(number)]


def add_review_job(store_fixture: StoreFixture, number: int) -> Job:
    """A job that came to an operator a minute after the one before it."""
    job = add_ready_job(store_fixture, number)
    moved = job.apply(Event.ESCALATE, now=time_at(60 * number), actor="test", reason="test")
    store_fixture.store.compare_and_swap(job, moved)
    return moved


def test_attention_list_is_newest_first(store_fixture: StoreFixture) -> None:
    for number in range(30):
        add_review_job(store_fixture, number)

    listed = store_fixture.finder.by_status((Status.NEEDS_REVIEW,))

    assert [one.job_key for one in listed] == [key(number) for number in reversed(range(30))]


def test_job_is_listed_only_while_operator_can_repair_it(store_fixture: StoreFixture) -> None:
    job = claim_job(store_fixture.store)
    assert list(store_fixture.finder.by_status(tuple(Status))) == []

    lost = job.apply(Event.MARK_UNKNOWN, now=time_at(5), actor="worker", reason="timeout")
    store_fixture.store.compare_and_swap(job, lost)
    (one,) = store_fixture.finder.by_status((Status.UNKNOWN,))
    assert (one.job_key, one.at, one.job_type) == (KEY, time_at(5), "payment.charge")

    store_fixture.store.compare_and_swap(lost, finish_job(lost))
    assert list(store_fixture.finder.by_status(tuple(Status))) == []


def test_failed_job_is_listed_and_moves_when_contradicted(store_fixture: StoreFixture) -> None:
    job = claim_job(store_fixture.store)
    failed = job.apply(Event.DECLINE, now=time_at(5), actor="worker", reason="declined")
    store_fixture.store.compare_and_swap(job, failed)
    assert [one.at for one in store_fixture.finder.by_status((Status.FAILED,))] == [time_at(5)]

    review = failed.apply(Event.CONTRADICT, now=time_at(9), actor="worker", reason="charged")
    assert isinstance(store_fixture.store.compare_and_swap(failed, review), Swapped)

    assert list(store_fixture.finder.by_status((Status.FAILED,))) == []
    assert [one.at for one in store_fixture.finder.by_status((Status.NEEDS_REVIEW,))] == [
        time_at(9)
    ]


def test_evidence_alone_keeps_list_position(store_fixture: StoreFixture) -> None:
    job = add_review_job(store_fixture, 1)
    noted = job.apply(Event.NOTE, now=time_at(99), actor="ada", reason="looked at it")
    store_fixture.store.compare_and_swap(job, noted)

    (one,) = store_fixture.finder.by_status((Status.NEEDS_REVIEW,))

    assert one.at == time_at(60)


def test_list_filters_by_statuses_and_time(store_fixture: StoreFixture) -> None:
    for number in range(6):
        add_review_job(store_fixture, number)
    job = claim_job(store_fixture.store)
    store_fixture.store.compare_and_swap(
        job, job.apply(Event.MARK_UNKNOWN, now=time_at(600), actor="worker", reason="timeout")
    )
    both = (Status.UNKNOWN, Status.NEEDS_REVIEW)

    some = store_fixture.finder.by_status(
        both, since=time_at(120), until=time_at(240), oldest_first=True
    )

    assert [one.job_key for one in some] == [key(2), key(3), key(4)]
    assert next(store_fixture.finder.by_status(both)).job_key == KEY


def test_count_stops_at_limit(store_fixture: StoreFixture) -> None:
    for number in range(30):
        add_review_job(store_fixture, number)
    statuses = (Status.NEEDS_REVIEW, Status.UNKNOWN)

    assert store_fixture.finder.count(statuses, since=None, limit=1000) == 30
    assert store_fixture.finder.count(statuses, since=None, limit=7) == 7
    assert store_fixture.finder.count(statuses, since=time_at(60 * 20), limit=1000) == 10
    assert store_fixture.finder.count((Status.FAILED,), since=None, limit=1000) == 0


def test_rows_are_read_in_batch_without_missing_ones(store_fixture: StoreFixture) -> None:
    jobs = [add_ready_job(store_fixture, number) for number in range(120)]
    store_fixture.remove_row(key(7))

    rows = store_fixture.finder.get_many(
        [*(job.job_key for job in jobs), key(0), JobKey("no.such:job")]
    )

    assert rows == {job.job_key: job for job in jobs if job.job_key != key(7)}


def test_unreadable_row_is_reported_beside_others(store_fixture: StoreFixture) -> None:
    jobs = [add_review_job(store_fixture, number) for number in range(3)]
    store_fixture.corrupt_row(key(1))

    listed = [one.job_key for one in store_fixture.finder.by_status((Status.NEEDS_REVIEW,))]
    rows = store_fixture.finder.get_many(listed)

    assert listed == [key(2), key(1), key(0)]
    unreadable = rows.pop(key(1))
    assert isinstance(unreadable, UnreadableRow)
    assert str(key(1)) in unreadable.reason
    assert rows == {job.job_key: job for job in (jobs[0], jobs[2])}
