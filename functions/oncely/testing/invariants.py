"""The invariants at the end of a schedule: at most one effect, a known outcome, and its proof."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from oncely.domain.jobs import Job
from oncely.domain.lifecycle import IN_REVIEW
from oncely.domain.profiles import RetryPolicy

if TYPE_CHECKING:
    from oncely.testing.world import Simulation  # which imports this module


def violated_invariants(simulation: "Simulation") -> list[str]:
    """Return a sentence for each violated invariant."""
    return [
        *simulation.problems,
        *_queue_violations(simulation),
        *_job_violations(simulation),
        *_alert_violations(simulation),
        *simulation.scenario.check(simulation),
    ]


def _queue_violations(simulation: "Simulation") -> Iterator[str]:
    for message in simulation.queue.messages:
        yield f"a message is left in the queue: {message.body}"


def _alert_violations(simulation: "Simulation") -> Iterator[str]:
    alerted = simulation.ports.alerted
    for key in simulation.conflicts - alerted:
        yield f"a message of {key} was rejected, but no alert was sent"
    for job in simulation.scenario.jobs:
        if job.is_forged and job.job_key not in alerted:
            yield f"the row of {job.job_key} was forged, but no alert was sent"
    for digest in simulation.job_rows.due_digests():
        yield f"the digest {digest} was not sent"


def _job_violations(simulation: "Simulation") -> Iterator[str]:
    contracts = {contract.job_type: contract for contract in simulation.scenario.contracts}
    for row in simulation.jobs.values():
        yield from _row_violations(simulation, row, contracts[row.job_type].policy_of(row))
    yield from _effect_violations(simulation)


def _row_violations(simulation: "Simulation", row: Job, policy: RetryPolicy) -> Iterator[str]:
    if row.status in IN_REVIEW:
        if row.due_at is None and row.job_key not in simulation.ports.alerted:
            yield f"{row.job_key} needs review, but no alert or digest was sent or is due"
        if row.expires_at is not None:
            yield f"{row.job_key} needs review and may expire"
    elif not row.ended:
        yield f"{row.job_key} is still {row.status}"
    elif row.expires_at is None:
        yield f"{row.job_key} is {row.status} and never expires"
    elif row.due_at is not None:
        yield f"{row.job_key} is {row.status}, may expire, and is still due"
    first = simulation.statuses_before_replay.get(row.job_key)
    if first is not None and first is not row.status:
        yield f"{row.job_key} was {first}; a late replay made it {row.status}"
    # The claim that exceeds the limit is counted, but executes nothing.
    max_attempts = policy.limits.max_attempts + (row.status in IN_REVIEW)
    if row.attempts > max_attempts:
        yield f"{row.job_key} had {row.attempts} attempts, {policy.limits.max_attempts} are allowed"


def _effect_violations(simulation: "Simulation") -> Iterator[str]:
    scenario = simulation.scenario
    _, message = simulation.app.registry.parse_mapping(scenario.message)
    key = scenario.contract.key(message)
    effects, job = scenario.count_effects(simulation), simulation.job(key)
    if effects > 1:
        yield f"the effect of {key} happened {effects} times"
    if job is None:
        yield f"{key} was never claimed"
    elif job.status.is_finished and effects == 0:
        yield f"{key} is finished, but its effect never happened"
    elif job.ended and not job.status.is_finished and effects:
        yield f"{key} is {job.status}, but its effect happened"
