"""`oncely find`, `show` and `list`."""

import json
from dataclasses import replace

import pytest

from oncely.core.keys import JobKey
from oncely.operate import job_queries as inspect
from tests.support.cli import HOSTILE, FakeStackConnection, run_cli
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.provider_fault import ProviderFault

KEY = "payment.charge:order_18452"


ONCE = "Order 18452: charged once, 12.50 EUR on 16 Nov 2026; no refund recorded."


@pytest.fixture
def paid(world: InMemoryStack) -> FakeStackConnection:
    """A paid order whose message was delivered three times."""
    for _ in range(3):
        world.run(charge_message())
    world.write_history()
    return FakeStackConnection(world)


@pytest.mark.parametrize(
    "query", ["18452", "#18452", "order_18452", "customer_7", KEY, " 18452 ", "pi_1"]
)
def test_find_says_in_first_line_whether_charged_twice(
    paid: FakeStackConnection, query: str
) -> None:
    result = run_cli("find", query, connection=paid)

    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == ONCE
    assert KEY in result.stdout
    assert "confirmed by the provider" in result.stdout
    assert len(result.stdout.splitlines()) <= 24


def test_receipt_does_not_count_as_second_charge(paid: FakeStackConnection) -> None:
    paid.world.run({"job": "receipt.send", "v": 1, "order_id": "18452"})
    result = run_cli("find", "18452", connection=paid)
    assert "receipt.send:order_18452" in result.stdout
    assert result.stdout.splitlines()[0] == ONCE.replace("; no", "; receipt sent; no")


def test_double_charge_is_reported_in_first_line(paid: FakeStackConnection) -> None:
    second = JobKey(f"{KEY}:2")
    twin = replace(paid.world.job(KEY), job_key=second, result={"charge_id": "ch_2"})
    paid.world.store.jobs[second] = twin

    result = run_cli("find", "18452", connection=paid)

    first = result.stdout.splitlines()[0]
    assert first.startswith("Order 18452: charged 2 times: 12.50 EUR on 16 Nov 2026, 12.50 EUR on")


def test_unfinished_charge_is_shown_as_pending() -> None:
    stack = FakeStackConnection()
    run_cli("send", "payment.charge", "order_id=18452", connection=stack)

    result = run_cli("show", KEY, connection=stack)

    assert "pending (ready)" in result.stdout
    assert "resend " in result.stdout


def test_json_output_includes_labels_and_timeline(paid: FakeStackConnection) -> None:
    found = json.loads(run_cli("find", "18452", "--json", connection=paid).stdout)
    shown = json.loads(run_cli("show", KEY, "--json", connection=paid).stdout)

    assert (found["query"], found["jobs"][0]["matched_by"]) == ("18452", "order")
    assert found["jobs"][0]["amount_label"] == "12.50 EUR"
    assert (shown["status_label"], shown["timeline"][-1]["event"]) == ("done", "confirm")


def test_show_prints_job_with_timeline_and_contract(paid: FakeStackConnection) -> None:
    result = run_cli("show", KEY, connection=paid).stdout
    for part in (KEY, "12.50 EUR", "customer_7", "claimed by a worker", "oncely contracts payment"):
        assert part in result


def test_show_tells_runs_from_calls() -> None:
    stack = FakeStackConnection()
    stack.world.add_order()
    for _ in range(4):
        stack.world.payments.fail_next("prepare", ProviderFault.REFUSED_CONNECTION)
        stack.world.run(charge_message())
        stack.world.clock.advance(minutes=20)

    result = run_cli("show", KEY, connection=stack).stdout

    assert "runs        4 (0 may have called the provider)" in result
    assert "up to run 4" in result
    assert "attempts" not in result


def test_list_filters_by_status_type_and_time(paid: FakeStackConnection) -> None:
    paid.world.run_to_review("nobody")

    def keys(*options: str) -> list[str]:
        result = run_cli("list", "--json", *options, connection=paid)
        assert result.exit_code == 0, result.output
        return [json.loads(line)["job_key"] for line in result.stdout.splitlines()]

    assert keys("--status", "finished") == [KEY]
    assert keys("--status", "needs_review") == ["payment.charge:order_nobody"]
    assert keys() == ["payment.charge:order_nobody"], "what operators act on"
    assert keys("--type", "receipt.send") == []
    assert keys("--until", "2020-01-01") == []
    assert len(keys("--since", "2020-01-01T00:00")) == 1
    complete = run_cli("list", "--status", "finished", connection=paid)
    assert (KEY in complete.stdout, complete.stderr) == (True, ""), "it needs no hint"


