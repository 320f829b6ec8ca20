"""unique_for: one job of a name in a window, until that one starts."""

from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from oncely.core.decide import on_held
from oncely.core.errors import UnavailableError
from oncely.core.inserter import JobInserter, UniqueWindow, WindowTaken
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.core.store import CreateResult
from oncely.enqueue.enqueuer import EnqueueResult
from tests.support.fakes import FakeClock, FakeMessageSender
from tests.support.in_memory_stack import InMemoryStack
from tests.support.stored_rows import InspectableStore
from tests.unit.report_job import ReportBuild, report_message
from tests.unit.samples import make_claim

HOUR = timedelta(hours=1)
FIRST = JobKey("report.build:a")


@dataclass
class ReportProducer:
    store: InspectableStore = field(default_factory=InspectableStore)
    outbox: FakeMessageSender = field(default_factory=FakeMessageSender)
    clock: FakeClock = field(default_factory=FakeClock)
    inserter: JobInserter | None = None

    def enqueue_report(self, token: str, list_id: str = "7", **more: object) -> EnqueueResult:
        world = InMemoryStack(contracts=(ReportBuild,), store=self.store, outbox=self.outbox)
        inserter = {"job_inserter": self.inserter} if self.inserter else {}
        enqueuer = world.app(clock=self.clock, **inserter).enqueuer
        return enqueuer.enqueue(report_message(token, list_id, **more), unique_for=HOUR)

    def start(self, key: JobKey) -> None:
        self.store.claim(make_claim(job_key=key, fingerprint=None))


@pytest.fixture
def reports() -> ReportProducer:
    reports = ReportProducer()
    reports.enqueue_report("a")
    return reports


@pytest.mark.parametrize("text", [None, "more"], ids=["same", "differing"])
def test_second_message_in_window_is_first_job(reports: ReportProducer, text: str | None) -> None:
    second = reports.enqueue_report("b", text=text)
    assert (second.job_key, second.status) == (FIRST, Status.READY)
    assert (second.created, second.sent, second.conflict) == (False, False, None)
    assert (len(reports.store.jobs), len(reports.outbox.sent)) == (1, 1)


def test_new_job_is_created_after_first_started(reports: ReportProducer) -> None:
    reports.start(FIRST)
    second, third = reports.enqueue_report("b"), reports.enqueue_report("c")
    assert (second.job_key, second.created, second.sent) == ("report.build:b", True, True)
    assert (third.job_key, third.created) == ("report.build:b", False), "it holds the window"


@pytest.mark.parametrize(("minutes", "created"), [(59, False), (60, True)])
def test_window_ends_after_an_hour(minutes: int, reports: ReportProducer, *, created: bool) -> None:
    reports.clock.advance(minutes=minutes)
    assert reports.enqueue_report("b").created is created


def test_other_uniqueness_key_has_own_window(reports: ReportProducer) -> None:
    assert reports.enqueue_report("b", list_id="8").created


def test_same_token_is_same_job_after_window(reports: ReportProducer) -> None:
    reports.start(FIRST)
    reports.clock.advance(hours=5)
    again = reports.enqueue_report("a")
    assert (again.job_key, again.status, again.created) == (FIRST, Status.STARTED, False)


def test_window_is_free_when_its_job_is_missing(reports: ReportProducer) -> None:
    reports.store.expire(FIRST)
    assert reports.enqueue_report("b").created


class NeverFreeWindow(JobInserter):
    """A window that changes between every read and the next try."""

    attempts = 0

    def insert_unique(
        self, job: JobRow, window: UniqueWindow, *, replacing: JobKey | None = None
    ) -> CreateResult | WindowTaken:
        self.attempts += 1
        return WindowTaken(JobKey("report.build:gone"))


def test_contended_window_raises_unavailable(reports: ReportProducer) -> None:
    reports.inserter = inserter = NeverFreeWindow(reports.store.client, reports.store)
    with pytest.raises(UnavailableError, match="kept changing"):
        reports.enqueue_report("b")
    assert inserter.attempts == 3


def test_job_on_hold_keeps_window(reports: ReportProducer) -> None:
    """Its provider is paused for longer than the window."""
    row = reports.store.jobs[FIRST]
    held = on_held(replace(row, due_at=None), "paused", until=reports.clock.now() + 9 * HOUR)
    assert held is not None
    reports.store.jobs[FIRST] = held.apply_to(row, now=reports.clock.now(), actor="worker")

    assert not reports.enqueue_report("b").created


def test_scheduled_job_keeps_window(reports: ReportProducer) -> None:
    run_at = reports.clock.now() + 9 * HOUR
    row = replace(reports.store.jobs[FIRST], run_at=run_at, due_at=run_at)
    reports.store.jobs[FIRST] = row

    assert not reports.enqueue_report("b").created
