"""One run of a worker, for contracts of any kind: what is claimed, and what becomes of it."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from oncely.contract import Call, Settled
from oncely.domain.answers import Answer, Done, Unfinished
from oncely.domain.claims import Claim
from oncely.domain.jobs import Job
from oncely.domain.lifecycle import Status
from oncely.ports import ClaimRefused, RequirementUnmet
from oncely.services.outcomes import Conflict, Continued, NeedsReview, NothingSent
from oncely.testing.memory import MemoryJobStore
from tests.support.fakes import FakeOutbox
from tests.support.world import World
from tests.unit.errand_contract import KEY, MESSAGE, errand_type, raising
from tests.unit.samples import NOW, TERMS, a_job

BODY = MESSAGE.as_json()
NEVER = raising(AssertionError("the provider was called"))


def ready(**changes: object) -> Job:
    """A row of the errand that waits for a worker."""
    named = {"job_key": KEY, "job_type": "errand.run", "message": BODY}
    given = {"status": Status.READY, "fingerprint": None, **named, **changes}
    return a_job(**given)


def test_claim_stores_key_scope() -> None:
    world = World(contracts=(errand_type(scope=lambda: "live"),))

    world.run(BODY)

    assert world.job(KEY).key_scope == "live"


def test_lease_expires_when_last_call_must_have_ended() -> None:
    leases: list[datetime | None] = []

    def acts(call: Call[str]) -> Answer:
        leases.append(call.job.lease_until)
        return Done("done")

    world = World(contracts=(errand_type(acts=acts),))

    world.run(BODY, seconds_left=60)

    # The last call begins at the deadline and takes 10 s; two clocks differ by 2 s.
    assert leases == [NOW + timedelta(seconds=60 + 10 + 2)]
    assert world.job(KEY).lease_until is None, "nobody holds a job that has ended"


def test_claim_stores_no_key_scope_when_already_resolved() -> None:
    done = Settled[str](answer=Done("run before"))
    contract = errand_type(checks=lambda: done, acts=NEVER, scope=raising(AssertionError("asked")))
    world = World(contracts=(contract,))

    world.run(BODY)

    assert (world.job(KEY).status, world.job(KEY).key_scope) == (Status.FINISHED, "")


def test_job_needs_review_when_attempts_are_spent() -> None:
    world = World(contracts=(errand_type(acts=NEVER),))
    world.store.create(ready(attempts=TERMS.stop.attempts))

    outcome = world.run(BODY)

    assert isinstance(outcome, NeedsReview)
    assert "8 attempts were made" in outcome.reason
    assert world.job(KEY).status is Status.NEEDS_REVIEW


@pytest.mark.parametrize("taken", [True, False])
def test_long_job_continues_with_fresh_message_and_progress(*, taken: bool) -> None:
    def acts(call: Call[str]) -> Answer:
        call.save({"page": 3})
        return Unfinished("3 of 9")

    outbox = FakeOutbox(refuses=frozenset() if taken else frozenset({0}))
    world = World(contracts=(errand_type(acts=acts),), outbox=outbox)

    outcome = world.run(BODY)

    assert isinstance(outcome, Continued)
    assert (outcome.progress, outcome.sent) == ({"page": 3}, taken)
    assert len(outbox.sent) == taken
    assert world.job(KEY).status is Status.READY


def test_long_job_continues_without_progress() -> None:
    world = World(contracts=(errand_type(acts=lambda _: Unfinished("nothing yet")),))

    outcome = world.run(BODY)

    assert isinstance(outcome, Continued)
    assert outcome.progress == {}


class _Racing(MemoryJobStore):
    """A store in which another worker claims the row and releases it in the same moment."""

    def claim(self, claim: Claim) -> Any:  # noqa: ANN401  # one of the port's results
        return ClaimRefused(ready())


def test_lost_claim_on_ready_row_is_retried_at_once() -> None:
    world = World(contracts=(errand_type(acts=NEVER),), store=_Racing())

    outcome = world.run(BODY)

    assert isinstance(outcome, NothingSent)
    assert (outcome.until, outcome.alarm) == (NOW, False)


class _Unmet(MemoryJobStore):
    """A store in which another job must have failed, and has not."""

    other: Job | None = None

    def claim(self, claim: Claim) -> Any:  # noqa: ANN401  # one of the port's results
        return RequirementUnmet(self.other)


@pytest.mark.parametrize(
    ("other", "state"),
    [(None, "not there"), (a_job(status=Status.FINISHED), "done"), (a_job(), "pending")],
)
@pytest.mark.parametrize("row", [None, ready(status=Status.STARTED)])
def test_unmet_requirement_conflicts_and_alerts(
    row: Job | None, other: Job | None, state: str
) -> None:
    store = _Unmet()
    store.other = other
    world = World(contracts=(errand_type(acts=NEVER),), store=store)
    if row is not None:
        store.jobs[KEY] = row

    outcome = world.run(BODY)

    assert isinstance(outcome, Conflict)
    assert outcome.reason.endswith(f"must have failed, it is {state}")
    assert store.jobs.get(KEY) == row
    assert [alert.subject for alert in world.alerts.told] == [
        f"Oncely: conflicting message for {KEY}"
    ]
