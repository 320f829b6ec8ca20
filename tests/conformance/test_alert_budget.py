"""The alert budget: each alert of a kind is counted once, in windows of an hour."""

from oncely.alerts.budget import ALERT_WINDOW, AlertCause, AlertKind, CountedAlert
from tests.conformance.samples import time_at
from tests.conformance.store_fixtures import StoreFixture

KIND = AlertKind(cause=AlertCause.REVIEW, job_type="payment.charge", reason="order … is odd")
OTHER = AlertKind(cause=AlertCause.CONFLICT, job_type="payment.charge", reason="order … is odd")
WINDOW_SECONDS = int(ALERT_WINDOW.total_seconds())


def count(db: StoreFixture, *, at: int = 0, kind: AlertKind = KIND) -> CountedAlert:
    return db.budget.count(kind, now=time_at(at))


def test_window_counts_alerts_until_it_ends(db: StoreFixture) -> None:
    end = time_at(WINDOW_SECONDS)
    assert count(db) == CountedAlert(number=1, until=end)
    assert count(db, at=1) == CountedAlert(number=2, until=end)
    assert count(db, at=WINDOW_SECONDS - 1) == CountedAlert(number=3, until=end)


def test_next_window_knows_what_the_last_counted(db: StoreFixture) -> None:
    for _ in range(3):
        count(db)
    end = time_at(2 * WINDOW_SECONDS)
    assert count(db, at=WINDOW_SECONDS) == CountedAlert(number=1, until=end, counted_before=3)
    assert count(db, at=WINDOW_SECONDS + 1) == CountedAlert(number=2, until=end)


def test_each_kind_has_its_own_window(db: StoreFixture) -> None:
    count(db)
    assert count(db, at=5, kind=OTHER) == CountedAlert(number=1, until=time_at(5 + WINDOW_SECONDS))


def test_alert_of_one_job_is_reserved_once(db: StoreFixture) -> None:
    assert None is db.budget.reserve(KIND, "job 1", now=time_at(0), until=time_at(60))
    held = db.budget.reserve(KIND, "job 1", now=time_at(59), until=time_at(120))
    assert held == time_at(60)
    assert None is db.budget.reserve(KIND, "job 2", now=time_at(0), until=time_at(60))
    assert None is db.budget.reserve(OTHER, "job 1", now=time_at(0), until=time_at(60))
    assert None is db.budget.reserve(KIND, "job 1", now=time_at(60), until=time_at(120))


def test_sent_alert_of_one_job_is_not_repeated(db: StoreFixture) -> None:
    db.budget.reserve(KIND, "job 1", now=time_at(0), until=time_at(60))
    db.budget.keep(KIND, "job 1", until=time_at(1000))

    held = db.budget.reserve(KIND, "job 1", now=time_at(999), until=time_at(2000))
    assert held == time_at(1000)
    assert None is db.budget.reserve(KIND, "job 1", now=time_at(1000), until=time_at(2000))
