"""`oncely archive`: the history of an id, its gaps, and the backfill."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from typer.testing import Result

from oncely.cli import console
from oncely.core.table_guard import TableIdentity
from oncely.history.checker import Rule
from oncely.history.gaps import HistoryGap
from oncely.history.sources import lines_of_records
from tests.support.cli import FakeStackConnection, run_cli
from tests.support.fakes import START, T1, T2, FakeIdentityTable
from tests.support.in_memory_stack import InMemoryStack
from tests.support.stream import finish_job, stream_record
from tests.unit.samples import KEY, NOW, make_job

PROTECTED = replace(T2, table_id=T1.table_id)


@pytest.fixture
def stack() -> FakeStackConnection:
    stack = FakeStackConnection(InMemoryStack(identity_table=FakeIdentityTable(table=PROTECTED)))
    stack.world.store.create(make_job())
    return stack


def archive_cli(stack: FakeStackConnection, *words: str) -> Result:
    return run_cli("archive", *words, connection=stack)


def add_gap(stack: FakeStackConnection) -> None:
    gap = HistoryGap(name="gap", recorded_at=START, first_at=START, records=31)
    stack.world.history.record_gap(gap)


def test_history_of_order_is_shown_oldest_first(stack: FakeStackConnection) -> None:
    old = make_job(subject="18452")
    ended = finish_job(old, NOW + timedelta(hours=1))
    records = [stream_record(old, ended), stream_record(None, old)]
    for batch in ("a", "b"):  # at least once
        stack.app.history_writer.write(lines_of_records(records, generation="table-1"), batch=batch)

    result = archive_cli(stack, "about", "18452", "--json")

    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["status"] for line in lines] == ["started", "finished"]
    assert KEY in archive_cli(stack, "about", "18452").stdout
    assert archive_cli(stack, "about", "18452", "--until", "2020-01-01").exit_code == 1


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ("nobody", 1, "oncely find"),
        ("1 --since 2026-11-18 --until 2026-11-17", 2, "--until (2026-11-17) is before --since"),
    ],
)
def test_empty_result_says_why(
    stack: FakeStackConnection, words: str, code: int, text: str
) -> None:
    result = archive_cli(stack, "about", *words.split())
    assert result.exit_code == code
    assert text in result.stderr


def test_open_gaps_set_attention_exit_code(stack: FakeStackConnection) -> None:
    assert archive_cli(stack, "gaps").stdout == "The history has no open gaps.\n"
    add_gap(stack)

    result = archive_cli(stack, "gaps")

    assert result.exit_code == 4
    assert "31" in result.stdout
    (gap,) = archive_cli(stack, "gaps", "--json").stdout.splitlines()
    assert json.loads(gap)["records"] == 31


def test_backfill_writes_lines_and_closes_gaps(stack: FakeStackConnection) -> None:
    add_gap(stack)

    dry = archive_cli(stack, "backfill", "--dry-run")
    assert (dry.exit_code, stack.world.history.newest()) == (0, {})
    assert "Read 1 rows, would write 1 lines." in dry.stdout
    done = archive_cli(stack, "backfill", "--json")

    assert json.loads(done.stdout)["closed"] == ["gap"]
    assert [*stack.world.history.newest()] == [KEY]
    assert archive_cli(stack, "gaps").exit_code == 0


def test_verify_names_key_and_rule_of_broken_history(stack: FakeStackConnection) -> None:
    old = make_job()
    ended = finish_job(old, NOW + timedelta(hours=1))
    again = replace(old, version=ended.version + 1, fence=2, updated_at=ended.updated_at)
    legal, broken = (
        [stream_record(None, old), stream_record(old, ended)],
        stream_record(ended, again),
    )
    stack.app.history_writer.write(lines_of_records(legal, generation="table-1"), batch="a")
    assert archive_cli(stack, "verify").stdout == "No history breaks a rule.\n"
    assert archive_cli(stack, "verify", "--json").stdout == ""

    stack.app.history_writer.write(lines_of_records([broken], generation="table-1"), batch="b")

    shown = archive_cli(stack, "verify")
    assert shown.exit_code == 4
    assert f"{KEY}, version {again.version}: {Rule.NOT_CONTRADICTED.sentence}" in shown.stdout
    found = [*map(json.loads, archive_cli(stack, "verify", "--json").stdout.splitlines())]
    assert {(one["job_key"], one["version"]) for one in found} == {(KEY, again.version)}
    assert Rule.NOT_CONTRADICTED in {one["rule"] for one in found}
    assert archive_cli(stack, "verify", "--since", "2036-01-01").exit_code == 0


def test_verify_shows_its_progress_on_terminal(
    stack: FakeStackConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: dict[str, list[tuple[float, int]]] = {}
    monkeypatch.setattr(
        console.StepBars,
        "show",
        lambda _, step, share, count: steps.setdefault(step, []).append((share, count)),
    )
    old = make_job()
    for batch, record in (
        ("a", stream_record(None, old)),
        ("b", stream_record(old, finish_job(old, NOW + timedelta(hours=1)))),
    ):
        stack.app.history_writer.write(lines_of_records([record], generation="t"), batch=batch)

    assert archive_cli(stack, "verify").exit_code == 0

    assert steps == {
        "listing objects": [(0.0, 1), (0.0, 2), (1.0, 2)],
        "reading objects": [(0.5, 1), (1.0, 2)],
        "checking lines": [(0.0, 0), (1.0, 2)],
    }
    steps.clear()
    assert archive_cli(stack, "verify", "--since", "2036-01-01").exit_code == 0
    assert steps == {"listing objects": [(1.0, 0)], "checking lines": [(0.0, 0)]}


@pytest.mark.parametrize("declared", [replace(T1, table_id="T0"), None])
def test_restored_table_closes_no_gap(
    stack: FakeStackConnection, declared: TableIdentity | None
) -> None:
    add_gap(stack)
    stack.world.identity_table.item = declared

    result = archive_cli(stack, "backfill")

    assert result.exit_code == 1
    assert "Backfill from the table that it replaces" in result.stderr
    assert archive_cli(stack, "gaps").exit_code == 4, "restore-proofs still refuses"


def test_gap_older_than_since_option_stays_open(stack: FakeStackConnection) -> None:
    add_gap(stack)
    result = archive_cli(stack, "backfill", "--since", f"{START + timedelta(days=1):%F}")
    assert result.exit_code == 4
    assert "1 gaps are still open" in result.stderr
