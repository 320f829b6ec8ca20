"""Pause and resume on the admin page: operators only, with who and why, and seen by all users."""

import json
from datetime import timedelta
from typing import Any

import pytest

from oncely.gates.gate import GateState
from oncely.handlers.telemetry import telemetry
from tests.support.fakes import START
from tests.support.in_memory_stack import InMemoryStack
from tests.unit.test_access_log import ADA, Lines, Page, lines  # noqa: F401  # a fixture

TARGET = "payment.charge"


@pytest.fixture
def world() -> InMemoryStack:
    return InMemoryStack()


@pytest.fixture
def admin(world: InMemoryStack, monkeypatch: pytest.MonkeyPatch) -> Page:
    return Page(world, monkeypatch)


def change(admin: Page, action: str, **more: str) -> Any:  # noqa: ANN401  # Lambda's own form
    body = {"target": TARGET, "action": action, "reason": "wrong prices", **more}
    return admin.call("POST /api/pause", body=json.dumps(body))


def held(admin: Page) -> dict[str, Any]:
    response = admin.call("GET /api/gates", groups="[support]")
    assert response["statusCode"] == 200
    found: dict[str, Any] = json.loads(response["body"])
    return found


def test_pause_shows_who_when_and_why(admin: Page, lines: Lines) -> None:  # noqa: F811  # the fixture
    response = change(admin, "pause")

    assert json.loads(response["body"]) == {"target": TARGET, "paused": True}
    (paused,) = held(admin)["paused"]
    assert (paused["target"], paused["actor"], paused["reason"]) == (TARGET, ADA, "wrong prices")
    assert any('"message":"pause"' in line and ADA in line for line in lines.all)
    assert [line["route"] for line in lines.access] == ["POST /api/pause", "GET /api/gates"]


def test_resume_keeps_history(admin: Page) -> None:
    change(admin, "pause")
    assert json.loads(change(admin, "resume")["body"])["paused"] is False
    found = held(admin)
    assert found["paused"] == []
    assert len(found["history"]) == 2
    assert TARGET in found["targets"]
    assert "provider:stripe" in found["targets"]


def test_support_agent_cannot_pause(admin: Page, world: InMemoryStack) -> None:
    body = json.dumps({"target": TARGET, "action": "pause", "reason": "x"})
    assert admin.call("POST /api/pause", groups="[support]", body=body)["statusCode"] == 403
    assert world.gates.read().pauses == {}


@pytest.mark.parametrize(
    "wrong", [{"action": "stop"}, {"target": "charges"}, {"reason": " "}, {"more": "1"}]
)
def test_invalid_request_is_refused(admin: Page, wrong: dict[str, str]) -> None:
    more = {"action": "pause", **wrong}
    assert change(admin, more.pop("action"), **more)["statusCode"] == 400


def test_open_circuit_is_shown_and_measured(
    admin: Page, world: InMemoryStack, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = GateState(opened_at=START, probe_at=START)
    world.gates.change_circuit("stripe:effects", opened)
    assert held(admin)["open"] == [{"gate": "stripe:effects", "since": "2026-11-16T03:00:00.000Z"}]

    now = START + timedelta(minutes=5)
    telemetry().gates_checked(world.gates.read(), now=now)

    (blob,) = (json.loads(one) for one in capsys.readouterr().out.splitlines() if "_aws" in one)
    assert (blob["CircuitOpen"], blob["provider"]) == ([300.0], "stripe")
