"""The export: no cell of a CSV file is a formula, and a truncated export says so."""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from oncely.admin_page.job_export import COLUMNS, ExportFormat, JobExport, escape_cell, export_jobs
from oncely.core.errors import InvalidRequestError
from oncely.core.keys import JobKey
from oncely.operate import job_queries as inspect
from oncely.operate.job_lists import JobFilter
from tests.support.fakes import START
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.unit.job_view_fixtures import world_with_paid_job


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        *((formula, f"'{formula}") for formula in ("=1+1", "+1", "-1", "@SUM(1)", "\uff1d1")),
        *(("\t=1", "'\t'=1"), ("a;=1", "a;'=1"), ("a\n+1", "a\n'+1")),
        *(("a;b", "a;b"), ("a=1", "a=1"), (None, ""), (1250, "1250")),
    ],
)
def test_cell_is_never_formula(value: str | int | None, shown: str) -> None:
    assert escape_cell(value) == shown


def finished_pages(world: InMemoryStack, job_type: str | None = None) -> Iterator[inspect.JobPage]:
    return world.inspector().iter_pages(JobFilter(status="finished", job_type=job_type))


def paid_job_in_history(order_id: str = "1", **changes: object) -> InMemoryStack:
    world = world_with_paid_job(order_id, **changes)
    world.write_history()
    return world


def to_csv(pages: Iterator[inspect.JobPage], **limits: int) -> JobExport:
    return export_jobs(pages, ExportFormat.CSV, **limits)


def export_csv(world: InMemoryStack, limit: int) -> tuple[list[dict[str, str]], bool]:
    text, more, _ = to_csv(finished_pages(world), max_jobs=limit)
    return list(csv.DictReader(io.StringIO(text))), more


def add_copies(world: InMemoryStack, count: int, **changes: Any) -> None:  # noqa: ANN401  # fields of a job
    first = world.job("payment.charge:order_1")
    for number in range(count):
        key, at = JobKey(f"payment.charge:order_x{number}"), START + timedelta(seconds=number)
        world.store.jobs[key] = replace(first, job_key=key, updated_at=at, **changes)
    world.clock.time = START + timedelta(seconds=count)
    world.write_history()


def test_quotes_commas_and_lines_stay_in_their_cell() -> None:
    customer = 'a "quoted", name\nwith =lines'
    rows, more = export_csv(paid_job_in_history("1", customer_id=customer), 10)

    assert [row["customer_id"] for row in rows] == [customer]
    assert rows[0]["amount_label"] == "12.50 EUR"
    assert tuple(rows[0]) == COLUMNS
    assert not more


def test_truncated_export_says_so() -> None:
    world = paid_job_in_history("1")
    add_copies(world, 250)
    assert len(export_csv(world, 1000)[0]) == 251
    assert [export_csv(world, limit)[1] for limit in (200, 251)] == [True, False]


def test_truncated_export_of_rare_type_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    world = paid_job_in_history("1")
    monkeypatch.setattr(inspect, "MAX_ENTRIES_SCANNED", 0)

    text, more, _ = to_csv(finished_pages(world, job_type="payment.charge"), max_jobs=10)

    assert more
    assert list(csv.DictReader(io.StringIO(text))) == []


def test_export_stays_within_response_size() -> None:
    world = paid_job_in_history("1")
    add_copies(world, 50, customer_id="\u00e9" * 100)

    text, more, _ = to_csv(finished_pages(world), max_jobs=1000, max_bytes=20_000)

    assert more
    assert 10 < len(list(csv.DictReader(io.StringIO(text)))) < 25
    assert len(json.dumps(text)) < 20_500


def test_export_may_fill_response_size_exactly() -> None:
    world = paid_job_in_history("1")
    text, _, _ = to_csv(finished_pages(world), max_jobs=10)
    size = len(json.dumps(text.partition("\r\n")[2]))

    whole, more, _ = to_csv(finished_pages(world), max_jobs=10, max_bytes=size)
    cut, less, shown = to_csv(finished_pages(world), max_jobs=10, max_bytes=size - 1)

    assert (whole, more) == (text, False)
    assert (cut, less, shown) == (text.partition("\r\n")[0] + "\r\n", True, ())


def test_unreadable_row_is_exported_with_reason() -> None:
    world = paid_job_in_history("1")
    world.add_order("2")
    world.run(charge_message("2"))
    world.write_history()
    world.store.make_unreadable(JobKey("payment.charge:order_1"))

    rows, more = export_csv(world, 10)

    assert [row["job_key"][-7:] for row in rows] == ["order_2", "order_1"]
    assert [row["status"] for row in rows] == ["finished", "unreadable"]
    assert "cannot be read" in rows[1]["last_error"]
    assert not more


@pytest.mark.parametrize("count", [0, 1, 3])
def test_json_export_holds_the_same_values(count: int) -> None:
    world = paid_job_in_history("1")
    add_copies(world, count, customer_id='=Ann\u00e9; "x"')

    text, more, shown = export_jobs(finished_pages(world), ExportFormat.JSON, max_jobs=10)

    jobs = json.loads(text)
    assert ([one["job_key"] for one in jobs], more) == ([one.job_key for one in shown], False)
    assert len(jobs) == count + 1
    assert {tuple(one) for one in jobs} == {COLUMNS}
    assert [one["customer_id"] for one in jobs].count('=Ann\u00e9; "x"') == count


def test_cut_json_export_is_still_json() -> None:
    world = paid_job_in_history("1")
    add_copies(world, 5)

    text, more, _ = export_jobs(finished_pages(world), ExportFormat.JSON, max_jobs=3)

    assert (len(json.loads(text)), more) == (3, True)


def test_unknown_form_of_export_is_refused() -> None:
    assert ExportFormat.parse(None) is ExportFormat.parse("") is ExportFormat.CSV
    with pytest.raises(InvalidRequestError, match="one of csv, json"):
        ExportFormat.parse("xml")
