"""A natural effect, a set or an upsert, is simply run again: there is nothing to ask."""

from dataclasses import replace
from datetime import timedelta

import pytest

from oncely.domain.decide import decide
from oncely.domain.decisions import PENDING_RECHECK_INTERVAL, on_business_conflict
from oncely.domain.effect_outcomes import (
    Ambiguous,
    LeaseExpired,
    LookupFailed,
    LookupUnsupported,
    NotFound,
    Pending,
)
from oncely.domain.lifecycle import Event, Status
from oncely.domain.profiles import RetrySafety
from tests.unit.decision_grid import EFFECT_OUTCOMES, decision_cases
from tests.unit.samples import NOW, TERMS, make_job

NATURAL = replace(TERMS, safety=RetrySafety.NATURAL)
DONE = decide(make_job(), NATURAL, EFFECT_OUTCOMES[0], now=NOW)


def test_natural_effect_never_becomes_unknown() -> None:
    for case in decision_cases(Status.STARTED, RetrySafety.NATURAL):
        assert case.after.status is not Status.UNKNOWN, case


@pytest.mark.parametrize(
    "answer",
    [LeaseExpired(), NotFound("none"), LookupUnsupported(), LookupFailed("down")],
    ids=repr,
)
def test_natural_effect_retries_at_once_without_known_outcome(
    answer: LeaseExpired | NotFound | LookupUnsupported | LookupFailed,
) -> None:
    decision = decide(make_job(), NATURAL, answer, now=NOW)
    assert (decision.event, decision.run_at) == (Event.RELEASE, NOW)
    assert decision.apply_to(make_job(), now=NOW, actor="worker").timeouts == 0


def test_natural_effect_retries_later_when_in_progress() -> None:
    decision = decide(make_job(), NATURAL, Pending("still importing"), now=NOW)
    assert (decision.event, decision.run_at) == (Event.RELEASE, NOW + PENDING_RECHECK_INTERVAL)


@pytest.mark.parametrize(
    ("before", "event"), [(0, Event.RELEASE), (3, Event.RELEASE), (4, Event.ESCALATE)]
)
def test_natural_effect_escalates_after_too_many_timeouts(before: int, event: Event) -> None:
    assert decide(make_job(timeouts=before), NATURAL, Ambiguous("timeout"), now=NOW).event is event


@pytest.mark.parametrize(("attempts", "event"), [(7, Event.RELEASE), (8, Event.ESCALATE)])
def test_natural_effect_retries_row_conflict_up_to_limit(attempts: int, event: Event) -> None:
    job = make_job(attempts=attempts)
    decision = on_business_conflict(job, NATURAL, DONE, reason="contacts 7", now=NOW)
    assert decision.event is event
    assert "contacts 7" in decision.reason


def test_unknown_natural_effect_retries_when_rows_conflict() -> None:
    job = make_job(status=Status.UNKNOWN)
    decision = on_business_conflict(job, NATURAL, DONE, reason="contacts 7", now=NOW)
    after = decision.apply_to(job, now=NOW, actor="reconciler")
    assert (after.status, decision.run_at) == (Status.READY, NOW)


def test_unknown_natural_effect_retries_under_any_key_scope() -> None:
    job = make_job(status=Status.UNKNOWN, lease_until=NOW - timedelta(hours=1), key_scope="other")
    decision = decide(job, NATURAL, LookupUnsupported(), now=NOW, key_scope="live")
    assert (decision.event, decision.reason) == (Event.REQUEUE, "safe to run again")
