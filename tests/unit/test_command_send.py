"""`oncely send`: what it sends, rejects and prints."""

import json
from pathlib import Path

import pytest
from typer.testing import Result

from tests.support.cli import HOSTILE, FakeStackConnection, run_cli
from tests.support.in_memory_stack import charge_message

KEY = "payment.charge:order_18452"


@pytest.fixture
def stack() -> FakeStackConnection:
    return FakeStackConnection()


def send(stack: FakeStackConnection, *words: str, stdin_text: str | None = None) -> Result:
    return run_cli("send", *words, connection=stack, stdin_text=stdin_text)


def test_fields_become_message_with_types_of_contract(stack: FakeStackConnection) -> None:
    result = send(stack, "payment.charge", "order_id=18452", "amount=1250")
    assert (result.exit_code, result.stdout) == (0, f"created    {KEY}\n")
    assert json.loads(stack.world.outbox.sent[0]) == charge_message(amount=1250)


def test_same_message_is_duplicate_and_changed_one_conflicts(stack: FakeStackConnection) -> None:
    first = json.dumps(charge_message())
    send(stack, first)
    again = send(stack, first)
    stack.world.add_order()
    stack.world.run(first)

    other = send(stack, json.dumps(charge_message(amount=9)))
    same = send(stack, json.dumps(charge_message(amount=1250)))

    assert (again.exit_code, again.stdout) == (0, f"duplicate  {KEY}  the job is pending\n")
    assert other.exit_code == 1, "the finished job has 1250"
    assert other.stdout.startswith(f"conflict   {KEY}  the message: amount is 1250 in the existing")
    assert (same.exit_code, same.stdout) == (0, f"duplicate  {KEY}  the job is done\n")
    assert len(stack.world.outbox.sent) == 1


def test_other_message_for_unclaimed_job_is_queued_for_worker(stack: FakeStackConnection) -> None:
    send(stack, json.dumps(charge_message(amount=1)))

    right = send(stack, json.dumps(charge_message()))

    checked = "the job is pending; a worker checks this message"
    assert (right.exit_code, right.stdout) == (0, f"queued     {KEY}  {checked}\n")
    assert len(stack.world.outbox.sent) == 2


def test_file_is_sent_by_line_and_summarized(stack: FakeStackConnection, tmp_path: Path) -> None:
    file = tmp_path / "jobs.jsonl"
    lines = [json.dumps(charge_message(str(n % 200))) for n in range(250)]
    file.write_text("\n".join(lines) + "\n\n")

    result = send(stack, "--file", str(file))

    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "200 created, 50 duplicate"
    assert len(stack.world.outbox.sent) == 200


def test_invalid_message_is_named_by_its_number(stack: FakeStackConnection) -> None:
    result = send(stack, json.dumps(charge_message()), '{"job": "payment.charge", "v": 1}')

    assert result.exit_code == 1
    assert "message 2: not a valid payment.charge message: order_id is missing" in result.stderr
    assert stack.world.outbox.sent == []


def test_one_invalid_line_stops_whole_file(stack: FakeStackConnection) -> None:
    lines = [json.dumps(charge_message()), '{"job": "payment.charge", "v": 1}', "not JSON"]

    result = send(stack, "--file", "-", stdin_text="\n".join(lines))

    assert result.exit_code == 1
    assert "line 2: not a valid payment.charge message: order_id is missing" in result.stderr
    assert "line 3: the message is not JSON" in result.stderr
    assert "2 of 3 messages are invalid. Nothing was sent." in result.stderr
    assert stack.world.outbox.sent == []
    assert stack.world.store.jobs == {}


def test_json_output_has_one_line_per_message(stack: FakeStackConnection) -> None:
    result = send(stack, "--json", json.dumps(charge_message()))
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"job_key": KEY, "outcome": "created", "status": "ready", "conflict": None}
    ]


def test_message_not_queued_is_reported_as_kept(stack: FakeStackConnection) -> None:
    stack.world.outbox.fails_at = frozenset({0})

    result = send(stack, json.dumps(charge_message()))

    assert result.exit_code == 0
    assert "kept" in result.stdout
    assert "the reconciler will resend the message" in result.stdout


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ((), 2, "Pass a message"),
        (("payment.charge", "order_id"), 2, "write name=value"),
        (("no.such", "a=1"), 1, "Unknown job type 'no.such'; known job types: "),
        (("payment.charge", "order_id=1", "amount=lots"), 1, "valid integer. Nothing was sent."),
        (("--file", "/nowhere/at/all"), 1, "Cannot read /nowhere/at/all"),
        (("--unique-for", "soon", "payment.charge", "order_id=1"), 2, "write 30s, 90m, 24h"),
    ],
)
def test_unsendable_input_is_reported_in_one_sentence(
    stack: FakeStackConnection, words: tuple[str, ...], code: int, sentence: str
) -> None:
    result = send(stack, *words)
    assert result.exit_code == code
    assert sentence in result.stderr
    assert "Traceback" not in result.output


def test_hostile_input_cannot_forge_or_color_lines(stack: FakeStackConnection) -> None:
    result = send(stack, *[json.dumps(charge_message(HOSTILE))] * 2)
    assert result.exit_code == 0
    assert "\x1b" not in result.output
    assert len(result.stdout.splitlines()) == 3  # two messages and the summary


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ('{"score": 1e300}', "too large"),
        ("[" * 100 + "]" * 100, "nested more than 32 levels"),
        ("[" * 30_000 + "]" * 30_000, "should be an object"),
    ],
    ids=["number", "nested", "nested for ever"],
)
def test_message_that_no_row_can_hold_is_rejected(
    stack: FakeStackConnection, record: str, why: str
) -> None:
    fields = ("source=hubspot", "source_id=1", "event_id=evt-1", f"record={record}")

    result = send(stack, "sync.contact", *fields)

    assert result.exit_code == 1
    assert why in result.stderr
    assert stack.world.outbox.sent == []