def test_list_reports_that_there_is_more(paid: FakeStackConnection) -> None:
    paid.world.run_to_review("nobody")
    paid.world.run_to_review("another")
    assert "Pass --limit 4" in run_cli("list", "--limit", "1", connection=paid).stderr


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ("find 99999", 1, "No job found for '99999'"),
        ("show payment.charge:order_1", 1, "No job 'payment.charge:order_1'"),
        ("list --status lost", 2, "Unknown status 'lost'. Valid: done, failed"),
        ("list --since yesterday", 2, "write 24h (ago), 2026-11-16"),
        ("list --type payment.chrage", 0, "Unknown job type 'payment.chrage'. Known: payment."),
        ("list --status finished --type sync.push", 0, "use `oncely find`"),
    ],
)
def test_empty_result_says_why(paid: FakeStackConnection, words: str, code: int, text: str) -> None:
    result = run_cli(*words.split(), connection=paid)

    assert result.exit_code == code
    assert text in result.stderr
    assert ("No jobs match" in result.stdout) is (code == 0)
    assert (result.stdout == "") is (code != 0)


def test_list_of_rare_type_stops_early_and_suggests_narrowing(
    paid: FakeStackConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspect, "MAX_ROWS_READ", 1)
    monkeypatch.setattr(inspect, "MAX_ENTRIES_SCANNED", 2)
    paid.world.run_to_review("nobody")
    first = paid.world.job("payment.charge:order_nobody")
    for number in range(10):
        key = JobKey(f"payment.charge:order_x{number}")
        paid.world.store.jobs[key] = replace(first, job_key=key)

    for json_or_not in ((), ("--json",)):
        result = run_cli("list", "--type", "sync.push", *json_or_not, connection=paid)

        assert result.exit_code == 0
        assert "Narrow the search with --since and --until" in result.stderr
        assert "No jobs match" not in result.stdout


def test_printed_command_targets_same_stack(paid: FakeStackConnection) -> None:
    paid.cli_options = " --stack Oncely-prod"
    paid.world.run_to_review("nobody")

    key = "payment.charge:order_nobody"
    command = f"oncely repair {key} ACTION --reason … --stack Oncely-prod"
    assert command in run_cli("show", key, connection=paid).stdout


def test_long_list_is_read_page_by_page(paid: FakeStackConnection) -> None:
    one = paid.world.job(KEY)
    keys = [JobKey(f"payment.charge:order_{number}") for number in range(1_000)]
    paid.world.store.jobs.update({key: replace(one, job_key=key) for key in keys})
    paid.world.write_history()

    result = run_cli("list", "--status", "finished", "--json", "--limit", "250", connection=paid)

    assert len({json.loads(line)["job_key"] for line in result.stdout.splitlines()}) == 250


def test_hostile_customer_input_is_printed_as_text() -> None:
    world = InMemoryStack()
    world.add_order(HOSTILE, customer_id=HOSTILE)
    world.run(charge_message(HOSTILE))
    (key,) = world.store.jobs
    world.write_history()
    stack = FakeStackConnection(world)

    for words in (("find", HOSTILE), ("show", key), ("list", "--status", "finished")):
        result = run_cli(*words, connection=stack)
        assert result.exit_code == 0, result.output
        for forged in ("\x1b", "\u202e", "\nforged: line"):
            assert forged not in result.output
        assert "[red]x[/red]" in result.output or "%5Bred" in result.output


def test_find_prints_answer_then_jobs_then_timelines(paid: FakeStackConnection) -> None:
    result = run_cli("find", "18452", connection=paid)

    lines = result.stdout.splitlines()
    alone = lines.index(KEY)
    assert (lines[2], lines[alone - 1]) == ("", "")
    assert lines[1].startswith("From our records")
    assert lines[alone + 1].startswith("done since 2026-11-16 03:00:00 UTC (")
    assert lines[alone + 2].startswith("Charged once: 12.50 EUR")
    assert result.stderr == ""
