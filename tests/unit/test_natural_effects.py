"""A natural effect, a set or an upsert, is simply run again: there is nothing to ask."""

from dataclasses import replace
from datetime import timedelta

import pytest

from oncely.domain.answers import Absent, CannotAsk, OwnerGone, Processing, Unclear, Unreachable
from oncely.domain.decide import decide, local_rows_refuse
from oncely.domain.lifecycle import Event, Status
from oncely.domain.moves import PROCESSING_LOOK
from oncely.domain.profiles import Safety
from tests.unit.grid import ANSWERS, cases
from tests.unit.samples import NOW, TERMS, a_job

NATURAL = replace(TERMS, safety=Safety.NATURAL)
DONE = decide(a_job(), NATURAL, ANSWERS[0], now=NOW)


def test_natural_effect_never_becomes_unknown() -> None:
    for case in cases(Status.STARTED, Safety.NATURAL):
        assert case.after.status is not Status.UNKNOWN, case


@pytest.mark.parametrize(
    "answer", [OwnerGone(), Absent("none"), CannotAsk(), Unreachable("down")], ids=repr
)
def test_natural_effect_retries_at_once_without_known_outcome(
    answer: OwnerGone | Absent | CannotAsk | Unreachable,
) -> None:
    decision = decide(a_job(), NATURAL, answer, now=NOW)

    assert (decision.event, decision.run_at) == (Event.RELEASE, NOW)
    assert decision.on(a_job(), now=NOW, actor="worker").timeouts == 0


def test_natural_effect_retries_later_when_in_progress() -> None:
    decision = decide(a_job(), NATURAL, Processing("still importing"), now=NOW)

    assert (decision.event, decision.run_at) == (Event.RELEASE, NOW + PROCESSING_LOOK)


@pytest.mark.parametrize(
    ("before", "event"), [(0, Event.RELEASE), (3, Event.RELEASE), (4, Event.ESCALATE)]
)
def test_natural_effect_escalates_after_too_many_timeouts(before: int, event: Event) -> None:
    decision = decide(a_job(timeouts=before), NATURAL, Unclear("timeout"), now=NOW)

    assert decision.event is event


@pytest.mark.parametrize(("attempts", "event"), [(7, Event.RELEASE), (8, Event.ESCALATE)])
def test_natural_effect_retries_row_conflict_up_to_limit(attempts: int, event: Event) -> None:
    job = a_job(attempts=attempts)

    decision = local_rows_refuse(job, NATURAL, DONE, why="contacts 7", now=NOW)

    assert decision.event is event
    assert "contacts 7" in decision.reason


def test_unknown_natural_effect_retries_when_rows_conflict() -> None:
    job = a_job(status=Status.UNKNOWN)

    decision = local_rows_refuse(job, NATURAL, DONE, why="contacts 7", now=NOW)

    after = decision.on(job, now=NOW, actor="reconciler")
    assert (after.status, decision.run_at) == (Status.READY, NOW)


def test_unknown_natural_effect_retries_under_any_key_scope() -> None:
    job = a_job(status=Status.UNKNOWN, lease_until=NOW - timedelta(hours=1), key_scope="other")

    decision = decide(job, NATURAL, CannotAsk(), now=NOW, scope="live")

    assert (decision.event, decision.reason) == (Event.RETURN, "safe to run again")
