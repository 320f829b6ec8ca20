"""Answers "was I charged twice?" from the jobs that moved, or were to move, money."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from oncely.domain.jobs import Job
from oncely.domain.lifecycle import ENDED, Status
from oncely.domain.money import Money


@dataclass(frozen=True, kw_only=True)
class Charges:
    """The jobs about one business id that carry an amount, by what came of them."""

    done: tuple[Money, ...] = ()
    refused: int = 0
    open: int = 0  # nobody can say yet that it was charged, or that it was not

    @classmethod
    def of(cls, jobs: Iterable[Job]) -> Self:
        """Count them; a job without an amount moves no money."""
        done: list[Money] = []
        refused = still_open = 0
        for job in jobs:
            if job.amount is None or job.currency is None:
                continue
            if job.status is Status.FINISHED:
                done.append(Money(job.amount, job.currency))
            elif job.status in ENDED:
                refused += 1
            else:
                still_open += 1
        return cls(done=tuple(done), refused=refused, open=still_open)

    @property
    def twice(self) -> bool:
        """Whether there is more than one charge."""
        return len(self.done) > 1

    @property
    def sentence(self) -> str | None:
        """What to tell the person who asks; None: nothing here moves money."""
        match len(self.done):
            case 0 if self.open:
                return "no charge is confirmed yet"
            case 0 if self.refused:
                return "not charged: the provider refused"
            case 0:
                return None
            case 1:
                said = f"charged once, {self.done[0]}"
            case times:
                said = f"charged {times} times: {', '.join(map(str, self.done))}"
        return f"{said}; another charge is still open" if self.open else said
