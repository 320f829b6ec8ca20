"""docs/costs.md and docs/scale.md say what is counted, by table and index."""

import pytest

from tests.bench.cost_page import CostMeasurements
from tests.bench.cost_pages import measure, pages
from tests.docs.pages import page
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


def test_readme_has_counted_calls(measured: CostMeasurements) -> None:
    readme = page("README.md").text
    for name, label in (
        ("smallest keyed", "calls of the smallest job"),
        ("payment.charge", "the same for `payment"),
    ):
        job = measured.counts.job(name)
        calls = f"{len(job.run.calls)} · {len(job.duplicate.calls)} · 0"
        (row,) = (line for line in readme.splitlines() if label in line)
        assert f"| {calls}" in row, name
    assert f"then {len(measured.counts.job('payment.charge').publish.calls)} to enqueue" in readme


def test_readme_has_prices_of_costs_page() -> None:
    rows = {
        cells[1].strip(" `"): cells for cells in _table_rows(page("docs/costs.md").text, columns=7)
    }
    readme = page("README.md").text
    for name in ("smallest keyed", "payment.charge"):
        assert f"{rows[name][5].strip()}, and {rows[name][7].strip()} to keep the proof" in readme


def _table_rows(text: str, *, columns: int) -> list[list[str]]:
    rows = [line.split("|") for line in text.splitlines()]
    return [cells for cells in rows if len(cells) == columns + 2]
