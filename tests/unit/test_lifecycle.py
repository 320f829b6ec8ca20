"""The table of transitions: complete, closed, and the same as the diagram in docs/concepts.md."""

import itertools
import os
from pathlib import Path

import pytest

from oncely.core.errors import IllegalTransitionError
from oncely.core.lifecycle import (
    ENDED,
    NO_ROW,
    TRANSITIONS,
    UNRESOLVED,
    Event,
    Status,
    next_status,
)

PAGE = Path(__file__).parents[2] / "docs" / "concepts.md"
FENCE = "```mermaid\n"
STORED_STATUSES = "ready started unknown finished failed cancelled needs_review"
STORED_EVENTS = """
    enqueue request resend park reschedule refuse claim claim_review checkpoint confirm
    decline release mark_unknown recheck requeue escalate alert contradict restore note erase
    resolve_finished resolve_failed reopen close_and_fail cancel close_and_cancel close
"""
OPERATOR_EVENTS = {Event.RESOLVE_FINISHED, Event.RESOLVE_FAILED, Event.REOPEN, Event.CLOSE_AND_FAIL}
REFUSED = sorted(
    set(itertools.product((NO_ROW, *Status), Event)) - set(TRANSITIONS),
    key=lambda move: (move[0] or "", move[1]),
)


@pytest.mark.parametrize(("status", "event"), TRANSITIONS)
def test_transition_leads_to_status_in_table(status: Status | None, event: Event) -> None:
    assert next_status(status, event) is TRANSITIONS[status, event]


@pytest.mark.parametrize(("status", "event"), REFUSED)
def test_illegal_transition_names_status_and_event(status: Status | None, event: Event) -> None:
    with pytest.raises(IllegalTransitionError, match=f"{status or 'absent'}.*{event}") as caught:
        next_status(status, event)
    assert (caught.value.status, caught.value.event) == (status, event)


def test_statuses_are_ended_unresolved_or_in_review() -> None:
    assert {Status.FINISHED, Status.FAILED, Status.CANCELLED} == ENDED
    assert {Status.READY, Status.STARTED, Status.UNKNOWN} == UNRESOLVED


def test_only_enqueue_request_claim_or_cancel_begins_job() -> None:
    first = {event for source, event in TRANSITIONS if source is NO_ROW}
    assert first == {Event.ENQUEUE, Event.REQUEST, Event.CLAIM, Event.CANCEL}


def test_every_status_is_reachable() -> None:
    assert _reachable(NO_ROW) == set(Status)


@pytest.mark.parametrize("status", sorted(set(Status) - ENDED))
def test_every_open_status_can_reach_ended_or_review(status: Status) -> None:
    assert _reachable(status) & {*ENDED, Status.NEEDS_REVIEW}


def test_only_operator_claim_or_proof_moves_job_out_of_review() -> None:
    leaving = {
        event
        for (source, event), target in TRANSITIONS.items()
        if source is Status.NEEDS_REVIEW and target is not source
    }

    assert leaving == {*OPERATOR_EVENTS, Event.CLAIM_REVIEW, Event.CANCEL, Event.CONFIRM}


def test_job_of_unknown_outcome_needs_review_only_by_escalation() -> None:
    """A proof may end such a review: no contradiction and no operator led to it."""
    leading = {
        event
        for (source, event), target in TRANSITIONS.items()
        if source is Status.UNKNOWN and target is Status.NEEDS_REVIEW
    }
    assert leading == {Event.ESCALATE}


def test_operator_decisions_apply_only_in_review() -> None:
    sources = {source for source, event in TRANSITIONS if event in OPERATOR_EVENTS}
    assert sources == {Status.NEEDS_REVIEW}


def test_operator_cancels_only_before_claim_or_in_review() -> None:
    """A job that a worker holds, or whose outcome is unknown, may be done."""
    cancels = {event: set[Status | None]() for event in (Event.CANCEL, Event.CLOSE_AND_CANCEL)}
    for source, event in TRANSITIONS:
        if event in cancels:
            cancels[event].add(source)
    assert cancels == {
        Event.CANCEL: {NO_ROW, Status.READY, Status.NEEDS_REVIEW},
        Event.CLOSE_AND_CANCEL: {Status.READY},
    }


def test_note_is_allowed_in_every_status_and_keeps_it() -> None:
    notes = {source: to for (source, event), to in TRANSITIONS.items() if event is Event.NOTE}
    assert notes == {status: status for status in Status}


def test_stored_names_are_never_renamed() -> None:
    for kind, names in ((Status, STORED_STATUSES), (Event, STORED_EVENTS)):
        assert {one.name: str(one) for one in kind} == {one.upper(): one for one in names.split()}


def test_support_agents_see_five_status_labels() -> None:
    others = {
        Status.FINISHED: "done",
        Status.FAILED: "failed",
        Status.CANCELLED: "cancelled",
        Status.NEEDS_REVIEW: "needs review",
    }
    labels = {status: status.label for status in Status}
    assert labels == {**dict.fromkeys(UNRESOLVED, "pending"), **others}


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
