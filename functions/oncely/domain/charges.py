"""Answers "was I charged twice?" from the jobs that take money."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from oncely.domain.jobs import Job
from oncely.domain.lifecycle import ENDED, Status
from oncely.domain.money import Money


@dataclass(frozen=True, kw_only=True)
class Charges:
    """The jobs about one business id that take money, by what came of them."""

    done: Mapping[str, str] = field(default_factory=dict)  # what each charge took, by its id
    refused: int = 0
    open: int = 0  # nobody can say yet that it was charged, or that it was not

    @classmethod
    def of(cls, jobs: Iterable[Job]) -> Self:
        """Count them; two jobs that found the same charge are one charge."""
        done: dict[str, str] = {}
        found_paid: dict[str, str] = {}
        refused = still_open = 0
        for job in jobs:
            if job.status is Status.FINISHED:
                charge = _charge(job)
                (found_paid if charge is None else done)[charge or ""] = _amount(job)
            elif job.status in ENDED:
                refused += 1
            else:
                still_open += 1
        # A payment without a name is one of those that have one, if there are any.
        return cls(done=done or found_paid, refused=refused, open=still_open)

    @property
    def twice(self) -> bool:
        """Whether there is more than one charge."""
        return len(self.done) > 1

    @property
    def sentence(self) -> str | None:
        """What to tell the person who asks; None: nobody was to be charged."""
        amounts = ", ".join(self.done.values())
        match len(self.done):
            case 0 if self.open:
                return "no charge is confirmed yet"
            case 0 if self.refused:
                return "not charged: the provider refused"
            case 0:
                return None
            case 1:
                said = f"charged once, {amounts}"
            case times:
                said = f"charged {times} times: {amounts}"
        return f"{said}; another charge is still open" if self.open else said


def _charge(job: Job) -> str | None:
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
