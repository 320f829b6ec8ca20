"""What the registry asks of the stack: queues, tables, secrets and who sends where."""

from collections.abc import Iterable
from dataclasses import dataclass

from oncely.contract import AnyContract


@dataclass(frozen=True)
class Demand:
    """The needs of some contracts together; each name once, in a stable order."""

    contracts: tuple[type[AnyContract], ...]

    @classmethod
    def of(cls, contracts: Iterable[type[AnyContract]]) -> "Demand":
        """Everything that these contracts need."""
        return cls(tuple(contracts))

    def of_queue(self, queue: str) -> "Demand":
        """Only the job types that a queue carries."""
        return Demand(tuple(kind for kind in self.contracts if kind.needs.queue == queue))

    def looking_for_unserved(self) -> "Demand":
        """Only the job types that look for work which was never sent."""
        return Demand(tuple(kind for kind in self.contracts if kind.looks_for_unserved()))

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that carry these job types."""
        return _once(kind.needs.queue for kind in self.contracts)

    @property
    def tables(self) -> tuple[str, ...]:
        """The business tables that they read and write."""
        return _once(name for kind in self.contracts for name in kind.needs.tables)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets that they use."""
        return _once(name for kind in self.contracts for name in kind.needs.secrets)

    @property
    def sends_to(self) -> tuple[str, ...]:
        """The queues that their effects feed."""
        return _once(name for kind in self.contracts for name in kind.needs.sends_to)

    @property
    def actions(self) -> tuple[str, ...]:
        """The AWS actions that they perform themselves, such as ses:SendEmail."""
        return _once(name for kind in self.contracts for name in kind.needs.actions)

    @property
    def publishes_events(self) -> bool:
        """Whether any of them puts its ends on the event bus."""
        return any(kind.publishes_events for kind in self.contracts)


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))
