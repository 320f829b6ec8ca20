"""Finding jobs by business id, customer, reference and status, on every engine."""

from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status
from oncely.core.store import Swapped
from oncely.operate.job_index import UnreadableRow
from tests.conformance.samples import KEY, claim_job, finish_job, make_ready_job, time_at
from tests.conformance.store_fixtures import StoreFixture


def key(number: int) -> JobKey:
    return JobKey(f"payment.charge:order_{number}")


def add_ready_job(db: StoreFixture, number: int, **changes: object) -> JobRow:
    job = make_ready_job(key(number), created_at=time_at(60 * number), **changes)
    db.store.create(job)
    return job


def test_subject_finds_its_jobs_newest_first(db: StoreFixture) -> None:
    for number in range(3):
        add_ready_job(db, number, subject="18452")
    add_ready_job(db, 3, subject="18453")
    add_ready_job(db, 4)

    assert db.finder.by_subject("18452", limit=10) == [key(2), key(1), key(0)]
    assert db.finder.by_subject("18452", limit=2) == [key(2), key(1)]
    assert db.finder.by_subject("1845", limit=10) == []


def test_claimed_job_is_found_by_subject_and_customer(db: StoreFixture) -> None:
    job = claim_job(db.store, subject="18452", amount=1250, currency="eur")
    assert (job.subject, job.amount, job.currency) == ("18452", 1250, "eur")
    assert db.finder.by_subject("18452", limit=10) == [KEY]
    assert db.finder.by_customer("customer_7", limit=10) == [KEY]


def test_claim_keeps_existing_subject_and_amount(db: StoreFixture) -> None:
    db.store.create(make_ready_job(subject="the first", amount=1, currency="usd"))
    job = claim_job(db.store, subject="another", amount=1250, currency="eur")
    assert (job.subject, job.amount, job.currency) == ("the first", 1, "usd")


def test_provider_reference_finds_its_job(db: StoreFixture) -> None:
    job = claim_job(db.store)
    db.store.swap(job, finish_job(job))
    assert db.finder.by_reference("pi_1", limit=10) == [KEY]
    assert db.finder.by_reference("pi_2", limit=10) == []


def test_hostile_ids_find_exactly_their_own_job(db: StoreFixture) -> None:
    ids = ["'; DROP--", '"quoted"', "<script>", "null\x00byte", "日本語", "x" * 200]
    for number, one in enumerate(ids):
        add_ready_job(db, number, subject=one, customer_id=one, provider_ref=one)

    for number, one in enumerate(ids):
        for find in (db.finder.by_subject, db.finder.by_customer, db.finder.by_reference):
            assert find(one, limit=10) == [key(number)]


def add_review_job(db: StoreFixture, number: int) -> JobRow:
    job = add_ready_job(db, number)
    moved = job.apply(Event.ESCALATE, now=time_at(60 * number), actor="test", reason="test")
    db.store.swap(job, moved)
    return moved


def test_review_list_is_newest_first_and_counted_to_limit(db: StoreFixture) -> None:
    for number in range(30):
        add_review_job(db, number)

    listed = db.finder.by_status((Status.NEEDS_REVIEW,))
    statuses = (Status.NEEDS_REVIEW, Status.UNKNOWN)

    assert [one.job_key for one in listed] == [key(number) for number in reversed(range(30))]
    assert db.finder.count(statuses, since=None, limit=1000) == 30
    assert db.finder.count(statuses, since=None, limit=7) == 7
    assert db.finder.count(statuses, since=time_at(60 * 20), limit=1000) == 10
    assert db.finder.count((Status.FAILED,), since=None, limit=1000) == 0


def test_job_is_listed_only_while_operator_can_repair_it(db: StoreFixture) -> None:
    job = claim_job(db.store)
    assert list(db.finder.by_status(tuple(Status))) == []

    lost = job.apply(Event.MARK_UNKNOWN, now=time_at(5), actor="worker", reason="timeout")
    db.store.swap(job, lost)
    (one,) = db.finder.by_status((Status.UNKNOWN,))
    assert (one.job_key, one.at, one.job_type) == (KEY, time_at(5), "payment.charge")

    db.store.swap(lost, finish_job(lost))
    assert list(db.finder.by_status(tuple(Status))) == []


def test_failed_job_is_listed_and_moves_when_contradicted(db: StoreFixture) -> None:
    job = claim_job(db.store)
    failed = job.apply(Event.DECLINE, now=time_at(5), actor="worker", reason="declined")
    db.store.swap(job, failed)
    assert [one.at for one in db.finder.by_status((Status.FAILED,))] == [time_at(5)]

    review = failed.apply(Event.CONTRADICT, now=time_at(9), actor="worker", reason="charged")
    assert isinstance(db.store.swap(failed, review), Swapped)

    assert list(db.finder.by_status((Status.FAILED,))) == []
    assert [one.at for one in db.finder.by_status((Status.NEEDS_REVIEW,))] == [time_at(9)]


def test_evidence_alone_keeps_list_position(db: StoreFixture) -> None:
    job = add_review_job(db, 1)
    noted = job.apply(Event.NOTE, now=time_at(99), actor="ada", reason="looked at it")
    db.store.swap(job, noted)
    assert [one.at for one in db.finder.by_status((Status.NEEDS_REVIEW,))] == [time_at(60)]


def test_list_filters_by_statuses_and_time(db: StoreFixture) -> None:
    for number in range(6):
        add_review_job(db, number)
    job = claim_job(db.store)
    lost = job.apply(Event.MARK_UNKNOWN, now=time_at(600), actor="worker", reason="timeout")
    db.store.swap(job, lost)
    both = (Status.UNKNOWN, Status.NEEDS_REVIEW)

    some = db.finder.by_status(both, since=time_at(120), until=time_at(240), oldest_first=True)
    assert [one.job_key for one in some] == [key(2), key(3), key(4)]
    assert next(db.finder.by_status(both)).job_key == KEY


def test_rows_are_read_in_batch_without_missing_ones(db: StoreFixture) -> None:
    jobs = [add_ready_job(db, number) for number in range(120)]
    db.remove_row(key(7))
    rows = db.finder.get_many([*(job.job_key for job in jobs), key(0), JobKey("no.such:job")])
    assert rows == {job.job_key: job for job in jobs if job.job_key != key(7)}


def test_unreadable_row_is_reported_beside_others(db: StoreFixture) -> None:
    jobs = [add_review_job(db, number) for number in range(3)]
    db.corrupt_row(key(1))

    listed = [one.job_key for one in db.finder.by_status((Status.NEEDS_REVIEW,))]
    rows = db.finder.get_many(listed)

    assert listed == [key(2), key(1), key(0)]
    unreadable = rows.pop(key(1))
    assert isinstance(unreadable, UnreadableRow)
    assert str(key(1)) in unreadable.reason
    assert rows == {job.job_key: job for job in (jobs[0], jobs[2])}
