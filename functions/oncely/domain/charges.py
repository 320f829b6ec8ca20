"""Answers "was I charged twice?" from the jobs that take money."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from oncely.domain.jobs import Job
from oncely.domain.lifecycle import ENDED, Status
from oncely.domain.money import Money


@dataclass(frozen=True, kw_only=True)
class ChargeSummary:
    """The jobs about one business id that take money, by what came of them."""

    succeeded: Mapping[str, str] = field(default_factory=dict)  # what each charge took, by its id
    declined: int = 0
    unresolved: int = 0  # nobody can say yet that it was charged, or that it was not

    @classmethod
    def from_jobs(cls, jobs: Iterable[Job]) -> Self:
        """Count them; two jobs that found the same charge are one charge."""
        succeeded: dict[str, str] = {}
        found_paid: dict[str, str] = {}
        declined = unresolved = 0
        for job in jobs:
            if job.status is Status.FINISHED:
                charge = _charge_id(job)
                (found_paid if charge is None else succeeded)[charge or ""] = _amount(job)
            elif job.status in ENDED:
                declined += 1
            else:
                unresolved += 1
        # A payment without a name is one of those that have one, if there are any.
        return cls(succeeded=succeeded or found_paid, declined=declined, unresolved=unresolved)

    @property
    def is_duplicate(self) -> bool:
        """Whether there is more than one charge."""
        return len(self.succeeded) > 1

    @property
    def summary(self) -> str | None:
        """What to tell the person who asks; None: nobody was to be charged."""
        amounts = ", ".join(self.succeeded.values())
        match len(self.succeeded):
            case 0 if self.unresolved:
                return "no charge is confirmed yet"
            case 0 if self.declined:
                return "not charged: the provider refused"
            case 0:
                return None
            case 1:
                text = f"charged once, {amounts}"
            case times:
                text = f"charged {times} times: {amounts}"
        return f"{text}; another charge is still open" if self.unresolved else text


def _charge_id(job: Job) -> str | None:
    """The provider's id of the charge; a job that found an order paid names the same one.

    None: it found an order that was paid, and nobody noted by which charge.
    """
    result = job.result or {}
    # What a person gave as the reference is what stands on the order.
    named = result.get("charge_id") or result.get("reference") or job.provider_ref
    return None if named is None else str(named)


def _amount(job: Job) -> str:
    if job.amount is None or job.currency is None:
        return "of an amount that is not recorded"
    return str(Money(job.amount, job.currency))
