"""An incomplete deployment: nothing is claimed, and nothing is sent twice."""

from datetime import timedelta

import pytest

from oncely.core.decide import MAX_BACKOFF, MESSAGE_GRACE, UNREACHABLE_BACKOFF
from oncely.core.effect_outcomes import Ambiguous, EffectOutcome, LookupUnsupported, NotFound
from oncely.core.errors import NotConfiguredError
from oncely.core.job_type import Call
from oncely.core.keys import JobKey
from oncely.core.lifecycle import Event, Status, WaitKind
from oncely.core.outcomes import RunOutcome, Unknown
from oncely.core.profiles import RetrySafety
from oncely.run.process_batch import Ack, action_for
from tests.support.in_memory_stack import InMemoryStack, charge_message
from tests.support.outcomes import awaits_resolution, is_duplicate, is_finished, is_retried
from tests.support.scheduled_charge import ScheduledCharge
from tests.unit.errand_job import FACTS, MESSAGE, Step, errand_type, raising_step
from tests.unit.errand_job import KEY as ERRAND

KEY = "payment.charge:order_18452"
REASON = "the secret 'stripe' is empty: store the API key in it"


def missing_secret(name: str) -> str:
    raise NotConfiguredError(f"the secret {name!r} is empty: store the API key in it")


def run_without_secret(world: InMemoryStack) -> RunOutcome:
    runner = world.runner(secret=missing_secret)
    return world.run(charge_message(), runner=runner)


def test_missing_secret_is_reported_on_the_job_before_claim(world: InMemoryStack) -> None:
    outcome = run_without_secret(world)

    job = world.job(KEY)
    assert is_retried(outcome)
    assert outcome.kind is WaitKind.SECRET, "one alarm for all jobs of the provider"
    assert (job.status, job.last_error, job.fence, job.attempts) == (Status.READY, REASON, 0, 0)
    assert world.inspector().get(JobKey(KEY)).headline == f"Not charged yet: {REASON}."  # type: ignore[union-attr]  # it is there
    assert world.payments.calls == []


def test_job_runs_at_once_when_secret_is_stored(world: InMemoryStack) -> None:
    run_without_secret(world)
    assert is_finished(world.run(charge_message()))
    assert len(world.payments.charges) == 1


def test_held_job_backs_off_and_its_row_takes_over(world: InMemoryStack) -> None:
    delays = []
    for _ in range(10):
        outcome = run_without_secret(world)
        assert is_retried(outcome)
        assert action_for(outcome, near_receive_limit=True) == Ack()
        assert world.job(KEY).due_at == outcome.until + MESSAGE_GRACE
        delays.append(outcome.until - world.clock.now())
        world.clock.time = outcome.until
    assert (delays[0], delays[-1]) == (UNREACHABLE_BACKOFF, MAX_BACKOFF)
    events = [(one.event, one.count) for one in world.job(KEY).evidence]
    assert events == [(Event.ENQUEUE, 1), (Event.PARK, 10)]


def test_time_without_secret_is_not_age(world: InMemoryStack) -> None:
    """Nothing was sent, and an alarm is on. Review would need an operator for each job."""
    began = world.clock.now()
    while world.clock.now() < began + timedelta(hours=30):
        outcome = run_without_secret(world)
        assert is_retried(outcome)
        world.clock.time = outcome.until

    assert is_finished(world.run(charge_message()))


def test_ended_job_answers_duplicate_without_secret(world: InMemoryStack) -> None:
    world.run(charge_message())
    assert is_duplicate(run_without_secret(world))


def test_scheduled_job_keeps_its_time_without_secret(world: InMemoryStack) -> None:
    world.contracts = (ScheduledCharge,)
    world.enqueuer().enqueue(charge_message(), run_at=world.clock.now() + timedelta(hours=2))
    before = world.job(KEY)

    run_without_secret(world)

    assert world.job(KEY) == before


def test_unusable_key_is_reported_before_claim(world: InMemoryStack) -> None:
    def malformed() -> str:
        raise NotConfiguredError("the secret 'stripe' is malformed")

    world.payments.key_scope = malformed
    assert is_retried(world.run(charge_message()))
    assert world.job(KEY).last_error == "the secret 'stripe' is malformed"


@pytest.mark.parametrize(
    "asks",
    [
        pytest.param(raising_step(NotConfiguredError(REASON)), id="lookup fails"),
        pytest.param(lambda _: LookupUnsupported(), id="no lookup"),
        pytest.param(lambda _: NotFound("there is none"), id="nothing found"),
    ],
)
def test_missing_secret_of_reconciler_is_reported_on_the_job(asks: Step) -> None:
    has_secret = True

    def key_scope() -> str:
        if has_secret:
            return "account 1"
        raise NotConfiguredError(REASON)

    errand = errand_type(acts=lambda _: Ambiguous("timeout"), asks=asks, key_scope=key_scope)
    world = InMemoryStack(contracts=(errand,))
    world.run(MESSAGE)
    world.clock.advance(hours=1)
    has_secret = False

    world.reconcile(ERRAND)

    job = world.job(ERRAND)
    assert (job.status, REASON in (job.last_error or "")) == (Status.UNKNOWN, True)
    assert job.due_at == world.clock.now() + UNREACHABLE_BACKOFF


def test_misconfigured_effect_is_not_repeated_after_acting() -> None:
    done: list[str] = []

    def act_then_fail(call: Call[str]) -> EffectOutcome:
        done.append(call.facts)
        raise NotConfiguredError("the table 'errands' is not there")

    errand = errand_type(RetrySafety.AT_MOST_ONCE, acts=act_then_fail)
    world = InMemoryStack(contracts=(errand,))

    outcomes = [world.run(MESSAGE) for _ in range(3)]

    assert isinstance(outcomes[0], Unknown)
    assert all(awaits_resolution(outcome) for outcome in outcomes[1:])
    assert done == [FACTS]
