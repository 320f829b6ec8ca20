"""`oncely pause`, `oncely resume`, `oncely gates`, and what `doctor` says about them."""

import json
from datetime import timedelta
from typing import Any

from oncely.cli.health_checks import DeployedStack, check_gates
from oncely.gates.gate import GateState
from tests.support.cli import FakeStackConnection, run_cli
from tests.support.fakes import START

REASON = ("--reason", "wrong prices since 14:00")


def test_pause_and_resume_are_recorded_with_identity() -> None:
    connection = FakeStackConnection()

    paused = run_cli("pause", "payment.charge", *REASON, connection=connection)
    listed = run_cli("gates", connection=connection)
    resumed = run_cli("resume", "payment.charge", "--json", connection=connection)

    assert paused.exit_code == 0, paused.output
    assert "payment.charge is paused." in paused.stdout
    assert "oncely resume payment.charge" in paused.stdout
    assert "by ada@example.com: wrong prices since 14:00" in listed.stdout
    assert json.loads(resumed.stdout) == {
        "target": "payment.charge",
        "paused": False,
        "changed": True,
        "reason": "",
    }
    entries = connection.world.gates.read().pauses["payment.charge"].entries
    assert [one.actor for one in entries] == ["operator:ada@example.com"] * 2


def test_repeated_pause_changes_nothing() -> None:
    connection = FakeStackConnection()
    run_cli("pause", "payments", *REASON, connection=connection)
    again = run_cli("pause", "payments", *REASON, connection=connection)
    assert "queue:payments is paused already." in again.stdout
    assert len(connection.world.gates.read().pauses["queue:payments"].entries) == 1


def test_unknown_target_is_refused() -> None:
    result = run_cli("pause", "charges", *REASON, connection=FakeStackConnection())
    assert result.exit_code == 1
    assert "There is no job type, queue or provider 'charges'" in result.stderr


def test_gates_shows_open_circuit_and_nothing_held() -> None:
    connection = FakeStackConnection()
    assert "Nothing is on hold." in run_cli("gates", connection=connection).stdout
    circuit = GateState(opened_at=START, probe_at=START)
    connection.world.gates.change_circuit("stripe:effects", circuit)
    shown = run_cli("gates", connection=connection).stdout
    assert "stripe:effects has not responded since 2026-11-16T03:00:00.000Z." in shown


def test_doctor_warns_about_pauses_and_open_circuits() -> None:
    connection: Any = FakeStackConnection()
    deployed = DeployedStack(connection, START + timedelta(hours=2))
    assert {one.status for one in check_gates(deployed)} == {"ok"}

    run_cli("pause", "stripe", *REASON, connection=connection)
    circuit = GateState(opened_at=START, probe_at=START)
    connection.world.gates.change_circuit("stripe:lookups", circuit)

    paused, opened = check_gates(deployed)
    assert (paused.status, opened.status) == ("warning", "warning")
    since = "2026-11-16 03:00 UTC (2 h ago)"
    assert f"provider:stripe since {since} by ada@example.com: wrong prices" in paused.message
    assert paused.fix == "oncely resume provider:stripe"
    assert f"stripe:lookups has not responded since {since}" in opened.message
