"""The table of moves: whole, closed, and the same as the picture in docs/lifecycle.md."""

import itertools
import os
from pathlib import Path

import pytest

from oncely.domain.errors import IllegalTransitionError
from oncely.domain.lifecycle import (
    ENDED,
    NO_ROW,
    TRANSITIONS,
    UNRESOLVED,
    Event,
    Status,
    next_status,
)

PAGE = Path(__file__).parents[2] / "docs" / "lifecycle.md"
FENCE = "```mermaid\n"
OPERATOR_EVENTS = {Event.RESOLVE_FINISHED, Event.RESOLVE_FAILED, Event.REOPEN, Event.CLOSE_AND_FAIL}
REFUSED = sorted(
    set(itertools.product((NO_ROW, *Status), Event)) - set(TRANSITIONS),
    key=lambda move: (move[0] or "", move[1]),
)


@pytest.mark.parametrize(("status", "event"), TRANSITIONS)
def test_transition_leads_to_status_in_table(status: Status | None, event: Event) -> None:
    assert next_status(status, event) is TRANSITIONS[status, event]


@pytest.mark.parametrize(("status", "event"), REFUSED)
def test_illegal_transition_error_names_status_and_event(
    status: Status | None, event: Event
) -> None:
    with pytest.raises(IllegalTransitionError, match=f"{status or 'absent'}.*{event}") as caught:
        next_status(status, event)

    assert (caught.value.status, caught.value.event) == (status, event)


def test_exactly_finished_and_failed_are_ended() -> None:
    assert {Status.FINISHED, Status.FAILED} == ENDED


def test_ready_started_and_unknown_are_unresolved() -> None:
    assert {Status.READY, Status.STARTED, Status.UNKNOWN} == UNRESOLVED


def test_only_enqueue_or_claim_begins_job() -> None:
    assert {event for source, event in TRANSITIONS if source is NO_ROW} == {
        Event.ENQUEUE,
        Event.CLAIM,
    }


def test_every_status_is_reachable() -> None:
    assert _reachable(NO_ROW) == set(Status)


@pytest.mark.parametrize("status", sorted(set(Status) - ENDED))
def test_every_open_status_can_reach_ended_or_review(status: Status) -> None:
    assert _reachable(status) & {*ENDED, Status.NEEDS_REVIEW}


def test_only_operator_moves_job_out_of_review() -> None:
    leaving = {
        event
        for (source, event), target in TRANSITIONS.items()
        if source is Status.NEEDS_REVIEW and target is not source
    }

    assert leaving == OPERATOR_EVENTS


def test_operator_decisions_apply_only_in_review() -> None:
    assert {source for source, event in TRANSITIONS if event in OPERATOR_EVENTS} == {
        Status.NEEDS_REVIEW
    }


def test_note_is_allowed_in_every_status_and_keeps_it() -> None:
    notes = {source: to for (source, event), to in TRANSITIONS.items() if event is Event.NOTE}

    assert notes == {status: status for status in Status}


def test_stored_statuses_are_never_renamed() -> None:
    assert {status.name: str(status) for status in Status} == {
        "READY": "ready",
        "STARTED": "started",
        "UNKNOWN": "unknown",
        "FINISHED": "finished",
        "FAILED": "failed",
        "NEEDS_REVIEW": "needs_review",
    }


def test_stored_events_are_never_renamed() -> None:
    assert {event.name: str(event) for event in Event} == {
        "ENQUEUE": "enqueue",
        "RESEND": "resend",
        "DEFER": "defer",
        "CLAIM": "claim",
        "CHECKPOINT": "checkpoint",
        "CONFIRM": "confirm",
        "DECLINE": "decline",
        "RELEASE": "release",
        "MARK_UNKNOWN": "mark_unknown",
        "RECHECK": "recheck",
        "REQUEUE": "requeue",
        "ESCALATE": "escalate",
        "ALERT": "alert",
        "CONTRADICT": "contradict",
        "RESTORE": "restore",
        "NOTE": "note",
        "RESOLVE_FINISHED": "resolve_finished",
        "RESOLVE_FAILED": "resolve_failed",
        "REOPEN": "reopen",
        "CLOSE_AND_FAIL": "close_and_fail",
    }


def test_support_agents_see_four_status_labels() -> None:
    assert {status: status.label for status in Status} == {
        Status.READY: "pending",
        Status.STARTED: "pending",
        Status.UNKNOWN: "pending",
        Status.FINISHED: "done",
        Status.FAILED: "failed",
        Status.NEEDS_REVIEW: "needs review",
    }


def test_diagram_in_docs_matches_transition_table() -> None:
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(FENCE)
    drawn, _, behind = rest.partition("```")
    if os.environ.get("UPDATE_SNAPSHOTS"):
        drawn = _diagram()
        PAGE.write_text(f"{before}{FENCE}{drawn}```{behind}", encoding="utf-8")

    assert drawn == _diagram(), "run again with UPDATE_SNAPSHOTS=1, and look at the difference"


def _reachable(start: Status | None) -> set[Status]:
    found: set[Status] = set()
    edge: set[Status | None] = {start}
    while edge:
        nearby = {target for (source, _), target in TRANSITIONS.items() if source in edge}
        edge = {*(nearby - found)}
        found |= nearby
    return found


def _diagram() -> str:
    arrows: dict[tuple[str, str], list[str]] = {}
    for (source, event), target in TRANSITIONS.items():
        arrows.setdefault((source or "[*]", target), []).append(event)
    lines = [f"    {source} --> {to}: {', '.join(by)}" for (source, to), by in arrows.items()]
    return "\n".join(["stateDiagram-v2", *lines, ""])
