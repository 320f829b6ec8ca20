"""A business row rejects its write after the effect is done."""

from dataclasses import replace
from datetime import timedelta

import pytest

from oncely.core.decide import on_business_conflict
from oncely.core.job_row import Decision, JobRow
from oncely.core.lifecycle import Event, Status
from oncely.core.profiles import RetryPolicy
from tests.unit.samples import NOW, TERMS, TICK, make_job

MOVING = replace(TERMS, tolerates_row_changes=True)
PUSHED = Decision(event=Event.CONFIRM, reason="pushed", changes={"provider_ref": "501"})
UNKNOWN = make_job(status=Status.UNKNOWN, lease_until=None)


@pytest.mark.parametrize("job", [make_job(attempts=99), UNKNOWN])
def test_conflict_in_changeable_rows_makes_job_due_now(job: JobRow) -> None:
    decision = on_business_conflict(job, MOVING, PUSHED, reason="contacts 7", now=NOW)

    after = decision.apply_to(job, now=NOW, actor="worker")
    assert (after.status, after.due_at) == (Status.UNKNOWN, NOW)
    assert after.last_error == "the business rows changed: contacts 7"
    assert not decision.alert


@pytest.mark.parametrize(("left", "event"), [(TICK, Event.RECHECK), (timedelta(0), Event.ESCALATE)])
def test_conflict_in_changeable_rows_escalates_at_age_limit(left: timedelta, event: Event) -> None:
    job = replace(UNKNOWN, created_at=NOW - MOVING.limits.max_age + left)
    assert on_business_conflict(job, MOVING, PUSHED, reason="contacts 7", now=NOW).event is event


@pytest.mark.parametrize("terms", [TERMS, None])
@pytest.mark.parametrize("job", [make_job(provider_ref="500", result={"page": 3}), UNKNOWN])
def test_conflict_in_fixed_rows_needs_review(job: JobRow, terms: RetryPolicy | None) -> None:
    decision = on_business_conflict(job, terms, PUSHED, reason="orders 18452", now=NOW)

    after = decision.apply_to(job, now=NOW, actor="worker")
    assert after.status is Status.NEEDS_REVIEW
    assert after.last_error == "pushed, but a business write failed: orders 18452"
    assert (after.provider_ref, after.result) == ("501", job.result)
