"""Until a lookup of a job type has found an effect in this deployment, its absence is no proof."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TypeVar

import pytest

from oncely.core.effect_outcomes import (
    Ambiguous,
    EffectOutcome,
    LookupFailed,
    LookupOutcome,
    NotFound,
    Succeeded,
)
from oncely.core.job_row import JobRow
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Status
from oncely.core.profiles import RetrySafety
from oncely.core.table_guard import (
    CHECK_INTERVAL,
    IDENTITY_KEY,
    PROVED,
    DynamoTableIdentity,
    TableGuard,
    TableIdentity,
    TableOpen,
)
from oncely.operate.own_tables import JOBS
from oncely.reconcile.find_due_work import SweepRequest
from oncely.reconcile.reconciler import LOOKUP_TRIAL
from oncely.testing.memory_aws.calls import AwsCall
from tests.support.fakes import FakeTableGuard
from tests.support.in_memory_stack import GENERATION, InMemoryStack
from tests.unit.errand_job import errand_type
from tests.unit.samples import TERMS

T = TypeVar("T")
LOST, DONE, ABSENT = Ambiguous("timeout"), Succeeded("run", "e_1"), NotFound("no errand there")
UNPROVED = (
    "no errand there; no lookup of errand.run has found an effect in this deployment yet, so its "
    "absence proves nothing: check the lookup's path and what it reads as absent"
)


@dataclass
class Errands:
    """A deployment with one job type, and what its provider answers next."""

    must_prove: bool = True
    acts: deque[EffectOutcome] = field(default_factory=deque)
    asks: deque[LookupOutcome] = field(default_factory=deque)
    lookups: int = 0

    def __post_init__(self) -> None:
        policy = replace(TERMS, safety=RetrySafety.LOOKUP, must_prove_lookup=self.must_prove)
        errand = errand_type(acts=lambda _: self.acts.popleft(), asks=lambda _: self._answer())
        errand.policies = {"": policy}
        self.world = InMemoryStack(contracts=(errand,), deployment="dev")
        self.world.aws.dynamodb.table_ids[JOBS] = GENERATION
        self.item = DynamoTableIdentity(self.world.aws.clients.dynamodb, JOBS)
        self.item.write(TableIdentity(deployment="dev", table_id=GENERATION), replacing=None)
        self.world.guard = TableGuard(self.item, self.world.clock)

    def _answer(self) -> LookupOutcome:
        self.lookups += 1
        return self.asks.popleft()

    def run(self, number: int, outcome: EffectOutcome) -> JobRow:
        self.acts.append(outcome)
        self.world.run({"job": "errand.run", "v": 1, "errand_id": str(number)})
        return self.world.job(JobKey(f"errand.run:{number}"))

    def sweep(self, *answers: LookupOutcome, after: timedelta = CHECK_INTERVAL) -> None:
        """Resolve what a sweep finds, with these answers of the provider."""
        self.world.clock.time += after
        self.asks.extend(answers)
        for item in self.world.finder().find(SweepRequest()).items:
            self.world.reconcile(item.key)
        assert not self.asks, "each of these is asked for"

    def known(self) -> str | None:
        """What the identity item says of the lookup."""
        identity = self.item.identity()
        assert identity is not None
        return identity.lookups.get("errand.run")


def test_absence_goes_to_review_until_a_lookup_has_found_an_effect() -> None:
    errands = Errands()
    errands.run(1, LOST)

    errands.sweep(ABSENT)

    row = errands.world.job(JobKey("errand.run:1"))
    assert (row.status, row.last_error) == (Status.NEEDS_REVIEW, UNPROVED)


def test_absence_is_believed_after_a_lookup_has_found_an_effect() -> None:
    errands = Errands()
    errands.run(1, LOST)
    errands.sweep(DONE)
    assert errands.known() == PROVED

    errands.run(2, LOST)
    errands.sweep(ABSENT)

    assert errands.world.job(JobKey("errand.run:2")).status is Status.READY


def test_first_success_is_looked_up_once() -> None:
    errands = Errands()
    errands.run(1, DONE)
    assert errands.known() == "errand.run:1"
    errands.run(2, DONE)  # while the first is tried

    errands.sweep(after=timedelta(seconds=20))  # the lookup may not see it yet
    errands.sweep(DONE)
    errands.sweep()
    errands.run(3, DONE)
    errands.sweep()

    assert (errands.known(), errands.lookups) == (PROVED, 1)
    assert errands.world.job(JobKey("errand.run:1")).evidence[-1].reason == (
        "the lookup of errand.run is tried on this job: run"
    )


def test_lookup_that_does_not_find_a_success_leaves_a_note_and_proves_nothing() -> None:
    errands = Errands()
    errands.run(1, DONE)

    errands.sweep(ABSENT)

    row = errands.world.job(JobKey("errand.run:1"))
    assert row.status is Status.FINISHED
    assert row.evidence[-1].reason == f"the lookup of errand.run is tried on this job: {UNPROVED}"
    assert errands.known() is None
    errands.run(2, DONE)
    assert errands.known() == "errand.run:2"


def test_lookup_without_an_answer_is_tried_again_for_a_while() -> None:
    errands = Errands()
    errands.run(1, DONE)

    errands.sweep(LookupFailed("provider is down"))
    assert errands.known() == "errand.run:1"
    errands.sweep(LookupFailed("provider is down"), after=LOOKUP_TRIAL)

    assert errands.known() is None
    assert errands.world.job(JobKey("errand.run:1")).status is Status.FINISHED


def test_dry_run_of_a_trial_writes_nothing() -> None:
    errands = Errands()
    row = errands.run(1, DONE)
    errands.world.clock.time += CHECK_INTERVAL
    errands.asks.append(DONE)

    errands.world.reconcile(row.job_key, dry_run=True)

    assert (errands.known(), errands.world.job(row.job_key)) == ("errand.run:1", row)


def test_trial_ends_with_its_row() -> None:
    errands = Errands()
    row = errands.run(1, DONE)
    del errands.world.store.jobs[row.job_key]

    errands.sweep()

    assert errands.known() is None


@pytest.mark.parametrize("must_prove", [True, False])
def test_lookup_writes_identity_once_and_only_if_its_policy_demands(*, must_prove: bool) -> None:
    errands = Errands(must_prove=must_prove)
    writes: list[AwsCall] = []

    def record(call: AwsCall, perform: Callable[[], T]) -> T:
        if call.writes and call.request.get("Key") == {"job_key": {"S": IDENTITY_KEY}}:
            writes.append(call)
        return perform()

    errands.world.aws.intercept = record
    for number in (1, 2):
        errands.run(number, LOST)
        errands.sweep(DONE)
        errands.run(10 + number, DONE)
        errands.sweep()

    assert len(writes) == int(must_prove)


def test_worker_after_a_restore_sends_nothing_on_an_absence_that_proves_nothing() -> None:
    errands = Errands()
    until = errands.world.clock.now() + timedelta(days=1)
    errands.world.guard = FakeTableGuard(TableOpen(deployment="dev", replays_until=until))
    errands.asks.append(ABSENT)

    row = errands.run(1, DONE)

    assert (row.status, row.last_error) == (Status.NEEDS_REVIEW, UNPROVED)
    assert list(errands.acts) == [DONE], "nothing was sent"
