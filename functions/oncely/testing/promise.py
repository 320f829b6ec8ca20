"""The promise, checked when all is quiet: one effect at most, a known end, and its proof."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from oncely.domain.jobs import Job
from oncely.domain.lifecycle import Status
from oncely.domain.profiles import Terms

if TYPE_CHECKING:
    from oncely.testing.world import World  # it asks this module what is broken


def what_is_broken(world: "World") -> list[str]:
    """What does not hold, in sentences; empty when all of it does."""
    return [*world.problems, *_rest(world), *_jobs(world), *world.scenario.check(world)]


def _rest(world: "World") -> Iterator[str]:
    for letter in world.letters.held:
        yield f"a message is left in the queue: {letter.body}"


def _jobs(world: "World") -> Iterator[str]:
    contracts = {contract.job_type: contract for contract in world.scenario.contracts}
    for row in world.store.jobs.values():
        yield from _row(world, row, contracts[row.job_type].terms)
    yield from _effect(world)


def _row(world: "World", row: Job, terms: Terms) -> Iterator[str]:
    if row.status is Status.NEEDS_REVIEW:
        if row.due_at is None and row.job_key not in world.services.alerts.told:
            yield f"{row.job_key} needs review, and nobody was told or will be"
        if row.expires_at is not None:
            yield f"{row.job_key} needs review and may expire"
    elif not row.ended:
        yield f"{row.job_key} is left {row.status}"
    elif row.expires_at is None:
        yield f"{row.job_key} is {row.status} and never expires"
    elif row.due_at is not None:
        yield f"{row.job_key} is {row.status}, may expire, and is still due"
    first = world.ended.get(row.job_key)
    if first is not None and first is not row.status:
        yield f"{row.job_key} ended {first}; its late replay made it {row.status}"
    # The claim that finds the rule broken is counted, and does not act.
    most = terms.stop.attempts + (row.status is Status.NEEDS_REVIEW)
    if row.attempts > most:
        yield f"{row.job_key} had {row.attempts} attempts, {terms.stop.attempts} are allowed"


def _effect(world: "World") -> Iterator[str]:
    scenario = world.scenario
    _, message = world.services.registry.read(scenario.message)
    key = scenario.contract.key(message)
    happened, job = scenario.effects(world), world.job(key)
    if happened > 1:
        yield f"the effect of {key} happened {happened} times"
    if job is None:
        yield f"{key} was never taken up"
    elif job.status is Status.FINISHED and happened == 0:
        yield f"{key} is finished, and its effect never happened"
    elif job.status is Status.FAILED and happened:
        yield f"{key} is failed, and its effect happened"
