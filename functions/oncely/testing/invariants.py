"""The promise, checked when all is quiet: one effect at most, a known end, and its proof."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from oncely.domain.jobs import Job
from oncely.domain.lifecycle import Status
from oncely.domain.profiles import RetryPolicy

if TYPE_CHECKING:
    from oncely.testing.world import Simulation  # it asks this module what is broken


def violated_invariants(simulation: "Simulation") -> list[str]:
    """What does not hold, in sentences; empty when all of it does."""
    return [
        *simulation.problems,
        *_queue_violations(simulation),
        *_job_violations(simulation),
        *simulation.scenario.check(simulation),
    ]


def _queue_violations(simulation: "Simulation") -> Iterator[str]:
    for letter in simulation.queue.messages:
        yield f"a message is left in the queue: {letter.body}"


def _job_violations(simulation: "Simulation") -> Iterator[str]:
    contracts = {contract.job_type: contract for contract in simulation.scenario.contracts}
    for row in simulation.store.jobs.values():
        yield from _row_violations(simulation, row, contracts[row.job_type].policy)
    yield from _effect_violations(simulation)


def _row_violations(simulation: "Simulation", row: Job, policy: RetryPolicy) -> Iterator[str]:
    if row.status is Status.NEEDS_REVIEW:
        if row.due_at is None and row.job_key not in simulation.ports.notifier.alerted:
            yield f"{row.job_key} needs review, and nobody was told or will be"
        if row.expires_at is not None:
            yield f"{row.job_key} needs review and may expire"
    elif not row.ended:
        yield f"{row.job_key} is left {row.status}"
    elif row.expires_at is None:
        yield f"{row.job_key} is {row.status} and never expires"
    elif row.due_at is not None:
        yield f"{row.job_key} is {row.status}, may expire, and is still due"
    first = simulation.statuses_before_replay.get(row.job_key)
    if first is not None and first is not row.status:
        yield f"{row.job_key} ended {first}; its late replay made it {row.status}"
    # The claim that finds the rule broken is counted, and does not act.
    max_attempts = policy.limits.max_attempts + (row.status is Status.NEEDS_REVIEW)
    if row.attempts > max_attempts:
        yield f"{row.job_key} had {row.attempts} attempts, {policy.limits.max_attempts} are allowed"


def _effect_violations(simulation: "Simulation") -> Iterator[str]:
    scenario = simulation.scenario
    _, message = simulation.app.registry.parse_mapping(scenario.message)
    key = scenario.contract.key(message)
    happened, job = scenario.count_effects(simulation), simulation.job(key)
    if happened > 1:
        yield f"the effect of {key} happened {happened} times"
    if job is None:
        yield f"{key} was never taken up"
    elif job.status is Status.FINISHED and happened == 0:
        yield f"{key} is finished, and its effect never happened"
    elif job.status is Status.FAILED and happened:
        yield f"{key} is failed, and its effect happened"
