"""Search finds a job by each of its ids."""

from collections.abc import Sequence
from typing import Any

import pytest

from oncely.core.errors import InvalidRequestError
from oncely.core.job_row import JobRow
from oncely.core.keys import MAX_KEY_LENGTH, JobKey
from oncely.operate.job_index import JobIndex, UnreadableRow
from oncely.operate.job_queries import SearchResults
from oncely.operate.own_tables import JOBS
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.unit.job_view_fixtures import KEY, world_with_paid_job
from tests.unit.samples import make_job

SECOND = JobKey(f"{KEY}:2")


def keys_and_matches(found: SearchResults) -> list[tuple[str, str | None]]:
    return [(view.job.job_key, view.matched_by) for view in found.jobs]


@pytest.mark.parametrize("text", ["18452", "#18452", "order_18452", "  18452\n", "# 18452"])
def test_order_is_found_in_any_spelling(text: str) -> None:
    assert keys_and_matches(world_with_paid_job().inspector().search(text)) == [(KEY, "order")]


@pytest.mark.parametrize("order_id", ["order_18452", "#18452"])
@pytest.mark.parametrize("text", ["18452", "#18452", "order_18452"])
def test_prefixed_order_id_is_found_in_any_spelling(order_id: str, text: str) -> None:
    found = world_with_paid_job(order_id).inspector().search(text)
    assert [view.subject for view in found.jobs] == [order_id]


@pytest.mark.parametrize(
    ("text", "way"), [(KEY, "job key"), ("customer_7", "customer"), ("pi_1", "provider reference")]
)
def test_job_is_found_by_key_customer_or_reference(text: str, way: str) -> None:
    assert keys_and_matches(world_with_paid_job().inspector().search(text)) == [(KEY, way)]


@pytest.mark.parametrize("text", ["1845", "18452 OR 1=1", "payment.charge:", "x" * 5000, "\ud800"])
def test_unknown_id_finds_nothing(text: str) -> None:
    assert world_with_paid_job().inspector().search(text).jobs == ()


@pytest.mark.parametrize("text", ["x" * 201, "\ud800"])
def test_text_that_no_index_can_hold_reads_nothing(text: str) -> None:
    untouched: Any = object()
    inspector = InMemoryStack().app(store=untouched, job_index=untouched).job_queries
    assert inspector.search(text) == SearchResults(query=text, jobs=())


def test_empty_query_says_what_to_type() -> None:
    with pytest.raises(InvalidRequestError, match="enter an order"):
        InMemoryStack().inspector().search("  ")


def test_jobs_are_found_newest_first_and_once() -> None:
    world = world_with_paid_job()
    world.clock.advance(minutes=1)
    world.run({"job": "receipt.send", "v": 1, "order_id": "18452"})

    found = world.inspector().search("18452")

    assert [view.job.job_type for view in found.jobs] == ["receipt.send", "payment.charge"]
    assert len(world.inspector().search("customer_7").jobs) == 2


@pytest.mark.parametrize(
    "text",
    [
        *("18452", "payment.charge", "payment.charge:", ":order_18452", "Payment:order_18452"),
        *("payment.charge:" + "x" * 200, "payment.charge:\udfff"),
    ],
)
def test_impossible_job_key_shows_nothing_without_read(text: str) -> None:
    untouched: Any = object()
    assert InMemoryStack().app(store=untouched).job_queries.get(text) is None


def test_longest_key_is_shown() -> None:
    key = JobKey("payment.charge:" + "x" * (MAX_KEY_LENGTH - len("payment.charge:")))
    world = InMemoryStack()
    world.store.jobs[key] = make_job(job_key=key)

    assert world.inspector().get(key) is not None
    assert world.inspector().get("payment.charge:none") is None


class _RecordingIndex(JobIndex):
    requested_keys: tuple[JobKey, ...] = ()

    def get_many(self, keys: Sequence[JobKey]) -> dict[JobKey, JobRow | UnreadableRow]:
        found = super().get_many(keys)
        self.requested_keys += tuple(found)
        return found


@pytest.mark.parametrize("text", ["18452", KEY])
def test_each_matching_row_is_read_once(text: str) -> None:
    world = world_with_paid_job()
    finder = _RecordingIndex(world.store.client, JOBS)
    world.app(job_index=finder).job_queries.search(text)
    assert finder.requested_keys == (KEY,)


def test_resubmitted_jobs_are_found_without_stored_subject(world: InMemoryStack) -> None:
    world.payments.declines = True
    world.run(charge_message())
    world.payments.declines = False
    world.run(charge_message(attempt=2))
    assert {job.subject for job in world.store.jobs.values()} == {None}

    assert {view.job.job_key for view in world.inspector().search("18452").jobs} == {KEY, SECOND}


def test_subject_is_stored_when_key_cannot_be_derived() -> None:
    world = InMemoryStack()
    names = {"source": "hubspot", "source_id": "1", "event_id": "1"}
    world.run({"job": "sync.contact", "v": 1, **names})

    (view,) = world.inspector().search("hubspot#1").jobs

    assert view.job.subject == view.subject == "hubspot#1"


def test_unreadable_row_hides_no_other_search_result() -> None:
    world = world_with_paid_job()
    world.run(charge_message("18452", attempt=2))
    world.store.make_unreadable(KEY)

    found = world.inspector().search("18452")

    assert [row.job_key for row in found.unreadable] == [KEY]
    assert found.to_json()["jobs"] == [view.to_summary_json() for view in found.jobs]
