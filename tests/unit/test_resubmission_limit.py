"""Resubmissions of one order: 60 seconds apart, and at most 5 in 24 hours."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from oncely.contracts.settings import Settings
from oncely.core.claims import Claim, ResubmissionLimit
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.core.outcomes import NeedsReview
from oncely.core.repairs import Repair
from oncely.core.store import ClaimResult
from oncely.jobs.payment_charge import MAX_ATTEMPTS
from oncely.operate.repair_request import NotAllowed, Repaired, RepairRequest
from tests.support.fakes import START
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import is_conflict, is_duplicate, is_failed, is_finished, is_retried
from tests.support.repairs import repair_job, world_with_declined_job
from tests.support.stored_rows import InspectableStore

INTERVAL = timedelta(seconds=Settings().min_resubmission_interval_seconds)
MAX_PER_DAY = Settings().max_resubmissions_per_day
LIMIT = ResubmissionLimit(min_interval=INTERVAL, max_per_day=MAX_PER_DAY)
FIRST = "payment.charge:order_18452"


@pytest.fixture
def declining() -> InMemoryStack:
    """The first attempt was declined, and every other will be."""
    world = world_with_declined_job()
    world.payments.declines = True
    return world


def confirmations(world: InMemoryStack) -> int:
    return [step for step, _ in world.payments.calls].count("execute")


def attempts(world: InMemoryStack, *, apart: timedelta) -> Iterator[object]:
    for attempt in range(2, MAX_ATTEMPTS + 1):
        yield world.run(charge_message(attempt=attempt))
        world.clock.time += apart


def test_settings_limit_resubmissions() -> None:
    assert (timedelta(seconds=60), 5) == (INTERVAL, MAX_PER_DAY)


def test_declining_card_is_confirmed_twice_when_all_are_sent_at_once(
    declining: InMemoryStack,
) -> None:
    first, second, *others = attempts(declining, apart=timedelta(0))

    assert is_failed(first)
    assert is_conflict(second)
    assert "resubmitted less than 60 seconds ago" in second.reason
    assert all(is_conflict(one) for one in others)
    assert confirmations(declining) == 2


def test_order_is_resubmitted_5_times_a_day(declining: InMemoryStack) -> None:
    outcomes = list(attempts(declining, apart=INTERVAL))

    assert all(is_failed(one) for one in outcomes[:MAX_PER_DAY])
    refused = outcomes[MAX_PER_DAY]
    assert is_conflict(refused)
    assert "resubmitted 5 times in 24 hours" in refused.reason
    assert confirmations(declining) == 1 + MAX_PER_DAY
    assert declining.store.get(JobKey(f"{FIRST}:7")) is None


def test_refused_resubmission_is_alerted_once_and_runs_next_day(declining: InMemoryStack) -> None:
    outcomes = attempts(declining, apart=INTERVAL)
    for _ in range(MAX_PER_DAY):
        next(outcomes)
    declining.alerts.sent.clear()
    declining.payments.declines = False

    assert is_conflict(declining.run(charge_message(attempt=7)))
    (alert,) = declining.alerts.sent
    assert "resubmitted 5 times" in alert.text
    declining.clock.time = START + timedelta(days=1)
    assert is_finished(declining.run(charge_message(attempt=7)))
    # The first of the five left the 24 hours, so the next one counts five again.
    assert len(declining.job(f"{FIRST}:7").resubmissions) == MAX_PER_DAY


def test_enqueued_resubmission_over_limit_needs_review(declining: InMemoryStack) -> None:
    declining.run(charge_message(attempt=2))
    declining.enqueuer().enqueue(charge_message(attempt=3))

    assert isinstance(declining.run(charge_message(attempt=3)), NeedsReview)
    assert confirmations(declining) == 2


def test_duplicate_of_ended_resubmission_returns_result_over_limit(
    declining: InMemoryStack,
) -> None:
    declining.run(charge_message(attempt=2))
    declining.clock.time += INTERVAL
    declining.run(charge_message(attempt=3))
    stricter = replace(
        declining.runner(), resubmission_limit=replace(LIMIT, min_interval=timedelta(days=1))
    )

    assert is_duplicate(declining.run(charge_message(attempt=3), runner=stricter))


def test_operator_cannot_resubmit_over_limit(declining: InMemoryStack) -> None:
    declining.run(charge_message(attempt=2))
    key = JobKey(f"{FIRST}:2")
    request = RepairRequest(
        key=key,
        repair=Repair.RESUBMIT,
        version=declining.job(key).version,
        reason="the customer asked",
        actor="ada",
    )

    refused = declining.repairer().repair(request)
    declining.clock.time += INTERVAL

    assert isinstance(refused, NotAllowed)
    assert "resubmitted less than 60 seconds ago" in refused.reason
    assert isinstance(declining.repairer().repair(request), Repaired)


def test_first_resubmission_may_follow_decline_at_once(declining: InMemoryStack) -> None:
    assert isinstance(repair_job(declining, Repair.RESUBMIT), Repaired)
    assert is_failed(declining.run(declining.outbox.sent.pop()))
    assert declining.job(f"{FIRST}:2").resubmissions == (START,)


class FailsBeforeClaim(InspectableStore):
    """The previous attempt is claimed and fails between its read and the claim."""

    def claim(self, claim: Claim) -> ClaimResult:
        if claim.requires_failed and claim.previous_resubmissions == ():
            failed: JobRow = self.jobs[claim.requires_failed]
            self.jobs[claim.requires_failed] = replace(
                failed, status=Status.FAILED, resubmissions=(START - timedelta(hours=1),)
            )
        return super().claim(claim)


def test_claim_is_retried_when_count_changed_before_it() -> None:
    world = world_with_declined_job()
    world.store = FailsBeforeClaim(world.aws)

    assert is_retried(world.run(charge_message(attempt=2)))
    assert world.payments.charges == []
    assert is_finished(world.run(charge_message(attempt=2)))
    assert len(world.job(f"{FIRST}:2").resubmissions) == 2


@pytest.mark.parametrize(
    ("hours_ago", "refused"),
    [
        ([], False),
        ([23, 22, 21, 20], False),
        ([23, 22, 21, 20, 19], True),
        ([24, 23, 22, 21, 20], False),
    ],
)
def test_resubmissions_of_24_hours_count(hours_ago: list[int], *, refused: bool) -> None:
    times = [START - timedelta(hours=hours) for hours in hours_ago]
    assert bool(LIMIT.refusal(times, START)) is refused


@pytest.mark.parametrize(("seconds", "refused"), [(0, True), (59, True), (60, False)])
def test_interval_starts_with_last_resubmission(seconds: int, *, refused: bool) -> None:
    times = [START - timedelta(hours=1), START]
    assert bool(LIMIT.refusal(times, START + timedelta(seconds=seconds))) is refused
