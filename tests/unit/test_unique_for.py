"""unique_for: one job of a name in a window, until that one starts."""

from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from oncely.adapters.system import new_token
from oncely.domain.errors import UnavailableError
from oncely.domain.jobs import Job
from oncely.domain.keys import JobKey
from oncely.domain.lifecycle import Status
from oncely.ports import CreateResult, Window, WindowHeld
from oncely.registry import Registry
from oncely.services.enqueue import Enqueued, Enqueuer
from oncely.testing.memory import MemoryJobStore, MemoryWindows
from tests.support.fakes import FakeClock, FakeOutbox
from tests.unit.report_contract import ReportBuild, report
from tests.unit.samples import a_claim

HOUR = timedelta(hours=1)
FIRST = JobKey("report.build:~a")


@dataclass
class Reports:
    store: MemoryJobStore = field(default_factory=MemoryJobStore)
    outbox: FakeOutbox = field(default_factory=FakeOutbox)
    clock: FakeClock = field(default_factory=FakeClock)

    def ask_for(self, token: str, list_id: str = "7", **more: object) -> Enqueued:
        enqueuer = Enqueuer(
            registry=Registry([ReportBuild]),
            store=self.store,
            windows=MemoryWindows(self.store),
            outbox=lambda _: self.outbox,
            clock=self.clock,
            new_token=new_token,
        )
        return enqueuer.enqueue(report(token, list_id, **more), unique_for=HOUR)

    def start(self, key: JobKey) -> None:
        self.store.claim(a_claim(job_key=key, fingerprint=None))


@pytest.fixture
def reports() -> Reports:
    reports = Reports()
    reports.ask_for("a")
    return reports


def test_second_message_in_window_is_first_job_and_not_sent(reports: Reports) -> None:
    second = reports.ask_for("b")

    assert (second.job_key, second.status) == (FIRST, Status.READY)
    assert (second.created, second.sent) == (False, False)
    assert (len(reports.store.jobs), len(reports.outbox.sent)) == (1, 1)


def test_differing_message_in_window_is_not_sent(reports: Reports) -> None:
    second = reports.ask_for("b", text="more")

    assert (second.job_key, second.sent) == (FIRST, False)
    assert len(reports.outbox.sent) == 1


def test_second_message_in_window_is_no_conflict(reports: Reports) -> None:
    assert reports.ask_for("b").conflict is None


def test_new_job_is_created_after_first_started(reports: Reports) -> None:
    reports.start(FIRST)

    second = reports.ask_for("b")

    assert (second.job_key, second.created, second.sent) == ("report.build:~b", True, True)


def test_new_job_holds_window_afterwards(reports: Reports) -> None:
    reports.start(FIRST)
    reports.ask_for("b")

    third = reports.ask_for("c")

    assert (third.job_key, third.created) == ("report.build:~b", False)


@pytest.mark.parametrize(("minutes", "created"), [(59, False), (60, True)])
def test_new_job_is_created_after_window_ended(
    minutes: int, reports: Reports, *, created: bool
) -> None:
    reports.clock.move(minutes=minutes)

    assert reports.ask_for("b").created is created


def test_other_uniqueness_key_has_own_window(reports: Reports) -> None:
    assert reports.ask_for("b", list_id="8").created


def test_same_token_is_same_job_after_window(reports: Reports) -> None:
    reports.start(FIRST)
    reports.clock.move(hours=5)

    again = reports.ask_for("a")

    assert (again.job_key, again.status, again.created) == (FIRST, Status.STARTED, False)


def test_window_is_free_when_its_job_is_missing(reports: Reports) -> None:
    reports.store.expire(FIRST)

    assert reports.ask_for("b").created


class NeverFree:
    """A window that changes hands between every look and the next try."""

    tries = 0

    def create(
        self, job: Job, window: Window, *, instead_of: JobKey | None = None
    ) -> CreateResult | WindowHeld:
        self.tries += 1
        return WindowHeld(JobKey("report.build:~gone"))


def test_contended_window_raises_unavailable(reports: Reports) -> None:
    windows = NeverFree()
    enqueuer = Enqueuer(
        registry=Registry([ReportBuild]),
        store=reports.store,
        windows=windows,
        outbox=lambda _: reports.outbox,
        clock=reports.clock,
        new_token=new_token,
    )

    with pytest.raises(UnavailableError, match="kept changing hands"):
        enqueuer.enqueue(report("b"), unique_for=HOUR)

    assert windows.tries == 3
