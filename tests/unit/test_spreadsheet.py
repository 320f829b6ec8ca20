"""An export that no spreadsheet runs."""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from oncely.domain.keys import JobKey
from oncely.services import inspect
from repair_jobs.spreadsheet import COLUMNS, cell, spreadsheet
from tests.support.fakes import START
from tests.support.world import World, charge


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(1)", "'@SUM(1)"),
        ("\t=1", "'\t'=1"),
        ("a;=1", "a;'=1"),
        ("a\n+1", "a\n'+1"),
        ("\uff1d1", "'\uff1d1"),
        ("a;b", "a;b"),
        ("a=1", "a=1"),
        (None, ""),
        (1250, "1250"),
    ],
)
def test_cell_is_never_formula(value: str | int | None, shown: str) -> None:
    assert cell(value) == shown


def done(world: World, job_type: str | None = None) -> Iterator[inspect.Page]:
    return world.inspector().every(status="finished", job_type=job_type)


def exported(world: World, most: int) -> tuple[list[dict[str, str]], bool]:
    text, more = spreadsheet(done(world), most=most)
    return list(csv.DictReader(io.StringIO(text))), more


def test_quotes_commas_and_lines_stay_in_their_cell() -> None:
    world = World()
    customer = 'a "quoted", name\nwith =lines'
    world.add_order("1", customer_id=customer)
    world.run(charge("1"))

    rows, more = exported(world, 10)

    assert [row["customer_id"] for row in rows] == [customer]
    assert rows[0]["amount_words"] == "12.50 EUR"
    assert tuple(rows[0]) == COLUMNS
    assert not more


def test_truncated_export_says_so() -> None:
    world = World()
    world.add_order("1")
    world.run(charge("1"))
    first = world.job("payment.charge:order_1")
    for number in range(250):
        key = JobKey(f"payment.charge:order_x{number}")
        world.store.jobs[key] = replace(
            first, job_key=key, updated_at=START + timedelta(seconds=number)
        )

    assert len(exported(world, 1000)[0]) == 251
    assert [exported(world, most)[1] for most in (200, 251)] == [True, False]


def test_truncated_export_of_rare_type_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.add_order("1")
    world.run(charge("1"))
    monkeypatch.setattr(inspect, "MOST_LOOKED_AT", 0)

    text, more = spreadsheet(done(world, job_type="payment.charge"), most=10)

    assert more
    assert list(csv.DictReader(io.StringIO(text))) == []


def test_export_stays_within_response_size() -> None:
    world = World()
    world.add_order("1")
    world.run(charge("1"))
    first = world.job("payment.charge:order_1")
    for number in range(50):
        key = JobKey(f"payment.charge:order_x{number}")
        world.store.jobs[key] = replace(first, job_key=key, customer_id="\u00e9" * 100)

    text, more = spreadsheet(done(world), most=1000, most_bytes=20_000)

    assert more
    assert 10 < len(list(csv.DictReader(io.StringIO(text)))) < 25
    assert len(json.dumps(text)) < 20_500


def test_export_may_fill_response_size_exactly() -> None:
    world = World()
    world.add_order("1")
    world.run(charge("1"))
    text, _ = spreadsheet(done(world), most=10)
    size = len(json.dumps(text.partition("\r\n")[2]))

    whole, more = spreadsheet(done(world), most=10, most_bytes=size)
    cut, less = spreadsheet(done(world), most=10, most_bytes=size - 1)

    assert (whole, more) == (text, False)
    assert (cut, less) == (text.partition("\r\n")[0] + "\r\n", True)
