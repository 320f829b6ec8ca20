"""What the registry asks of the stack: queues, tables, secrets and who sends where."""

from collections.abc import Iterable
from dataclasses import dataclass

from oncely.contract import AnyContract


@dataclass(frozen=True)
class RequiredResources:
    """The needs of some contracts together; each name once, in a stable order."""

    contracts: tuple[type[AnyContract], ...]

    @classmethod
    def from_contracts(cls, contracts: Iterable[type[AnyContract]]) -> "RequiredResources":
        """Everything that these contracts need."""
        return cls(tuple(contracts))

    def for_queue(self, queue: str) -> "RequiredResources":
        """Only the job types that a queue carries."""
        return RequiredResources(
            tuple(
                contract_type
                for contract_type in self.contracts
                if contract_type.resources.queue == queue
            )
        )

    def detecting_missing_jobs(self) -> "RequiredResources":
        """Only the job types that look for work which was never sent."""
        return RequiredResources(
            tuple(
                contract_type
                for contract_type in self.contracts
                if contract_type.detects_missing_jobs()
            )
        )

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that carry these job types."""
        return _sorted_unique(contract_type.resources.queue for contract_type in self.contracts)

    @property
    def tables(self) -> tuple[str, ...]:
        """The business tables that they read and write."""
        return _sorted_unique(
            name for contract_type in self.contracts for name in contract_type.resources.tables
        )

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets that they use."""
        return _sorted_unique(
            name for contract_type in self.contracts for name in contract_type.resources.secrets
        )

    @property
    def sends_to(self) -> tuple[str, ...]:
        """The queues that their effects feed."""
        return _sorted_unique(
            name for contract_type in self.contracts for name in contract_type.resources.sends_to
        )

    @property
    def actions(self) -> tuple[str, ...]:
        """The AWS actions that they perform themselves, such as ses:SendEmail."""
        return _sorted_unique(
            name for contract_type in self.contracts for name in contract_type.resources.iam_actions
        )

    @property
    def publishes_events(self) -> bool:
        """Whether any of them puts its ends on the event bus."""
        return any(contract_type.publishes_events for contract_type in self.contracts)


def _sorted_unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))
