"""One search box: a job is found however people name it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from oncely.domain.errors import InvalidRequestError
from oncely.domain.jobs import Job
from oncely.domain.keys import MAX_KEY, JobKey
from oncely.services.inspect import Found
from oncely.testing.memory import MemoryJobFinder
from tests.support.world import World, charge
from tests.unit.samples import a_job
from tests.unit.shown_jobs import KEY, paid

SECOND = JobKey(f"{KEY}:2")


def paid_at_the_second_attempt() -> World:
    world = World()
    world.add_order()
    world.payments.declines = True
    world.run(charge())
    world.payments.declines = False
    world.run(charge(attempt=2))
    return world


def ways(found: Found) -> list[tuple[str, str | None]]:
    return [(view.job.job_key, view.found_by) for view in found.jobs]


@pytest.mark.parametrize("text", ["18452", "#18452", "order_18452", "  18452\n", "# 18452"])
def test_order_is_found_in_any_spelling(text: str) -> None:
    assert ways(paid().inspector().find(text)) == [(KEY, "order")]


@pytest.mark.parametrize("order_id", ["order_18452", "#18452"])
@pytest.mark.parametrize("text", ["18452", "#18452", "order_18452"])
def test_prefixed_order_id_is_found_in_any_spelling(order_id: str, text: str) -> None:
    found = paid(order_id).inspector().find(text)

    assert [view.subject for view in found.jobs] == [order_id]


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("payment.charge:order_18452", "job key"),
        ("customer_7", "customer"),
        ("pi_1", "provider reference"),
    ],
)
def test_job_is_found_by_key_customer_or_reference(text: str, way: str) -> None:
    assert ways(paid().inspector().find(text)) == [(KEY, way)]


@pytest.mark.parametrize("text", ["1845", "18452 OR 1=1", "payment.charge:", "x" * 5000, "\ud800"])
def test_unknown_id_finds_nothing(text: str) -> None:
    assert paid().inspector().find(text).jobs == ()


@pytest.mark.parametrize("text", ["x" * 201, "\ud800"])
def test_text_that_no_index_can_hold_reads_nothing(text: str) -> None:
    untouched: Any = object()
    inspector = replace(World().inspector(), store=untouched, finder=untouched)

    assert inspector.find(text) == Found(query=text, jobs=())


def test_empty_query_says_what_to_type() -> None:
    with pytest.raises(InvalidRequestError, match="type an order"):
        World().inspector().find("  ")


def test_jobs_are_found_newest_first_and_once() -> None:
    world = paid()
    world.clock.move(minutes=1)
    world.run({"job": "receipt.send", "v": 1, "order_id": "18452"})

    found = world.inspector().find("18452")

    assert [view.job.job_type for view in found.jobs] == ["receipt.send", "payment.charge"]
    assert len(world.inspector().find("customer_7").jobs) == 2


@pytest.mark.parametrize(
    "text",
    [
        "18452",
        "payment.charge",
        "payment.charge:",
        ":order_18452",
        "Payment:order_18452",
        "payment.charge:" + "x" * 200,
        "payment.charge:\udfff",
    ],
)
def test_impossible_job_key_shows_nothing_without_read(text: str) -> None:
    untouched: Any = object()
    inspector = replace(World().inspector(), store=untouched)

    assert inspector.show(text) is None


def test_longest_key_is_shown() -> None:
    key = JobKey("payment.charge:" + "x" * (MAX_KEY - len("payment.charge:")))
    world = World()
    world.store.jobs[key] = a_job(job_key=key)

    assert world.inspector().show(key) is not None
    assert world.inspector().show("payment.charge:none") is None


class _Noting(MemoryJobFinder):
    """Remembers which rows were given."""

    given: tuple[JobKey, ...] = ()

    def rows(self, keys: Sequence[JobKey]) -> dict[JobKey, Job]:
        found = super().rows(keys)
        self.given += tuple(found)
        return found


@pytest.mark.parametrize("text", ["18452", KEY])
def test_each_matching_row_is_read_once(text: str) -> None:
    world = paid()
    finder = _Noting(world.store)

    replace(world.inspector(), finder=finder).find(text)

    assert finder.given == (KEY,)


def test_resubmitted_jobs_are_found_without_stored_subject() -> None:
    world = paid_at_the_second_attempt()
    assert {job.subject for job in world.store.jobs.values()} == {None}

    assert {view.job.job_key for view in world.inspector().find("18452").jobs} == {KEY, SECOND}


def test_subject_is_stored_when_key_cannot_be_derived() -> None:
    world = World()
    record = {"id": "1", "properties": {}, "updatedAt": "2026-11-16T03:00:00Z"}
    names = {"source": "hubspot", "source_id": "1", "event_id": "1"}
    world.run({"job": "sync.contact", "v": 1, **names, "record": record})

    (view,) = world.inspector().find("hubspot#1").jobs

    assert view.job.subject == view.subject == "hubspot#1"
