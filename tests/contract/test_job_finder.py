"""Finding jobs for people: by business id, customer, reference and status, on every engine."""

from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Event, Status
from oncely.ports import Claimed, Written
from tests.contract.places import Place
from tests.contract.samples import KEY, a_claim, a_ready_job, at, finished, started


def key(number: int) -> JobKey:
    return JobKey(f"payment.charge:order_{number}")


def ready(place: Place, number: int, **changes: object) -> Job:
    """A row that came in a minute after the one before it."""
    moment = at(60 * number)
    job = a_ready_job(key(number), created_at=moment, **changes)
    place.store.create(job)
    return job


def test_subject_finds_its_jobs_newest_first(place: Place) -> None:
    for number in range(3):
        ready(place, number, subject="18452")
    ready(place, 3, subject="18453")
    ready(place, 4)

    assert place.finder.by_subject("18452", most=10) == [key(2), key(1), key(0)]
    assert place.finder.by_subject("18452", most=2) == [key(2), key(1)]
    assert place.finder.by_subject("1845", most=10) == []


def test_claimed_job_is_found_by_subject_and_customer(place: Place) -> None:
    claim = a_claim(subject="18452", amount=1250, currency="eur")

    result = place.store.claim(claim)

    assert isinstance(result, Claimed)
    job = result.job
    assert (job.subject, job.amount, job.currency) == ("18452", 1250, "eur")
    assert place.finder.by_subject("18452", most=10) == [KEY]
    assert place.finder.by_customer("customer_7", most=10) == [KEY]


def test_claim_keeps_existing_subject_and_amount(place: Place) -> None:
    place.store.create(a_ready_job(subject="the first", amount=1, currency="usd"))

    job = started(place.store, subject="another", amount=1250, currency="eur")

    assert (job.subject, job.amount, job.currency) == ("the first", 1, "usd")


def test_provider_reference_finds_its_job(place: Place) -> None:
    job = started(place.store)
    place.store.swap(job, finished(job))

    assert place.finder.by_reference("pi_1", most=10) == [KEY]
    assert place.finder.by_reference("pi_2", most=10) == []


def test_hostile_ids_find_exactly_their_own_job(place: Place) -> None:
    ids = ["'; DROP--", '"quoted"', "<script>", "null\x00byte", "日本語", "x" * 200]
    for number, subject in enumerate(ids):
        ready(place, number, subject=subject, customer_id=subject, provider_ref=subject)

    for number, subject in enumerate(ids):
        assert place.finder.by_subject(subject, most=10) == [key(number)]
        assert place.finder.by_customer(subject, most=10) == [key(number)]
        assert place.finder.by_reference(subject, most=10) == [key(number)]


def review(place: Place, number: int) -> Job:
    """A job that came to an operator a minute after the one before it."""
    job = ready(place, number)
    moved = job.apply(Event.ESCALATE, now=at(60 * number), actor="test", reason="test")
    place.store.swap(job, moved)
    return moved


def test_attention_list_is_newest_first(place: Place) -> None:
    for number in range(30):
        review(place, number)

    listed = place.finder.attention((Status.NEEDS_REVIEW,))

    assert [one.job_key for one in listed] == [key(number) for number in reversed(range(30))]


def test_job_is_listed_only_while_operator_can_repair_it(place: Place) -> None:
    job = started(place.store)
    assert list(place.finder.attention(tuple(Status))) == []

    lost = job.apply(Event.LOSE, now=at(5), actor="worker", reason="timeout")
    place.store.swap(job, lost)
    (one,) = place.finder.attention((Status.UNKNOWN,))
    assert (one.job_key, one.at, one.job_type) == (KEY, at(5), "payment.charge")

    place.store.swap(lost, finished(lost))
    assert list(place.finder.attention(tuple(Status))) == []


def test_failed_job_is_listed_and_moves_when_contradicted(place: Place) -> None:
    job = started(place.store)
    failed = job.apply(Event.REFUSE, now=at(5), actor="worker", reason="declined")
    place.store.swap(job, failed)
    assert [one.at for one in place.finder.attention((Status.FAILED,))] == [at(5)]

    review = failed.apply(Event.CONTRADICT, now=at(9), actor="worker", reason="charged")
    assert isinstance(place.store.swap(failed, review), Written)

    assert list(place.finder.attention((Status.FAILED,))) == []
    assert [one.at for one in place.finder.attention((Status.NEEDS_REVIEW,))] == [at(9)]


def test_evidence_alone_keeps_list_position(place: Place) -> None:
    job = review(place, 1)
    noted = job.apply(Event.NOTE, now=at(99), actor="ada", reason="looked at it")
    place.store.swap(job, noted)

    (one,) = place.finder.attention((Status.NEEDS_REVIEW,))

    assert one.at == at(60)


def test_list_filters_by_statuses_and_time(place: Place) -> None:
    for number in range(6):
        review(place, number)
    job = started(place.store)
    place.store.swap(job, job.apply(Event.LOSE, now=at(600), actor="worker", reason="timeout"))
    both = (Status.UNKNOWN, Status.NEEDS_REVIEW)

    some = place.finder.attention(both, since=at(120), until=at(240), oldest_first=True)

    assert [one.job_key for one in some] == [key(2), key(3), key(4)]
    assert next(place.finder.attention(both)).job_key == KEY


def test_count_stops_at_limit(place: Place) -> None:
    for number in range(30):
        review(place, number)
    statuses = (Status.NEEDS_REVIEW, Status.UNKNOWN)

    assert place.finder.count(statuses, since=None, most=1000) == 30
    assert place.finder.count(statuses, since=None, most=7) == 7
    assert place.finder.count(statuses, since=at(60 * 20), most=1000) == 10
    assert place.finder.count((Status.FAILED,), since=None, most=1000) == 0


def test_rows_are_read_in_batch_without_missing_ones(place: Place) -> None:
    jobs = [ready(place, number) for number in range(120)]
    place.remove_row(key(7))

    rows = place.finder.rows([*(job.job_key for job in jobs), key(0), JobKey("no.such:job")])

    assert rows == {job.job_key: job for job in jobs if job.job_key != key(7)}
