"""One run of a worker, for any contract: what is claimed, and the outcome."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from oncely.core.claims import Claim
from oncely.core.effect_outcomes import (
    Anomalous,
    BusinessWrite,
    EffectOutcome,
    InProgress,
    Succeeded,
)
from oncely.core.job_row import JobRow
from oncely.core.job_type import AlreadyResolved, Call
from oncely.core.lifecycle import Status, WaitKind
from oncely.core.outcomes import LeasedElsewhere, NeedsReview
from oncely.core.store import ClaimFailed, PrerequisiteNotMet
from tests.support.fakes import FakeMessageSender
from tests.support.in_memory_stack import InMemoryStack
from tests.support.outcomes import is_conflict, is_continued, is_retried
from tests.support.stored_rows import InspectableStore
from tests.unit.errand_job import KEY, MESSAGE, errand_type, raising_step
from tests.unit.samples import NOW, TERMS, make_job

BODY = MESSAGE
NEVER = raising_step(AssertionError("the provider was called"))


def ready_job(**changes: object) -> JobRow:
    named = {"job_key": KEY, "job_type": "errand.run", "message": BODY}
    return make_job(**{"status": Status.READY, "fingerprint": None, **named, **changes})


def test_claim_stores_key_scope() -> None:
    world = InMemoryStack(contracts=(errand_type(key_scope=lambda: "live"),))
    world.run(BODY)
    assert world.job(KEY).key_scope == "live"


def test_lease_expires_when_last_call_must_have_ended() -> None:
    leases: list[datetime | None] = []

    def acts(call: Call[str]) -> EffectOutcome:
        leases.append(call.row.lease_until)
        return Succeeded("done")

    world = InMemoryStack(contracts=(errand_type(acts=acts),))

    world.run(BODY, seconds_left=60)

    # The last call begins at the deadline and takes 10 s; two clocks differ by 2 s.
    assert leases == [NOW + timedelta(seconds=60 + 10 + 2)]
    assert world.job(KEY).lease_until is None, "nobody holds a job that has ended"


def test_claim_stores_no_key_scope_when_already_resolved() -> None:
    done = AlreadyResolved[str](outcome=Succeeded("run before"))
    asked = raising_step(AssertionError("asked"))
    world = InMemoryStack(contracts=(errand_type(checks=lambda: done, acts=NEVER, scope=asked),))

    world.run(BODY)

    assert (world.job(KEY).status, world.job(KEY).key_scope) == (Status.FINISHED, "")


def test_rows_are_not_changed_when_the_provider_contradicts_them() -> None:
    noted = BusinessWrite(table="orders", key={"order_id": "7"}, set={"a": 1}, may_create=True)
    done = AlreadyResolved[str](outcome=Succeeded("run before"), writes=(noted,))
    unlike = Anomalous("another run")
    world = InMemoryStack(
        contracts=(errand_type(checks=lambda: done, acts=NEVER, confirm=lambda *_: unlike),)
    )

    assert isinstance(world.run(BODY), NeedsReview)
    assert world.rows.get("orders", {"order_id": "7"}) is None


def test_job_needs_review_when_attempts_are_spent() -> None:
    world = InMemoryStack(contracts=(errand_type(acts=NEVER),))
    world.store.create(ready_job(attempts=TERMS.limits.max_attempts))

    outcome = world.run(BODY)

    assert isinstance(outcome, NeedsReview)
    assert "8 attempts were made" in outcome.reason
    assert world.job(KEY).status is Status.NEEDS_REVIEW


@pytest.mark.parametrize("taken", [True, False])
def test_long_job_continues_with_fresh_message_and_progress(*, taken: bool) -> None:
    def acts(call: Call[str]) -> EffectOutcome:
        call.save_progress({"page": 3})
        return InProgress("3 of 9")

    outbox = FakeMessageSender(fails_at=frozenset() if taken else frozenset({0}))
    world = InMemoryStack(contracts=(errand_type(acts=acts),), outbox=outbox)

    outcome = world.run(BODY)

    assert is_continued(outcome)
    assert outcome.progress == {"page": 3}
    assert len(outbox.sent) == taken
    assert world.job(KEY).status is Status.READY


def test_long_job_continues_without_progress() -> None:
    world = InMemoryStack(contracts=(errand_type(acts=lambda _: InProgress("nothing yet")),))
    outcome = world.run(BODY)
    assert is_continued(outcome)
    assert outcome.progress == {}


class _RacingStore(InspectableStore):
    def claim(self, claim: Claim) -> Any:  # noqa: ANN401  # one of the port's results
        return ClaimFailed(ready_job())


def test_lost_claim_on_ready_row_is_retried_at_once() -> None:
    outcome = InMemoryStack(contracts=(errand_type(acts=NEVER),), store=_RacingStore()).run(BODY)
    assert is_retried(outcome)
    assert (outcome.until, outcome.kind) == (NOW, WaitKind.RETRY)


class _PrerequisiteStore(InspectableStore):
    other: JobRow | None = None

    def claim(self, claim: Claim) -> Any:  # noqa: ANN401  # one of the port's results
        return PrerequisiteNotMet(self.other)


@pytest.mark.parametrize(
    ("other", "state"),
    [(None, "not there"), (make_job(status=Status.FINISHED), "done"), (make_job(), "pending")],
)
def test_unmet_requirement_is_conflict(other: JobRow | None, state: str) -> None:
    store = _PrerequisiteStore()
    store.other = other
    world = InMemoryStack(contracts=(errand_type(acts=NEVER),), store=store)

    outcome = world.run(BODY)

    assert is_conflict(outcome)
    assert outcome.reason.endswith(f"must have failed, it is {state}")
    assert store.jobs == {}
    (alert,) = world.alerts.sent
    assert alert.subject == f"Oncely: conflicting message for {KEY}"


def test_unmet_requirement_is_answered_by_claimed_row() -> None:
    store = _PrerequisiteStore()
    world = InMemoryStack(contracts=(errand_type(acts=NEVER),), store=store)
    until = world.clock.now() + timedelta(minutes=1)
    store.jobs[KEY] = ready_job(status=Status.STARTED, lease_until=until)

    outcome = world.run(BODY)

    assert isinstance(outcome, LeasedElsewhere)
    assert world.alerts.sent == []
