"""docs/costs.md and docs/scale.md say what is counted, by table and index."""

import pytest

from tests.bench.cost_page import CostMeasurements
from tests.bench.cost_pages import measure, pages
from tests.support import engines


@pytest.fixture(scope="module")
def measured() -> CostMeasurements:
    with engines.moto() as url:
        return measure(url)


def test_pages_match_counted_figures(measured: CostMeasurements) -> None:
    stale = [
        file.name
        for file, text in pages(measured).items()
        if file.read_text(encoding="utf-8") != text
    ]

    assert stale == [], "run make docs"


def test_new_job_takes_two_calls_and_duplicate_one(measured: CostMeasurements) -> None:
    job = measured.counts.job("smallest keyed")

    assert [call.operation for call in job.run.calls] == ["UpdateItem", "UpdateItem"]
    assert [call.operation for call in job.duplicate.calls] == ["UpdateItem"]
    assert job.duplicate.calls[0].failed
