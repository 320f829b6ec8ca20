"""What a terminal shows: whole keys, helpful errors, and readable labels."""

import sys
from io import StringIO

import pytest

from oncely.cli import console
from tests.support.cli import FakeStackConnection, run_cli
from tests.support.in_memory_stack import InMemoryStack

LONG_KEY = "payment.charge:order_" + "x" * 150
COMMANDS = (
    *("", "find", "show", "list", "contracts", "doctor", "send", "repair", "redrive", "reconcile"),
    *("archive about", "archive backfill", "audit payments", "rejects list", "rejects resend"),
)


def test_row_that_is_too_wide_keeps_its_key_in_one_piece(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "_NON_TERMINAL_WIDTH", 80)

    console.print_table(("job", "status", "amount"), [(LONG_KEY, "needs review", "12.50 EUR")])

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == LONG_KEY
    assert lines[1].strip() == "status needs review · amount 12.50 EUR"


def test_row_that_fits_stays_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_table(("job", "status"), [("payment.charge:order_1", "done")])
    assert capsys.readouterr().out.splitlines()[0].split() == ["job", "status"]


def test_values_beside_labels_wrap_between_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "_NON_TERMINAL_WIDTH", 40)
    words = [
        "looks",
        "it",
        "up",
        "and",
        "ends",
        "it",
        "only",
        "if",
        "the",
        "provider",
        "confirms",
        "it",
    ]

    console.print_pairs([("mark", " ".join(words))])

    assert capsys.readouterr().out.split() == ["mark", *words]


class TerminalOutput(StringIO):
    def isatty(self) -> bool:
        return True


def test_results_reach_a_pipe_while_bars_are_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := TerminalOutput())

    with console.step_bars() as bars:
        bars.show("reading objects", 0.5, 1_200)
        bars.print_line("a job breaks a rule")
        console.print_json({"rule": "fence"})

    assert capsys.readouterr().out == 'a job breaks a rule\n{"rule": "fence"}\n'
    assert "1,200" in terminal.getvalue()


def test_result_on_terminal_is_not_written_into_the_bars(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = TerminalOutput()
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(sys, stream, terminal)

    with console.step_bars() as bars:
        bars.show("reading objects", 0.5, 1_200)
        bars.print_line("a job breaks a rule")

    before, _, _ = terminal.getvalue().partition("a job breaks a rule\n")
    assert before.endswith("\x1b[2K"), "the line of the bar was cleared"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_no_type_for_a_flag(command: str) -> None:
    text = run_cli(*command.split(), "--help").stdout
    assert "--help" in text
    assert "<bool>" not in text


def test_misspelled_command_or_status_gets_a_suggestion() -> None:
    assert "Did you mean 'find'?" in run_cli("fnd").stderr
    stack = FakeStackConnection()
    result = run_cli("list", "--status", "needs revew", connection=stack)
    assert result.exit_code == 2
    assert "Did you mean needs review?" in result.stderr


@pytest.mark.parametrize(
    ("shown", "key"),
    [
        ("needs review", "payment.charge:order_1"),
        ("Needs-Review", "payment.charge:order_1"),
        ("needs_review", "payment.charge:order_1"),
        ("failed", None),
        ("pending", None),
    ],
)
def test_words_that_are_shown_are_accepted(shown: str, key: str | None) -> None:
    world = InMemoryStack()
    world.run_to_review("1")

    result = run_cli("list", "--status", shown, connection=FakeStackConnection(world))

    assert result.exit_code == 0
    assert ("payment.charge:order_1" in result.stdout) is (key is not None)
