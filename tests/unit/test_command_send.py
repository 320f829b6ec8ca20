"""`oncely send`: what it sends, rejects and prints."""

import json
from pathlib import Path

import pytest

from tests.support.cli import HOSTILE, FakeStackConnection, run_cli
from tests.support.in_memory_stack import charge_message

KEY = "payment.charge:order_18452"


def test_fields_become_message_with_types_of_contract() -> None:
    place = FakeStackConnection()

    said = run_cli("send", "payment.charge", "order_id=18452", "amount=1250", connection=place)

    assert said.exit_code == 0
    assert said.stdout == f"created    {KEY}\n"
    assert json.loads(place.world.outbox.sent[0]) == charge_message(amount=1250)


def test_same_message_is_duplicate_and_changed_one_conflicts() -> None:
    place = FakeStackConnection()
    first = json.dumps(charge_message(amount=1250))
    run_cli("send", first, connection=place)

    again = run_cli("send", first, connection=place)
    other = run_cli("send", json.dumps(charge_message(amount=9)), connection=place)

    assert (again.exit_code, again.stdout) == (0, f"duplicate  {KEY}  the job is pending\n")
    assert other.exit_code == 1
    assert other.stdout.startswith(f"conflict   {KEY}  the message: amount was 1250")
    assert len(place.world.outbox.sent) == 1


def test_file_is_sent_line_by_line_and_summarized(tmp_path: Path) -> None:
    place, file = FakeStackConnection(), tmp_path / "jobs.jsonl"
    file.write_text(
        "\n".join(json.dumps(charge_message(str(n % 200))) for n in range(250)) + "\n\n"
    )

    said = run_cli("send", "--file", str(file), connection=place)

    assert said.exit_code == 0
    assert said.stdout.splitlines()[-1] == "200 created, 50 duplicate"
    assert len(place.world.outbox.sent) == 200


def test_one_invalid_line_stops_whole_file() -> None:
    place = FakeStackConnection()
    lines = [json.dumps(charge_message()), '{"job": "payment.charge", "v": 1}', "not JSON"]

    said = run_cli("send", "--file", "-", connection=place, stdin_text="\n".join(lines))

    assert said.exit_code == 1
    assert "line 2: not a valid payment.charge message: order_id is missing" in said.stderr
    assert "line 3: the message is not JSON" in said.stderr
    assert "2 of 3 messages are invalid. Nothing was sent." in said.stderr
    assert place.world.outbox.sent == []
    assert place.world.store.jobs == {}


def test_json_output_has_one_line_per_message() -> None:
    said = run_cli("send", "--json", json.dumps(charge_message()), connection=FakeStackConnection())

    assert [json.loads(line) for line in said.stdout.splitlines()] == [
        {"job_key": KEY, "outcome": "created", "status": "ready", "conflict": None}
    ]


def test_message_not_queued_is_reported_as_kept() -> None:
    place = FakeStackConnection()
    place.world.outbox.fails_at = frozenset({0})

    said = run_cli("send", json.dumps(charge_message()), connection=place)

    assert said.exit_code == 0
    assert "kept" in said.stdout
    assert "the reconciler will resend the message" in said.stdout


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ((), 2, "Pass a message"),
        (("payment.charge", "order_id"), 2, "write name=value"),
        (("no.such", "a=1"), 1, "Unknown job 'no.such'; known here: "),
        (("payment.charge", "order_id=1", "amount=lots"), 1, "valid integer. Nothing was sent."),
        (("--file", "/nowhere/at/all"), 1, "Cannot read /nowhere/at/all"),
        (("--unique-for", "soon", "payment.charge", "order_id=1"), 2, "write 30s, 90m, 24h"),
    ],
)
def test_unsendable_input_is_reported_in_one_sentence(
    words: tuple[str, ...], code: int, sentence: str
) -> None:
    said = run_cli("send", *words, connection=FakeStackConnection())

    assert said.exit_code == code
    assert sentence in said.stderr
    assert "Traceback" not in said.output


def test_hostile_input_cannot_forge_or_color_lines() -> None:
    place = FakeStackConnection()

    said = run_cli(
        "send",
        json.dumps(charge_message(HOSTILE)),
        json.dumps(charge_message(HOSTILE)),
        connection=place,
    )

    assert said.exit_code == 0
    assert "\x1b" not in said.output
    assert len(said.stdout.splitlines()) == 3  # two messages and the summary


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ('{"score": 1e300}', "too large"),
        ("[" * 100 + "]" * 100, "nested more than 32 levels"),
        ("[" * 30_000 + "]" * 30_000, "should be an object"),
        ('{"id": "1", "updatedAt": "2026-11-16T03:00:00Z", "properties": []}', "properties"),
    ],
    ids=["number", "nested", "nested for ever", "properties"],
)
def test_message_that_no_row_can_hold_is_rejected(record: str, why: str) -> None:
    place = FakeStackConnection()
    fields = ("source=hubspot", "source_id=1", "event_id=evt-1", f"record={record}")

    said = run_cli("send", "sync.contact", *fields, connection=place)

    assert said.exit_code == 1
    assert why in said.stderr
    assert place.world.outbox.sent == []
